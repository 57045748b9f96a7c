"""The few statistics that benches need."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

_Z_95 = 1.959964

BOOTSTRAP_RESAMPLES = 5000


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


def wilson(successes: float, trials: float, z: float = _Z_95) -> tuple[float, float]:
    """Wilson score interval of a share, 95 % by default; honest at 0 and at 1, where the usual one has no width.

    Args:
        successes: How many succeeded; a fraction where several tries of one trial are averaged.
        trials: Of how many; at least 1.
        z: Quantile of the normal distribution.
    """
    share = min(1.0, successes / trials)  # what was added up may be a hair too large
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / scale
    return max(0.0, centre - half), min(1.0, centre + half)


class Pairs(NamedTuple):
    """How two ways did on the same trials: on how many both, only the first, only the second, neither succeeded.

    These are fractions where several tries of one trial are averaged.
    """

    both: float
    first: float
    second: float
    neither: float

    @property
    def trials(self) -> float:
        """All of them."""
        return sum(self)

    @property
    def difference(self) -> float:
        """Share of successes of the first way, less that of the second."""
        return (self.first - self.second) / self.trials


def newcombe_paired(pairs: Pairs, z: float = _Z_95) -> tuple[float, float]:
    """Interval of the difference between two shares of the same trials, first less second, 95 % by default.

    It combines the Wilson intervals of the two shares, as far as these are correlated: method 10 of Newcombe (1998), "Improved
    confidence intervals for the difference between binomial proportions based on paired data", Statistics in Medicine 17, 2635-2650.

    Args:
        pairs: At least one.
        z: Quantile of the normal distribution.
    """
    a, b, c, d = pairs
    n = pairs.trials
    first, second = (a + b) / n, (a + c) / n
    (low1, high1), (low2, high2) = wilson(a + b, n, z), wilson(a + c, n, z)
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    product = a * d - b * c
    phi = (max(product - n / 2, 0) if product > 0 else product) / math.sqrt(margins) if margins else 0.0

    def width(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))

    difference = first - second
    return max(-1.0, difference - width(first - low1, high2 - second)), min(1.0, difference + width(high1 - first, second - low2))


def mcnemar_exact(first: int, second: int) -> float:
    """Two-sided exact p that two ways succeed equally often, given on how many trials only one of them did.

    Args:
        first: Trials on which only the first succeeded.
        second: Trials on which only the second did.
    """
    n = first + second
    term = tail = 1
    for k in range(min(first, second)):  # each from the one before it: of thousands, anew takes minutes
        term = term * (n - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << n))


def cluster_bootstrap(means: Sequence[float], seed: int = 0, resamples: int = BOOTSTRAP_RESAMPLES) -> tuple[float, float]:
    """95 % percentile interval of the mean over clusters, for tries that are not independent: whole clusters are drawn anew.

    Args:
        means: The mean of each cluster; at least one.
        seed: Of the draws, so that the same data has the same interval.
        resamples: How often they are drawn.
    """
    rng = random.Random(seed)
    n = len(means)
    drawn = sorted(sum(rng.choices(means, k=n)) / n for _ in range(resamples))
    return drawn[round(0.025 * (resamples - 1))], drawn[round(0.975 * (resamples - 1))]
