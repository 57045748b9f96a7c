"""Sets of problems to measure with: of a family or of a format, by split."""

from __future__ import annotations

from random import Random

from relay_integrations.tiny.formats import FORMATS
from relay_integrations.tiny.tasks import FAMILIES, Problem, Split, problems, split_of


def problem_set(name: str, n: int, seed: int = 0, *, split: Split = "test") -> list[Problem]:
    """Draws `n` different problems.

    Args:
        name: A key of `FAMILIES` or of `FORMATS`.
        n: How many.
        seed: Gives other problems of the same split.
        split: Which problems to draw from.
    """
    if name in FAMILIES:
        return problems(n, seed, split=split, family=name)
    rng = Random(f"{split} {name} {seed}")
    found: dict[object, Problem] = {}
    while len(found) < n:
        problem, skeleton = FORMATS[name](rng)
        if split_of(skeleton) == split and problem.steps:  # small talk has no numbers that could keep it apart
            found.setdefault(skeleton, problem)
    return list(found.values())
