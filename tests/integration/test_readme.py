"""What the README shows is true: its Python runs and answers right, its commands exist, its capture is what comes out."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from relay_integrations import RequestOptions

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_first_python_runs_as_it_stands_and_is_right() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(PYTHON[0], "README.md", "exec"), {})
    assert "[small: cue]" in out.getvalue()
    assert re.findall(r"\\boxed\{(\d+)\}", out.getvalue()) == ["42", "39"]


def test_the_other_python_runs_on_the_tiny_pair() -> None:
    shown = io.StringIO()
    for code in PYTHON[1:]:
        for unavailable, here in (
            ('large="…/large-model", small="…/small-model",', "*TINY, "),
            ('device="cuda", dtype="bfloat16",', 'dtype="float32",'),
            ('cue_profile="my-cues.json"', 'cue_profile="tiny"'),
            ("max_tokens=4096", "max_tokens=60"),
        ):
            code = code.replace(unavailable, here)
        setup = "from relay_integrations import RelayEngine\nfrom relay_integrations.tiny import pair_paths\nTINY = pair_paths()\n"
        with contextlib.redirect_stdout(shown):
            exec(compile(setup + code, "README.md", "exec"), {})


def test_the_capture_is_what_the_demo_prints() -> None:
    capture = re.search(r"\$ relay (demo[^#\n]*)#[^\n]*\n\n(.*?)\n```", README, re.DOTALL)
    assert capture is not None
    run = [sys.executable, "-c", "from relay_integrations.cli.main import main; main()", *capture[1].split()]
    printed = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120).stdout

    def timeless(text: str) -> list[str]:
        return [line for line in text.splitlines() if line and not re.match(r"ms |tokens/s|This problem again", line)]

    assert timeless(printed) == timeless(capture[2])


@pytest.mark.parametrize(
    "name", ["temperature", "stop", "n", "seed", "reasoning", "large_token_budget", "reasoning_budget", "large_sampling"]
)
def test_the_options_it_names_exist(name: str) -> None:
    assert name in README
    assert name in RequestOptions.model_fields


@pytest.mark.parametrize("document", ["README.md", "relay_integrations/tiny/MODEL_CARD.md"])
def test_nothing_is_left_to_fill_in(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert not re.findall(r"\b(?:(?:LARGE|SMALL|OTHER)_[A-Z]+|TIMES|TEXT_AFTER|TODO)\b", text)
    assert not re.findall(r"<!-- table [\w-]+ -->\n<!-- end -->", text), "a table is empty: make tiny-refresh"
