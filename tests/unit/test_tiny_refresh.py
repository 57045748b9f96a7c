"""What redoes the figures of the tiny models: tables in documents, the fingerprint that says when they are stale, trials."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relay_integrations.evaluation.report import Report
from tools import tiny_refresh
from tools.tiny_refresh import CARD, README, TABLES, fingerprint, measure, with_demo, with_tables

ROWS = [
    {"policy": "large-only", "family": "amounts", "n": 3, "accuracy": 1.0, "accuracy_ci": [0.4, 1.0], "utilisation": 1.0, "handoffs": 0}
]


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    (tmp_path / "amounts.json").write_text(json.dumps({"fingerprint": "x", "report": {"rows": ROWS}}))
    return tmp_path


def test_a_table_is_put_between_its_marks_and_the_rest_is_left(measured: Path) -> None:
    text = "before\n<!-- table amounts -->\nold\n<!-- end -->\nbetween\n<!-- table queues -->\nkept\n<!-- end -->\nafter\n"
    done = with_tables(text, measured)
    assert "| large-only | 3 | 100 % (40–100 %) |" in done
    assert "old" not in done
    assert done.startswith("before\n<!-- table amounts -->\n")
    assert done.endswith("<!-- end -->\nbetween\n<!-- table queues -->\nkept\n<!-- end -->\nafter\n")
    assert with_tables(done, measured) == done


def test_every_table_of_the_documents_is_one_that_is_measured() -> None:
    import re

    for document in (README, CARD):
        marks = re.findall(r"<!-- table ([\w-]+) -->", document.read_text(encoding="utf-8"))
        assert marks
        assert set(marks) <= set(TABLES)


def test_the_demo_is_put_in_without_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **options: Any) -> SimpleNamespace:
        asked.append(command)
        return SimpleNamespace(stdout="new\n\nlines\n\nThis problem again: relay demo --seed 4\n")

    monkeypatch.setattr(subprocess, "run", run)
    text = "```text\n$ relay demo --seed 4     # a remark\n\nold\n```\nrest"
    assert with_demo(text) == "```text\n$ relay demo --seed 4     # a remark\n\nnew\n\nlines\n```\nrest"
    assert asked[0][-3:] == ["demo", "--seed", "4"]


def test_a_table_is_stale_when_its_settings_change_but_not_with_the_number_of_processes() -> None:
    table = TABLES["amounts"]
    same = replace(table, settings=replace(table.settings, jobs=7))
    assert fingerprint(same) == fingerprint(table)
    for other in (replace(table.settings, n=7), replace(table.settings, seed=7), replace(table.settings, options={"temperature": 1.0})):
        assert fingerprint(replace(table, settings=other)) != fingerprint(table)
    assert fingerprint(replace(table, cues="tiny-queues")) != fingerprint(table)


def test_a_table_that_is_there_is_kept_and_a_stale_one_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[object] = []

    def bench(open_engine: object, settings: object, progress: object) -> Report:
        calls.append(settings)
        return Report(bench="accuracy", pair={"large": "L", "small": "S"}, backend="b", rows=ROWS)

    monkeypatch.setattr(tiny_refresh, "accuracy_bench", bench)
    table = TABLES["queues-own-cues"]
    measure("x", table, tmp_path)
    measure("x", table, tmp_path)
    assert len(calls) == 1
    measure("x", replace(table, settings=replace(table.settings, n=9)), tmp_path)
    assert len(calls) == 2
    assert json.loads((tmp_path / "x.json").read_text())["report"]["rows"] == ROWS
