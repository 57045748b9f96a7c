"""The few statistics that benches need."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

_Z_95 = 1.959964


class Spread(NamedTuple):
    """A median, and the quartiles around it."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles; of fewer than four values, median and extremes."""
    if len(values) < 4:
        return Spread(statistics.median(values), min(values), max(values))
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def wilson(successes: int, trials: int, z: float = _Z_95) -> tuple[float, float]:
    """Wilson score interval of a share, 95 % by default; honest at 0 and at 1, where the usual one has no width.

    Args:
        successes: How many succeeded.
        trials: Of how many; at least 1.
        z: Quantile of the normal distribution.
    """
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / scale
    return max(0.0, centre - half), min(1.0, centre + half)
