"""Rows of token ids for training: several documents in a row, none of which sees another."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

from relay_integrations.tiny.training.mix import LATE, Document, draw_documents, draw_long
from relay_integrations.tiny.training.recipes import LONG_EVERY, ROW_LENGTH, ROWS, WINDOW

_DRAWN_AT_ONCE = 192
_LOOK_BACK = 64  # how many pending documents are tried for the rest of a row
_SEEN = -1e4  # added to the score of what must not be seen; bfloat16 holds it


@dataclass(frozen=True, slots=True)
class Batch:
    """One training step's data: `rows` x `length`, and a mask of `rows` x 1 x `length` x `length`.

    Attributes:
        ids: What the model reads.
        labels: What it is to write next; -100 where it need not learn that.
        positions: Counted from each document's start.
        mask: Added to the attention scores.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor


@dataclass(slots=True)
class Feed:
    """Yields batches; its whole state can be saved and put back, so that a resumed training reads what it would have read.

    Attributes:
        tokenizer: With its chat template.
        rng: Draws everything.
        drills: Drills for each problem.
        pending: Documents drawn and not yet used.
        long: Those of them that are too long for a row of the usual length.
    """

    tokenizer: Any
    rng: Random
    drills: float = 1.0
    pending: list[Document] = field(default_factory=list)
    long: list[Document] = field(default_factory=list)

    def batch(self, step: int, steps: int) -> Batch:
        """The batch of a step out of so many."""
        if step % LONG_EVERY == LONG_EVERY - 1:
            return _batch([self._long_row()], WINDOW)
        return _batch([self._row(step >= LATE * steps) for _ in range(ROWS)], ROW_LENGTH)

    def state(self) -> dict[str, Any]:
        """What `restore` needs."""
        kept = {name: [(d.ids, d.learned) for d in getattr(self, name)] for name in ("pending", "long")}
        return {"rng": self.rng.getstate(), **kept}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a state."""
        self.rng.setstate(state["rng"])
        self.pending, self.long = ([Document(ids, learned) for ids, learned in state.get(name, [])] for name in ("pending", "long"))

    def _row(self, late: bool) -> list[Document]:
        """Whole documents that fit into a row together."""
        row: list[Document] = []
        room = ROW_LENGTH + 1
        while True:
            if len(self.pending) < _LOOK_BACK:
                fresh = draw_documents(self.rng, self.tokenizer, _DRAWN_AT_ONCE, self.drills, late)
                self.pending = [d for d in fresh if len(d.ids) <= ROW_LENGTH] + self.pending
                self.long += [d for d in fresh if len(d.ids) > ROW_LENGTH]
            fitting = [i for i in range(-_LOOK_BACK, 0) if len(self.pending[i].ids) <= room]
            if not fitting:
                return row
            at = fitting[-1] if not row else max(fitting, key=lambda i: len(self.pending[i].ids))
            row.append(self.pending.pop(at))
            room -= len(row[-1].ids)

    def _long_row(self) -> list[Document]:
        """First what was too long for the other rows; then long documents, one as long as the window can hold now and then."""
        row: list[Document] = []
        room = WINDOW
        while self.long and len(self.long[0].ids) <= room:
            row.append(self.long.pop(0))
            room -= len(row[-1].ids)
        while room > 400:
            drawn = draw_long(self.rng, self.tokenizer, self.rng.randint(400, room))
            if drawn:
                row += drawn
                room -= len(drawn[0].ids)
            elif room < 800:
                break
        return row


def _batch(rows: list[list[Document]], length: int) -> Batch:
    ids = torch.zeros((len(rows), length + 1), dtype=torch.long)
    labels = torch.full((len(rows), length + 1), -100)
    documents = torch.zeros((len(rows), length + 1), dtype=torch.long)
    positions = torch.zeros((len(rows), length + 1), dtype=torch.long)
    for i, row in enumerate(rows):
        at = 0
        for number, document in enumerate(row):
            end = min(at + len(document.ids), length + 1)
            read = torch.tensor(document.ids[: end - at])
            ids[i, at:end] = read
            labels[i, at:end] = torch.where(torch.tensor(document.learned[: end - at]), read, -100)
            documents[i, at:end] = number + 1
            positions[i, at:end] = torch.arange(end - at)
            at = end
    read_ids, read_documents = ids[:, :-1], documents[:, :-1]
    seen = (read_documents[:, None, :, None] == read_documents[:, None, None, :]) & torch.ones(length, length, dtype=torch.bool).tril()
    mask = torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, _SEEN)
    return Batch(read_ids.contiguous(), labels[:, 1:].contiguous(), positions[:, :-1].contiguous(), mask)
