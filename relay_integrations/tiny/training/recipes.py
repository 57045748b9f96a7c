"""What each of the shipped models is: its shape, its tokenizer, how long it is trained."""

from __future__ import annotations

from dataclasses import dataclass

from relay_integrations.tiny import LARGE, OTHER_SMALL, SMALL
from relay_integrations.tiny.training.tokenizers import OTHER, PAIR, TokenizerRecipe

WINDOW = 4096

ROWS, ROW_LENGTH = 8, 512
"""Most steps: so many rows of so many ids, each filled with whole short documents."""

LONG_EVERY = 32
"""Each so-many-th step takes long documents instead, in one row as long as the window."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One model.

    Attributes:
        name: Of its folder.
        tokenizer: What its tokenizer is made by.
        width, layers, heads, head_width, feed_forward: Its shape.
        steps: Length of its training, 4,096 ids each.
        drills: Short exercises for each problem.
        seed: Of its weights and its data.
        matrix_rate, other_rate: Peak learning rates of Muon (for the matrices) and AdamW (for embeddings and norms).
    """

    name: str
    tokenizer: TokenizerRecipe
    width: int
    layers: int
    heads: int
    head_width: int
    feed_forward: int
    steps: int
    drills: float
    seed: int
    matrix_rate: float = 0.02
    other_rate: float = 3e-3


RECIPES = (
    Recipe(LARGE, PAIR, width=256, layers=4, heads=4, head_width=64, feed_forward=704, steps=8400, drills=4, seed=1),
    Recipe(SMALL, PAIR, width=80, layers=2, heads=4, head_width=32, feed_forward=48, steps=4200, drills=1, seed=2),
    Recipe(OTHER_SMALL, OTHER, width=80, layers=2, heads=4, head_width=32, feed_forward=48, steps=4200, drills=1, seed=3),
)
"""The shipped models.

The small ones are rich in attention and poor in feed-forward layers, and see half as many tokens as the large one, with fewer
drills: they can copy, which easy sentences ask for, and compute badly.
"""
