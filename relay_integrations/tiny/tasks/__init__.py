"""The problems that the tiny models were trained on and are measured with: families, and splits that share no problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

from relay_integrations.tiny.tasks import amounts, queues
from relay_integrations.tiny.tasks.problem import SPLITS, Problem, Split, is_right, split_of

__all__ = ["FAMILIES", "SPLITS", "STEPS", "Problem", "Split", "is_right", "problems", "split_of", "stream"]

FAMILIES: dict[str, Callable[[Random, int], tuple[Problem, object]]] = {amounts.FAMILY: amounts.draw, queues.FAMILY: queues.draw}
"""How to draw a problem of so many steps, by family; `amounts` is the one that things are tuned on."""

STEPS = (3, 4, 5)
"""Numbers of operations that are measured with."""


def problems(n: int, seed: int = 0, steps: Sequence[int] = STEPS, *, split: Split = "test", family: str = amounts.FAMILY) -> list[Problem]:
    """Draws `n` different problems.

    Args:
        n: How many.
        seed: Gives other problems of the same split.
        steps: Numbers of operations to draw from.
        split: Which problems to draw from; no problem is in two of them. Nothing was trained or chosen on `test`.
        family: A key of `FAMILIES`.
    """
    return list(islice(stream(Random(f"{split} {family} {seed}"), steps, split, family), n))


def stream(rng: Random, steps: Sequence[int], split: Split, family: str) -> Iterator[Problem]:
    """Draws different problems of a split without end."""
    seen: set[object] = set()
    while True:
        drawn, skeleton = FAMILIES[family](rng, rng.choice(steps))
        if split_of(skeleton) == split and skeleton not in seen:
            seen.add(skeleton)
            yield drawn
