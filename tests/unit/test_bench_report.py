"""The benches on scripted backends, their statistics, and the one renderer of reports."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from relay_integrations import RelayEngine
from relay_integrations.cli.main import app
from relay_integrations.evaluation import engine_bench, langchain_bench
from relay_integrations.evaluation.machine import describe_machine, describe_versions
from relay_integrations.evaluation.report import COLUMNS, Report, markdown, print_report
from relay_integrations.evaluation.statistics import spread, wilson

KEYS = {"bench", "pair", "backend", "machine", "versions", "rows"}

# --- statistics


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718), (29, 29, 0.8830, 1.0)],
)
def test_the_wilson_interval_agrees_with_the_literature(successes: int, trials: int, low: float, high: float) -> None:
    # Newcombe (1998), table I, method 3; the last is the mirror image of 0 of 29
    assert wilson(successes, trials) == pytest.approx((low, high), abs=2e-4)


def test_the_wilson_interval_stays_within_0_and_1() -> None:
    for trials in (1, 2, 100):
        for successes in range(trials + 1):
            low, high = wilson(successes, trials)
            assert 0 <= low <= successes / trials <= high <= 1


def test_a_spread_is_median_and_quartiles() -> None:
    assert spread([5, 1, 3, 2, 4]) == (3, 2, 4)
    assert spread([2, 9]) == (5.5, 2, 9)
    assert spread([7]) == (7, 7, 7)


# --- reports


def report(*rows: dict[str, Any]) -> Report:
    return Report(bench="b", pair={"large": "L", "small": "S"}, backend="scripted", rows=rows, notes=("A note.",))


def printed(made: Report, **console: Any) -> str:
    out = io.StringIO()
    print_report(Console(file=out, **console), made)
    return out.getvalue()


def test_a_report_as_json_has_the_agreed_keys() -> None:
    data = json.loads(json.dumps(report({"policy": "relaygen", "n": 3}).to_dict()))
    assert set(data) == KEYS
    assert data["rows"] == [{"policy": "relaygen", "n": 3}]
    assert data["machine"] == json.loads(json.dumps(describe_machine() | {"load": data["machine"]["load"]}))
    assert data["versions"] == describe_versions()
    assert "python" in data["versions"]


def test_a_report_as_a_table() -> None:
    rows = [
        {
            "policy": "large-only",
            "n": 100,
            "accuracy": 1.0,
            "accuracy_ci": [0.963, 1.0],
            "ms_per_token": 1.9,
            "ms_per_token_spread": [1.8, 2.04],
        },
        {"policy": "random", "case": "seed 1", "n": 100, "accuracy": 0.705, "accuracy_ci": [0.61, 0.78], "ms_per_token": 12.345},
    ]
    lines = printed(report(*rows)).splitlines()
    assert lines[0].startswith("b: L with S on scripted")
    assert [line.split() for line in lines[2:5]] == [
        ["policy", "case", "n", "right", "95", "%", "ms", "a", "token"],
        ["large-only", "100", "100", "%", "96–100", "%", "1.9", "(1.8–2.04)"],
        ["random", "seed", "1", "100", "70.5", "%", "61–78", "%", "12.3"],
    ]
    assert lines[-1] == "A note."


def test_rows_with_other_figures_stand_in_a_table_of_their_own() -> None:
    text = printed(report({"policy": "a", "ms_per_token": 1.0, "aim": 0.025}, {"policy": "b", "requests_per_s": 12.0}))
    assert [line.split() for line in text.splitlines()[2:7]] == [
        ["policy", "ms", "a", "token", "aim"],
        ["a", "1", "≤", "0.025"],
        [],
        ["policy", "requests/s"],
        ["b", "12"],
    ]


def test_the_row_that_the_others_are_held_against_stands_in_their_table() -> None:
    rows = [{"policy": "a", "accuracy": 1.0}, {"policy": "b", "accuracy": 0.9, "difference": -0.1, "difference_ci": [-0.2, 0.01]}]
    assert [line.split() for line in printed(report(*rows)).splitlines()[2:5]] == [
        ["policy", "right", "vs", "large", "95", "%"],
        ["a", "100", "%"],
        ["b", "90", "%", "-10.0", "-20.0", "…", "+1.0"],
    ]


def test_a_markdown_table_has_intervals_behind_their_figures() -> None:
    rows = [
        {"policy": "a", "accuracy": 1.0, "accuracy_ci": [0.9, 1.0]},
        {"policy": "b", "accuracy": 0.5, "accuracy_ci": [0.4, 0.6], "n": 3},
    ]
    assert markdown(rows, ("policy", "accuracy", "accuracy_ci")).splitlines() == [
        "| policy | right (95 %) |",
        "|---|---|",
        "| a | 100 % (90–100 %) |",
        "| b | 50 % (40–60 %) |",
    ]


def test_without_a_terminal_no_cell_is_cut() -> None:
    case = "a case that is described in far more words than eighty columns hold, " * 3
    assert case in printed(report({"policy": "a", "case": case, "n": 1}))
    assert "\x1b" not in printed(report({"policy": "a", "n": 1}))


# --- the engine's bench


def test_the_engine_bench_measures_each_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_bench, "ROUNDS", 2)
    result = CliRunner().invoke(app, ["bench", "engine", "--n", "20", "--json"])
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert set(data) == KEYS
    assert data["bench"] == "engine"
    rows = data["rows"]
    known = {key for column in COLUMNS for key in (column.key, f"{column.key}_spread")}
    assert all(set(row) <= known for row in rows)
    assert sum("ms_per_token" in row for row in rows) == 3
    assert [row["handoffs"] > 4 for row in rows if "ms_per_handoff" in row] == [True] * 3
    assert [row["n"] for row in rows if "requests_per_s" in row] == [20, 20]
    assert next(row for row in rows if "kib_per_request" in row)["kib_per_request"] > 1


def test_the_texts_of_the_engine_bench_hand_off_as_they_say() -> None:
    with RelayEngine(*engine_bench.scripted_pair(engine_bench.plain_text(140)), cue_profile=engine_bench.CUES) as engine:
        assert engine.generate("x").usage.handoffs == {"think_end": 1}
    with RelayEngine(*engine_bench.scripted_pair(engine_bench.relayed_text(240)), cue_profile=engine_bench.CUES) as engine:
        usage = engine.generate("x").usage
    assert usage.handoffs == {"cue": 10, "sentence_end": 10, "think_end": 1}
    assert usage.completion_tokens == pytest.approx(240, abs=12)


# --- the bench of LangChain's chat model


def test_the_langchain_bench_says_what_a_chunk_costs_more_than_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langchain_bench, "ROUNDS", 3)
    result = CliRunner().invoke(app, ["bench", "langchain", "--n", "60", "--json"])
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert (set(data), data["bench"]) == (KEYS, "langchain")
    known = {key for column in COLUMNS for key in (column.key, f"{column.key}_spread")}
    assert [set(row) <= known for row in data["rows"]] == [True] * 3
    assert [(row["n"], row["tokens"] > 40, row["handoffs"] > 3) for row in data["rows"]] == [(3, True, True)] * 3
    assert [row.get("aim") for row in data["rows"]] == [0.2, 0.2, None]
    assert "langchain-core" in data["versions"]


def test_the_langchain_bench_names_the_extra_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core.callbacks", None)
    result = CliRunner().invoke(app, ["bench", "langchain"])
    assert result.exit_code != 0
    assert "relay-integrations[langchain]" in result.output
