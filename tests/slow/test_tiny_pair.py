"""The claims on the shipped models: RelayGen is as right as the large model alone, random delegation at its share is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from transformers import AutoTokenizer

from relay_integrations import RelayEngine
from relay_integrations.evaluation.accuracy import AccuracySettings, accuracy_bench
from relay_integrations.tiny import SMALL, model_path
from relay_integrations.tiny.formats import talk
from relay_integrations.tiny.formats.context import CONDENSE, REFINE, RETRIEVAL
from relay_integrations.tiny.formats.tools import CALCULATOR
from relay_integrations.tiny.tasks import amounts, problems, split_of
from relay_integrations.tiny.training.recipes import RECIPES, Recipe
from relay_integrations.tiny.training.rows import Feed

pytestmark = pytest.mark.slow

N = 500


def test_the_relay_is_as_right_as_the_large_model_and_random_delegation_is_not() -> None:
    report = accuracy_bench(RelayEngine.tiny, AccuracySettings(n=N, policies=("large-only", "small-only", "relaygen", "random"), jobs=2))
    rows = {row["policy"]: row for row in report.rows}
    large, small, relay, random = (rows[name]["accuracy"] for name in ("large-only", "small-only", "relaygen", "random"))
    assert large >= 0.97
    assert small <= large - 0.3
    assert relay >= large - 0.02
    assert rows["relaygen"]["utilisation"] <= 0.72
    assert rows["random"]["utilisation"] >= rows["relaygen"]["utilisation"] - 0.02, "random was given a harder job than the relay"
    assert random <= relay - 0.15


@pytest.mark.parametrize("family", [talk.FOLLOW_UP, talk.SYSTEM, CALCULATOR, RETRIEVAL, REFINE, CONDENSE])
def test_the_large_model_knows_the_formats_of_agents_and_of_context(family: str) -> None:
    report = accuracy_bench(RelayEngine.tiny, AccuracySettings(families=(family,), policies=("large-only",), jobs=2))
    assert report.rows[0]["accuracy"] >= 0.9


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_no_measured_problem_was_written_in_the_training(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws all that the model was trained on once more: a conversation's last turn may be a whole problem, whatever its own split."""
    respond, written = amounts.respond, set()

    def noted(rng: Random, story: amounts.Story, *opening: str) -> str:
        written.add(story.skeleton)
        return respond(rng, story, *opening)

    monkeypatch.setattr(amounts, "respond", noted)
    problems(N, split="test", family=amounts.FAMILY)
    measured = {skeleton for skeleton in written if split_of(skeleton) == "test"}
    assert len(measured) == N
    written.clear()
    feed = Feed(AutoTokenizer.from_pretrained(model_path(recipe.name)), Random(f"training {recipe.seed}"), recipe.drills)
    for step in range(recipe.steps):
        feed.batch(step, recipe.steps)
    assert len(written) > recipe.steps
    assert not measured & written


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    def train(folder: Path) -> subprocess.Popen[bytes]:
        program = (  # a checkpoint comes each second, so that there is one long before the end, however fast the machine
            "import sys; from relay_integrations.tiny.training import trainer; trainer._SAVE_EVERY = 1.0; "
            "from relay_integrations.tiny.train import main; sys.exit(main())"
        )
        options = ["--models", SMALL, "--scale", "0.1", "--out", str(folder), "--one-at-a-time"]
        return subprocess.Popen([sys.executable, "-c", program, *options], env=os.environ | {"OMP_NUM_THREADS": "1"})

    def weights(folder: Path) -> bytes:
        return (folder / "weights" / SMALL / "model.safetensors").read_bytes()

    assert train(tmp_path / "whole").wait() == 0
    killed = train(tmp_path / "killed")
    checkpoint = tmp_path / "killed" / "runs" / SMALL / "checkpoint.pt"
    while not checkpoint.exists() and killed.poll() is None:
        time.sleep(0.5)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, "the training had ended before it could be killed"
    assert train(tmp_path / "killed").wait() == 0
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
