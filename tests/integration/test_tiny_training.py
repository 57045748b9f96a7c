"""Training of the tiny models: what they are shown, that a stopped training goes on as if it had not been, and the result's format."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from relay_integrations.backends.base import RenderOptions
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.tiny import LARGE, OTHER_SMALL, SMALL, model_path
from relay_integrations.tiny.formats import FORMATS
from relay_integrations.tiny.tasks import FAMILIES, problems
from relay_integrations.tiny.train import main
from relay_integrations.tiny.training import rows, trainer
from relay_integrations.tiny.training.mix import draw_long, encode
from relay_integrations.tiny.training.recipes import LONG_EVERY, RECIPES, ROW_LENGTH, ROWS, WINDOW
from relay_integrations.tiny.training.rows import Batch, Feed
from tests.integration.support import prompt_of

MODELS = (LARGE, SMALL, OTHER_SMALL)
TOKENIZERS = (SMALL, OTHER_SMALL)


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return AutoTokenizer.from_pretrained(model_path(request.param))


def feed(tokenizer: Any) -> Feed:
    return Feed(tokenizer, Random(1))


# --- tokenizers


@given(text=st.text(max_size=40))
@pytest.mark.parametrize("name", TOKENIZERS)
def test_any_text_is_encoded_and_comes_back(name: str, text: str) -> None:
    tokenizer = _tokenizers(name)
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"], skip_special_tokens=False) == text


@cache
def _tokenizers(name: str) -> Any:
    return AutoTokenizer.from_pretrained(model_path(name))


def test_the_pair_shares_a_tokenizer_with_single_digits_and_a_blank_line_of_its_own() -> None:
    files = [(model_path(name) / "tokenizer.json").read_bytes() for name in (LARGE, SMALL)]
    assert files[0] == files[1]
    pieces = _tokenizers(LARGE).convert_ids_to_tokens(_tokenizers(LARGE)(" So, 123.\n\nNext")["input_ids"])
    assert pieces == ["ĠSo", ",", "Ġ", "1", "2", "3", ".", "ĊĊ", "Next"]


def test_the_other_tokenizer_merges_numbers_and_sentence_ends() -> None:
    pieces = _tokenizers(OTHER_SMALL).convert_ids_to_tokens(_tokenizers(OTHER_SMALL)("So, 90 coins.\n\nNext")["input_ids"])
    assert "90" in pieces
    assert ".ĊĊ" in pieces


# --- what is shown


@pytest.mark.parametrize("kind", [*FAMILIES, *FORMATS])
def test_a_document_is_what_the_backend_renders_and_the_responses_are_learned(tokenizer: Any, kind: str) -> None:
    for seed in range(6):
        problem, _ = FAMILIES[kind](Random(seed), 2) if kind in FAMILIES else FORMATS[kind](Random(seed))
        document = encode(tokenizer, problem)
        learned = tokenizer.decode([i for i, on in zip(document.ids, document.learned, strict=True) if on])
        end = tokenizer.eos_token
        assert learned == "".join(text + end for text in (problem.trace, *(exchange.text for exchange in problem.exchanges)))
        whole = tokenizer.decode(document.ids)
        for message in problem.messages:
            assert message.content in whole
        for exchange in problem.exchanges:
            assert all(f"<tool_response>\n{result}\n</tool_response>" in whole for result in exchange.results)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_document_begins_with_the_ids_that_the_backend_renders(name: str) -> None:
    backend = TransformersBackend.from_pretrained(model_path(name), dtype="float32", device="cpu")
    for kind in FORMATS:
        problem, _ = FORMATS[kind](Random(3))
        options = RenderOptions(reasoning=None if problem.thinking else False)
        prompt = asyncio.run(backend.render(problem.messages, list(problem.tools), options))
        document = encode(_tokenizers(name), problem)
        assert document.ids[: len(prompt.ids)] == list(prompt.ids)
        assert document.learned.index(True) == len(prompt.ids)


def test_rows_hold_whole_documents_that_do_not_see_each_other(tokenizer: Any) -> None:
    batch = feed(tokenizer).batch(0, 100)
    assert batch.ids.shape == (ROWS, ROW_LENGTH)
    for row in range(ROWS):
        starts = (batch.positions[row] == 0).nonzero().flatten().tolist()
        assert len(starts) > 1
        seen = batch.mask[row, 0] == 0
        assert not seen.triu(1).any()
        for begin in starts[1:3]:
            assert not seen[begin, :begin].any()
            assert seen[begin, begin]
    filled = (batch.ids != tokenizer.pad_token_id).float().mean()
    assert filled > 0.9


def test_long_documents_come_in_a_row_as_long_as_the_window(tokenizer: Any) -> None:
    batch = feed(tokenizer).batch(LONG_EVERY - 1, 100)
    assert batch.ids.shape == (1, WINDOW)
    assert batch.positions.max() > 600


def test_a_long_document_can_be_drawn_for_any_room(tokenizer: Any) -> None:
    rooms = Random(4)
    for seed in range(40):
        room = WINDOW if seed < 4 else rooms.randint(400, WINDOW)
        for document in draw_long(Random(seed), tokenizer, room):
            assert room / 3 < len(document.ids) <= room


def test_labels_are_the_next_ids(tokenizer: Any) -> None:
    batch = feed(tokenizer).batch(0, 100)
    learned = batch.labels[:, :-1] >= 0
    assert torch.equal(batch.labels[:, :-1][learned], batch.ids[:, 1:][learned])


# --- the training


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A training of a few steps with rows of a few ids; gives a function that runs it in a folder."""
    monkeypatch.setattr(rows, "ROWS", 2)
    monkeypatch.setattr(trainer, "_SAVE_EVERY", 0)
    recipe = replace(RECIPES[1], name="short", width=32, layers=1, heads=1, feed_forward=32, steps=6)

    def run(folder: str) -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        kept = tmp_path / folder / "tokenizer"
        if not kept.exists():
            kept.mkdir()
            for file in model_path(SMALL).glob("*"):
                if "token" in file.name or "template" in file.name:
                    shutil.copy(file, kept)
        return trainer.train(recipe, tmp_path / folder, lambda line: None, compiled=False)

    return run


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_stopped_training_goes_on_as_if_it_had_not_been_stopped(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = short("whole")
    real = Feed.batch

    def stop_at_4(self: Feed, step: int, steps: int) -> Batch:
        if step == 4:
            raise KeyboardInterrupt
        return real(self, step, steps)

    monkeypatch.setattr(Feed, "batch", stop_at_4)
    with pytest.raises(KeyboardInterrupt):
        short("stopped")
    monkeypatch.setattr(Feed, "batch", real)
    assert weights(short("stopped")) == weights(whole)


def test_ctrl_c_says_that_the_same_command_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    def pressed(*_: Any, **more: Any) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(trainer, "train", pressed)
    assert main(["--models", SMALL, "--out", str(tmp_path), "--eager"]) == 130
    assert capsys.readouterr().out == "stopped; the same command goes on from the last checkpoint\n"


def test_ctrl_c_ends_trainings_side_by_side_and_says_so_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "relay_integrations.tiny.train", "--models", LARGE, SMALL, "--eager", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        locks = [tmp_path / "runs" / name / "lock" for name in (LARGE, SMALL)]
        while process.poll() is None and not all(lock.exists() for lock in locks):
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        out, err = process.communicate()
    assert process.returncode == 130
    assert out.count("stopped; the same command goes on from the last checkpoint\n") == 1
    assert "Traceback" not in err


def test_a_training_repeats_itself_and_is_loaded_as_a_qwen3(short: Any) -> None:
    first, second = short("first"), short("second")
    assert weights(first) == weights(second)
    assert AutoModelForCausalLM.from_pretrained(first).config.model_type == "qwen3"
    log = [json.loads(line) for line in (first.parent / "log.jsonl").read_text().splitlines()]
    assert log[-1]["step"] == 6
    assert set(log[-1]["validation_loss"]) == set(FAMILIES)


def test_the_checkpoint_of_another_recipe_is_refused(short: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    short("one")
    state = torch.load(tmp_path / "one" / "checkpoint.pt", weights_only=False)
    torch.save(state | {"recipe": "another"}, tmp_path / "one" / "checkpoint.pt")
    with pytest.raises(SystemExit, match="is of another recipe; remove"):
        short("one")


# --- what ships


@pytest.mark.parametrize("name", MODELS)
def test_the_shipped_models_are_what_the_recipes_say(name: str) -> None:
    recipe = next(r for r in RECIPES if r.name == name)
    config = json.loads((model_path(name) / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert config["max_position_embeddings"] == WINDOW
    assert (config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]) == (
        recipe.width,
        recipe.layers,
        recipe.tokenizer.entries,
    )
    backend = TransformersBackend.from_pretrained(model_path(name), dtype="float32", device="cpu")
    assert backend.capabilities.context_window == WINDOW
    assert backend.capabilities.sampling.greedy
    assert prompt_of(backend, problems(1)[0].question)


def test_all_weights_together_stay_small() -> None:
    assert sum(file.stat().st_size for name in MODELS for file in model_path(name).glob("*")) < 30e6
