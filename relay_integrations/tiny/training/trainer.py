"""Trains one model, from nothing or from where it was stopped."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from relay_integrations.tiny.training.recipes import WINDOW, Recipe
from relay_integrations.tiny.training.rows import Batch, Feed
from relay_integrations.tiny.training.tokenizers import train_tokenizer
from relay_integrations.tiny.training.watch import Watch

_WARM_UP = 60  # steps
_DECAY = 0.4  # share of the training over which the learning rate falls
_LAST_RATE = 0.02  # of its peak
_ROUND = 512  # rows
_SAVE_EVERY = 60.0  # seconds
_WATCH_EVERY = 300  # steps

Say = Callable[[str], None]


def train(recipe: Recipe, folder: Path, say: Say, *, steps: int | None = None, compiled: bool = True) -> Path:
    """Trains a model to the end and writes it in Hugging Face format.

    Killed and started again, it goes on from its last checkpoint, and reads and writes what it would have without the stop.

    Args:
        recipe: The model.
        folder: Where the checkpoint (`checkpoint.pt`), the log (`log.jsonl`) and the result (`model`) go.
        say: Told of the progress, a line at a time.
        steps: Another length than the recipe's.
        compiled: Whether to compile the model; takes half a minute and nearly doubles the speed.

    Returns:
        The folder of the finished model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = _Run(recipe, folder, say, steps or recipe.steps, compiled)
    run.go()
    return run.export()


class _Run:
    def __init__(self, recipe: Recipe, folder: Path, say: Say, steps: int, compiled: bool) -> None:
        self.recipe, self.folder, self.say, self.steps = recipe, folder, say, steps
        self.tokenizer = self._open_tokenizer()
        torch.manual_seed(recipe.seed)
        self.model = _new_model(recipe, self.tokenizer)
        self.optimizers = _optimizers(self.model, recipe)
        self.feed = Feed(self.tokenizer, Random(f"training {recipe.seed}"), recipe.drills)
        self.watch = Watch(self.tokenizer)
        self.step, self.seconds = 0, 0.0
        self.losses: list[float] = []
        self.hidden = torch.compile(self._hidden) if compiled else self._hidden
        self._resume()

    def go(self) -> None:
        began = saved = told = time.monotonic()
        first, before = self.step, self.seconds
        while self.step < self.steps:
            self.losses.append(self._learn(self.feed.batch(self.step, self.steps)))
            self.step += 1
            now = time.monotonic()
            self.seconds = before + now - began
            if now - told >= 15 or self.step == self.steps:
                self._tell((now - began) / (self.step - first))
                told = now
            if self.step % _WATCH_EVERY == 0 or self.step == self.steps:
                self._log()
            if now - saved >= _SAVE_EVERY or self.step == self.steps:
                self._save()
                saved = now

    def export(self) -> Path:
        target = self.folder / "model"
        self.model.set_attn_implementation("sdpa")
        self.model.generation_config.do_sample = False
        self.model.to(torch.bfloat16).save_pretrained(target)
        self.tokenizer.save_pretrained(target)
        return target

    def _learn(self, batch: Batch) -> float:
        """One step; returns the mean loss over what is learned."""
        share = self.step / self.steps
        rate = min(1, (self.step + 1) / _WARM_UP) * min(1.0, max(_LAST_RATE, (1 - share) / _DECAY))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * rate
        long = batch.ids.shape[1] == WINDOW
        # One shape is compiled, with attention written out; the other is too long for that.
        self.model.set_attn_implementation("sdpa" if long else "eager")
        with torch.autocast("cpu", torch.bfloat16):
            hidden = (self._hidden if long else self.hidden)(batch.ids, batch.mask, batch.positions)
            rows, labels = _learned(batch.labels)
            scores = functional.linear(hidden.flatten(0, 1)[rows], self.model.model.embed_tokens.weight)
        loss = functional.cross_entropy(scores.float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def _hidden(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
        ).last_hidden_state
        return found

    def _tell(self, pace: float) -> None:
        left = pace * (self.steps - self.step) / 60
        loss = sum(self.losses[-50:]) / len(self.losses[-50:])
        self.say(
            f"{self.recipe.name}: step {self.step:,} of {self.steps:,}, loss {loss:.3f}, {4.096 / pace:.1f}k tokens/s, {left:.0f} min left"
        )

    def _log(self) -> None:
        seen = self.watch(self.model)
        row = {
            "step": self.step,
            "tokens": self.step * 4096,
            "minutes": round(self.seconds / 60, 1),
            "loss": round(sum(self.losses) / len(self.losses), 4),
        }
        self.losses = self.losses[-50:]
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(row | seen) + "\n")
        sums = ", ".join(f"{kind} {share:.0%}" for kind, share in seen["sums"].items())
        self.say(f"{self.recipe.name}: sums right on validation problems: {sums}")

    def _open_tokenizer(self) -> Any:
        kept = self.folder / "tokenizer"
        if not kept.exists():
            self.say(f"{self.recipe.name}: trains its tokenizer first, a minute or two without a word")
            half = self.folder / "tokenizer.part"
            train_tokenizer(self.recipe.tokenizer).save_pretrained(half)
            half.rename(kept)
        return AutoTokenizer.from_pretrained(kept)

    def _save(self) -> None:
        state = {
            "recipe": repr((self.recipe, self.steps)),
            "step": self.step,
            "seconds": self.seconds,
            "losses": self.losses,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "feed": self.feed.state(),
        }
        fresh = self.folder / "checkpoint.pt.new"
        torch.save(state, fresh)
        os.replace(fresh, self.folder / "checkpoint.pt")

    def _resume(self) -> None:
        path = self.folder / "checkpoint.pt"
        if not path.exists():
            return
        state = torch.load(path, weights_only=False)  # our own file
        if state["recipe"] != repr((self.recipe, self.steps)):
            raise SystemExit(f"{path} is of another recipe; remove {self.folder}, or train into another folder (--out)")
        self.model.load_state_dict(state["model"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.feed.restore(state["feed"])
        self.step, self.seconds, self.losses = state["step"], state["seconds"], state["losses"]
        log = self.folder / "log.jsonl"
        if log.exists():  # what was logged behind the checkpoint is done again
            kept = [line for line in log.read_text(encoding="utf-8").splitlines(True) if json.loads(line)["step"] <= self.step]
            log.write_text("".join(kept), encoding="utf-8")
        self.say(f"{self.recipe.name}: goes on from step {self.step:,}")


def _learned(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Which rows are to be learned, and their labels; filled up to a round number, for each new shape costs a new kernel and its memory."""
    labels = labels.flatten()
    rows = (labels >= 0).nonzero().flatten()
    missing = -len(rows) % _ROUND
    return functional.pad(rows, (0, missing)), functional.pad(labels[rows], (0, missing), value=-100)


def _new_model(recipe: Recipe, tokenizer: Any) -> Any:
    config = Qwen3Config(
        vocab_size=recipe.tokenizer.entries,
        hidden_size=recipe.width,
        intermediate_size=recipe.feed_forward,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        head_dim=recipe.head_width,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model: Any = Qwen3ForCausalLM(config)
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            last = "o_proj" in name or "down_proj" in name
            torch.nn.init.normal_(weight, std=0.02 if "embed" in name else weight.shape[1] ** -0.5 * (0.3 if last else 0.7))
    return model


def _optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for embeddings and norms."""
    named = list(model.named_parameters())
    matrices = [weight for name, weight in named if weight.ndim == 2 and "embed" not in name]
    others = [weight for name, weight in named if weight.ndim != 2 or "embed" in name]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=recipe.matrix_rate, weight_decay=0.02, momentum=0.95, nesterov=True),
        torch.optim.AdamW(others, lr=recipe.other_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers
