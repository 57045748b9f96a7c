"""The examples for LangChain run as they stand, offline, and say what they should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "langchain"

SAID = {
    "chain.py": [r"invoke: .*42", r"stream: .*71", r"reasoning: .*22", r"\d+ tokens by the large model, \d+ by the small one; .*'cue'"],
    "agent.py": [
        r"calculator\(1234\*56\) = 69104",
        r"The result is 69104",
        r"calculator\(12\+30\) = 42",
        r"\[large → small: \w+\]",
        r"boxed\{42\}",
    ],
    "fallback.py": [r"one model down: +42\. .*'fallback': 1", r"both down: .*42.* by relay-tiny-large\+relay-tiny-small"],
    "tracing.py": [
        r"^how many coins \(llm\) ended, \d+ tokens\n  relay:large \(chain\) ended",
        r"  relay:small \(chain\) ended, \d+ tokens",
    ],
}
"""What each of them prints, in this order."""


def test_every_example_is_here() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {*SAID, "langsmith_stand_in.py"}


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_and_says_what_it_should(name: str) -> None:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LANGSMITH_", "LANGCHAIN_", "RELAY_"))}
    env = {**kept, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, FOLDER / name], capture_output=True, text=True, check=False, env=env, timeout=280)
    assert done.returncode == 0, done.stderr
    assert re.search(".*?".join(SAID[name]), done.stdout, re.DOTALL | re.MULTILINE), done.stdout
    assert "open" not in done.stdout
