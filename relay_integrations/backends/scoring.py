"""Teacher-forced scores from a model's logits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from relay_integrations.backends.base import TokenScores

SCORE_CHUNK = 128
"""Positions scored a step: their logits are the memory, 78 MB for 152k ids."""


def spans(start: int, end: int, step: int) -> Iterable[tuple[int, int]]:
    """Ranges of at most `step` positions, one behind the other."""
    return ((low, min(low + step, end)) for low in range(start, end, step))


def add_scores(scores: TokenScores, rows: torch.Tensor, ids: Sequence[int]) -> None:
    """Adds one row a token; `rows[i]` are the logits that `ids[i]` was drawn from."""
    rows = rows.float()
    real = rows.gather(-1, torch.tensor(ids, device=rows.device)[:, None])
    top = (rows.topk(2).values - rows.logsumexp(-1, keepdim=True)).exp()
    scores.top1 += top[:, 0].tolist()
    scores.top2 += top[:, 1].tolist()
    scores.rank += (rows > real).sum(-1).tolist()
    scores.best += rows.argmax(-1).tolist()
