"""The statistics of two ways on the same trials, against published values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.evaluation.statistics import Pairs, cluster_bootstrap, mcnemar_exact, newcombe_paired, wilson


@pytest.mark.parametrize(
    ("pairs", "low", "high"),
    [
        (Pairs(20, 12, 2, 16), 0.0562, 0.3292),  # Armitage and Berry's two culture media, in Newcombe (1998), method 10
        (Pairs(59, 6, 16, 80), -0.1186, -0.0046),  # Cavo et al. (2012), in Fagerland, Lydersen and Laake (2017), chapter 8
        (Pairs(1, 1, 7, 12), -0.507, -0.026),  # Bentur et al. (2009), in the same (2014), "Recommended tests and confidence intervals …"
        (Pairs(14, 5, 0, 22), 0.011, 0.226),  # Altman et al. (2000), "Statistics with confidence"
    ],
)
def test_the_paired_interval_agrees_with_the_literature(pairs: Pairs, low: float, high: float) -> None:
    digits = 4 if len(str(abs(low))) > 5 else 3
    assert newcombe_paired(pairs) == pytest.approx((low, high), abs=0.6 * 10**-digits)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        (6, 16, 0.052479),  # Cavo et al. (2012), as above
        (12, 2, 0.0129),  # Armitage and Berry, as above
        (1, 7, 0.0703),  # Bentur et al. (2009), as above
        (0, 0, 1.0),
        (3, 3, 1.0),
        (0, 5, 0.0625),
    ],
)
def test_the_exact_test_agrees_with_the_literature(first: int, second: int, p: float) -> None:
    assert mcnemar_exact(first, second) == pytest.approx(p, abs=6e-5)
    assert mcnemar_exact(second, first) == mcnemar_exact(first, second)


def test_the_exact_test_of_many_trials_is_a_number() -> None:
    assert 0 < mcnemar_exact(900, 1100) < 1e-4
    assert mcnemar_exact(0, 5000) == 0
    assert 0 < mcnemar_exact(20_000, 20_200) < 1


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_exact_test_is_the_sum_of_its_terms(first: int, second: int) -> None:
    n = first + second
    tail = sum(math.comb(n, k) for k in range(min(first, second) + 1))
    assert mcnemar_exact(first, second) == min(1.0, 2 * tail / 2**n)


counts = st.integers(0, 60) | st.integers(0, 180).map(lambda count: count / 3)  # fractions where tries are averaged


@given(st.builds(Pairs, counts, counts, counts, counts).filter(lambda pairs: pairs.trials > 0))
def test_the_paired_interval_holds_the_difference_and_turns_with_it(pairs: Pairs) -> None:
    low, high = newcombe_paired(pairs)
    assert -1 <= low <= pairs.difference + 1e-12
    assert pairs.difference - 1e-12 <= high <= 1
    assert high > low
    turned = newcombe_paired(Pairs(pairs.both, pairs.second, pairs.first, pairs.neither))
    assert turned == pytest.approx((-high, -low), abs=1e-9)


def test_where_all_agree_the_paired_interval_has_a_width() -> None:
    low, high = newcombe_paired(Pairs(50, 0, 0, 50))
    assert -0.15 < low < 0 < high < 0.15


def test_a_wilson_interval_takes_shares_of_trials() -> None:
    assert wilson(2, 10) < wilson(2.5, 10) < wilson(3, 10)


def test_the_bootstrap_draws_whole_clusters_and_repeats_itself() -> None:
    means = [0.0, 0.5, 1.0, -0.5] * 25
    low, high = cluster_bootstrap(means)
    assert cluster_bootstrap(means) == (low, high)
    # The mean is 0.25 with a standard error of 0.056.
    assert (low, high) == pytest.approx((0.25 - 1.96 * 0.056, 0.25 + 1.96 * 0.056), abs=0.012)
    assert cluster_bootstrap([0.5] * 9) == (0.5, 0.5)
    few = cluster_bootstrap(means[:8])
    assert few[0] < low < high < few[1]
