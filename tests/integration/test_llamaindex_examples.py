"""The examples for LlamaIndex run as they stand, offline, and say what they should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "llamaindex"

SAID = {
    "query_engine.py": [r"Ann has 37 pens\.\n  from: 'Ann owns pens", r"large → small: cue '\w+' \(\d×\)", r"Tom has 120 cards\."],
    "agent.py": [
        r"^\[large\] ",
        r"calculator\(1234\*56\) = 69104",
        r"= The result is 69104",
        r"calculator\(12\+30\) = 42",
        r"\[small\] ",
        r"= .*boxed\{42\}",
    ],
    "structured.py": [
        r"structured_predict: Amount\(items='coins', count=12\)",
        r"stream_structured_predict:\n   \{'items': .*'count': \d+\}",
    ],
    "events.py": [
        r"tokens: relay-tiny-large → relay-tiny-small \(cue '\w+'\)",
        r"^= .*boxed\{42\}",
        r"^Relay\.complete\n  relay: \d+ tokens\n    relay:large: \d+ tokens\n    relay:small: \d+ tokens$",
    ],
}
"""What each of them prints, in this order."""


def test_every_example_is_here() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_and_says_what_it_should(name: str) -> None:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RELAY_")}
    env = {**kept, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, FOLDER / name], capture_output=True, text=True, check=False, env=env, timeout=280)
    assert done.returncode == 0, done.stderr
    assert re.search(".*?".join(SAID[name]), done.stdout, re.DOTALL | re.MULTILINE), done.stdout
