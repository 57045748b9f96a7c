"""Redoes everything that depends on the tiny models' weights, in a clone of the repository: `make tiny-refresh`.

The cue profiles, the tables of the model card and the README, the plots, and the README's capture of a demo. Takes about an hour on two
cores. A table that is there already for these weights is kept, so that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from relay_integrations.cues.profile import PROFILE_DIR
from relay_integrations.engine import RelayEngine
from relay_integrations.evaluation.accuracy import BASELINES, AccuracySettings, accuracy_bench
from relay_integrations.evaluation.plot import plot_accuracy
from relay_integrations.evaluation.report import markdown
from relay_integrations.tiny import OTHER_SMALL, SMALL, WEIGHTS, cues
from relay_integrations.tiny.formats import MEASURED

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "relay_integrations"
README, CARD = ROOT / "README.md", PACKAGE / "tiny" / "MODEL_CARD.md"
MEASURED_DIR, TRIAL_DIR = ROOT / "docs" / "measured", ROOT / "build" / "measured"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what is measured on which pair with which cues."""

    settings: AccuracySettings
    small: str = SMALL
    cues: str | None = None
    columns: tuple[str, ...] = field(
        default=("policy", "n", "accuracy", "accuracy_ci", "difference", "difference_ci", "utilisation", "handoffs")
    )


FULL = AccuracySettings(n=500)
TABLES = {
    "amounts": Table(FULL),
    "formats": Table(
        replace(FULL, n=100, families=MEASURED, policies=("large-only", "small-only", "relaygen")),
        columns=("family", "policy", "n", "accuracy", "accuracy_ci", "utilisation", "handoffs"),
    ),
    "turns": Table(
        replace(FULL, n=200, families=("calculator",), policies=("large-only", "small-only", "relaygen"), turns=("rule", "large", "small")),
        columns=("policy", "case", "n", "accuracy", "accuracy_ci", "difference", "difference_ci", "utilisation", "handoffs"),
    ),
    "other-tokenizer": Table(FULL, small=OTHER_SMALL),
    "sampled": Table(replace(FULL, options={"temperature": 0.6})),
    "queues": Table(replace(FULL, families=("queues",))),
    "queues-own-cues": Table(replace(FULL, families=("queues",), policies=("large-only", "relaygen", "random")), cues="tiny-queues"),
}


def main() -> int:
    """Reads the command line and redoes what it names."""
    parser = argparse.ArgumentParser(prog="python tools/tiny_refresh.py", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the work (%(default)s)")
    parser.add_argument(
        "--n",
        type=int,
        default=None,
        help=f"fewer problems a table, to try things out: into {TRIAL_DIR.relative_to(ROOT)}, no document is touched",
    )
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES), metavar="NAME", help=f"which: {', '.join(TABLES)}")
    parser.add_argument("--keep-cues", action="store_true", help="do not choose the cues anew")
    options = parser.parse_args()
    if not options.keep_cues:
        cues.write_profiles(PROFILE_DIR)
    folder = MEASURED_DIR if options.n is None else TRIAL_DIR
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.tables:
        table = TABLES[name]
        n = table.settings.n if options.n is None else min(options.n, table.settings.n)
        measure(name, replace(table, settings=replace(table.settings, jobs=options.jobs, n=n)), folder)
    if options.n is None:
        for document in (README, CARD):
            document.write_text(with_tables(document.read_text(encoding="utf-8")), encoding="utf-8")
        README.write_text(with_demo(README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def with_tables(text: str, folder: Path = MEASURED_DIR) -> str:
    """A document with each table between its marks as it was last measured: `<!-- table NAME -->` … `<!-- end -->`."""

    def put(match: re.Match[str]) -> str:
        path = folder / f"{match[1]}.json"
        if not path.exists():
            return match[0]
        kept = json.loads(path.read_text(encoding="utf-8"))
        return f"<!-- table {match[1]} -->\n{markdown(kept['report']['rows'], TABLES[match[1]].columns)}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", put, text, flags=re.DOTALL)


def with_demo(text: str) -> str:
    """The README with the demo that it shows run anew."""
    capture = re.search(r"(\$ relay (demo[^#\n]*)#[^\n]*\n\n).*?(\n```)", text, re.DOTALL)
    if capture is None:
        raise SystemExit("README.md shows no demo")
    run = [sys.executable, "-c", "from relay_integrations.cli.main import main; main()", *capture[2].split()]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    shown = re.sub(r"\n+This problem again:[^\n]*", "", printed).strip("\n")
    return text[: capture.start()] + capture[1] + shown + capture[3] + text[capture.end() :]


def fingerprint(table: Table) -> str:
    """Changes with everything that a table's figures depend on: settings, weights, cues, and the code that draws and grades."""
    digest = hashlib.sha256(repr((replace(table.settings, jobs=1), table.small, table.cues)).encode())
    tiny = PACKAGE / "tiny"
    code = [*tiny.glob("tasks/*.py"), *tiny.glob("formats/*.py"), tiny / "sets.py", PACKAGE / "evaluation" / "solving.py"]
    for path in sorted([*WEIGHTS.glob("*/*"), *PROFILE_DIR.glob("tiny*.json"), *code]):
        digest.update(path.name.encode() + re.sub(rb'"date": "[^"]*"', b"", path.read_bytes()))
    return digest.hexdigest()


def measure(name: str, table: Table, folder: Path) -> None:
    """Measures a table, unless it is there already, and writes it with its plot."""
    path = folder / f"{name}.json"
    now = fingerprint(table)
    if path.exists() and json.loads(path.read_text(encoding="utf-8"))["fingerprint"] == now:
        _say(f"{name}: there already")
        return
    told = 0

    def progress(what: str, done: int, total: int) -> None:
        nonlocal told
        tenth = 10 * done // max(1, total)
        if tenth != told:
            told = tenth
            _say(f"{name}: {what}, {done} of {total}")

    report = accuracy_bench(partial(RelayEngine.tiny, small=table.small, cue_profile=table.cues), table.settings, progress)
    path.write_text(json.dumps({"fingerprint": now, "report": _rounded(report.to_dict())}, indent=1) + "\n", encoding="utf-8")
    if set(table.settings.policies) == set(BASELINES):
        plot_accuracy(report, folder / f"{name}.svg")
    _say(f"{name}:\n{markdown(report.rows, table.columns)}")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
