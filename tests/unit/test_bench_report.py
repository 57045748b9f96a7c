"""The benches on scripted backends, their statistics, and the one renderer of reports."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from relay_integrations import CueProfile, RelayEngine
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import ScriptedBackend, Vocabulary
from relay_integrations.cli.main import app
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.terminal import Terminal
from relay_integrations.evaluation import engine_bench
from relay_integrations.evaluation.accuracy import accuracy_bench, match_utilisation
from relay_integrations.evaluation.machine import describe_machine, describe_versions
from relay_integrations.evaluation.report import COLUMNS, Report, print_report
from relay_integrations.evaluation.statistics import spread, wilson
from relay_integrations.policies import RelayGen
from relay_integrations.tiny.task import problems

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


# --- the bench of accuracy


def knowing(right: bool) -> tuple[ScriptedBackend, ScriptedBackend]:
    """A large model that knows all problems, and a small one that can only restate, unless `right`."""
    vocabulary = Vocabulary()
    traces = {p.question: p for seed in (5, 6) for p in problems(20, seed)}

    def script(knows: bool) -> Any:
        def say(so_far: str, request: GenerateRequest) -> str:
            prompt = vocabulary.bytes_of(request.ids[: request.output_start]).decode()
            problem = next(p for question, p in traces.items() if question in prompt)
            trace = problem.trace if knows or so_far else problem.trace.replace(f"{{{problem.answer}}}", "{0}")
            return trace[len(so_far) :] if trace.startswith(so_far) else ""

        return say

    return ScriptedBackend(script(True), name="L", vocabulary=vocabulary), ScriptedBackend(script(right), name="S", vocabulary=vocabulary)


def test_the_accuracy_bench_compares_the_policies() -> None:
    with RelayEngine(*knowing(False), cue_profile=CueProfile.of("So", "Thus", "Therefore", "Okay")) as engine:
        made = accuracy_bench(engine, n=8, seed=5)
    assert made.pair == {"large": "L", "small": "S"}
    assert made.backend == "scripted"
    rows = {(row["policy"], row.get("case", "")): row for row in made.rows}
    assert [policy for policy, _ in rows] == ["large-only", "small-only", "relaygen", "all-cues", "random", "random"]
    large, small, relayed = (rows[name, ""] for name in ("large-only", "small-only", "relaygen"))
    assert (large["accuracy"], small["accuracy"], relayed["accuracy"]) == (1, 0, 1)
    assert (large["utilisation"], small["utilisation"]) == (1, 0)
    assert 0 < relayed["utilisation"] < 1
    assert (large["handoffs"], relayed["handoffs"] > 5) == (0, True)
    assert relayed["accuracy_ci"] == list(wilson(8, 8))
    random = [row for (policy, _), row in rows.items() if policy == "random"]
    assert all(abs(row["utilisation"] - relayed["utilisation"]) < 0.2 for row in random)


def test_the_random_baseline_is_matched_to_the_utilisation_of_relaygen() -> None:
    with RelayEngine(*knowing(True), cue_profile=CueProfile.of("So", "Thus", "Therefore", "Okay")) as engine:
        assert engine.cue_profile is not None
        p = match_utilisation(engine, RelayGen(cues=engine.cue_profile), problems(12, 5))
    assert 0.05 < p < 0.95


def test_the_accuracy_bench_prints_a_table() -> None:
    def open(choice: ModelChoice) -> RelayEngine:
        assert choice.tiny
        return RelayEngine(*knowing(True), cue_profile=CueProfile.of("So", "Thus"))

    result = CliRunner().invoke(app, ["bench", "accuracy", "--n", "2", "--seed", "5"], obj=Terminal(open=open))
    assert result.exit_code == 0
    assert "large-only" in result.stdout
    assert "100 %" in result.stdout
    assert result.stderr == ""
