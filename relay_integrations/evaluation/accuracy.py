"""How often each policy is right on problems that nothing was trained or chosen on, and what it costs.

The random baseline delegates as much as RelayGen does: its probability is searched on problems of its own, then fixed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from relay_integrations.engine import RelayEngine
from relay_integrations.evaluation.report import Report
from relay_integrations.evaluation.statistics import spread, wilson
from relay_integrations.policies import AllCues, LargeOnly, Policy, RandomPolicy, RelayGen, SmallOnly
from relay_integrations.result import RelayResult
from relay_integrations.roles import ROLES
from relay_integrations.tiny.task import HELD_OUT_SEED, Problem, is_right, problems

MAX_TOKENS = 700
"""A right trace has up to some 450 tokens; a model that has lost its way stops here."""

SEARCH_PROBLEMS = 30
SEARCH_STEPS = 6
SEARCH_TOLERANCE = 0.02
"""The search for the random baseline's probability: on at most so many problems, so often, until this close to RelayGen's utilisation."""

RANDOM_SEEDS = (0, 1)

Progress = Callable[[str, float], None]
"""Takes what is being done, and how much of all that is done: 0 to 1."""


@dataclass(slots=True)
class Tally:
    """The results of one policy, problem by problem."""

    policy: Policy
    case: str | None = None
    right: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    results: list[RelayResult] = field(default_factory=list)

    def run(self, engine: RelayEngine, problem: Problem) -> None:
        """Solves one problem, greedily."""
        began = time.perf_counter()
        result = engine.generate(problem.question, policy=self.policy, temperature=0, seed=0, max_tokens=MAX_TOKENS)
        self.seconds.append(time.perf_counter() - began)
        self.right.append(is_right(problem, result.text))
        self.results.append(result)

    @property
    def utilisation(self) -> float:
        """Share of all tokens that the large model wrote."""
        usages = [result.usage for result in self.results]
        return sum(u.large_tokens for u in usages) / max(1, sum(u.completion_tokens for u in usages))

    def row(self) -> dict[str, Any]:
        """The figures; tokens, handoffs and seconds are means over the problems."""
        tokens = [result.usage.completion_tokens for result in self.results]
        paces = spread([1e3 * s / max(1, t) for s, t in zip(self.seconds, tokens, strict=True)])
        n = len(self.right)
        return {
            "policy": self.policy.name,
            **({} if self.case is None else {"case": self.case}),
            "n": n,
            "accuracy": sum(self.right) / n,
            "accuracy_ci": list(wilson(sum(self.right), n)),
            "utilisation": self.utilisation,
            "handoffs": fmean(len(result.handoffs) for result in self.results),
            "tokens": fmean(tokens),
            "seconds": fmean(self.seconds),
            "ms_per_token": paces.median,
            "ms_per_token_spread": [paces.low, paces.high],
        }


def accuracy_bench(engine: RelayEngine, n: int = 100, seed: int = HELD_OUT_SEED, progress: Progress = lambda what, share: None) -> Report:
    """Runs the bench on the tiny task.

    Args:
        engine: Of the pair; its cue profile is RelayGen's.
        n: Number of problems.
        seed: Of the problems.
        progress: Told how far it is.
    """
    cued = RelayGen(cues=engine.cue_profile) if engine.cue_profile else RelayGen()
    searched = min(SEARCH_PROBLEMS, n + 1)
    p = match_utilisation(engine, cued, problems(searched, seed + 1), lambda what, share: progress(what, 0.2 * share))
    tallies = [
        Tally(LargeOnly()),
        Tally(SmallOnly()),
        Tally(cued),
        Tally(AllCues()),
        *(Tally(RandomPolicy(p=p, seed=s), case=f"p={p:.3f}, seed {s}") for s in RANDOM_SEEDS),
    ]
    drawn = problems(n, seed)
    for number, problem in enumerate(drawn):
        progress(f"problem {number + 1} of {n}", 0.2 + 0.8 * number / n)
        for tally in _rotated(tallies, number):
            tally.run(engine, problem)
    return Report(
        bench="accuracy",
        pair={role: engine.backends[role].capabilities.name for role in ROLES},
        backend=type(engine.backends["large"]).__name__.removesuffix("Backend").lower(),
        rows=[tally.row() for tally in tallies],
        notes=(
            f"{n} held-out problems of the tiny task (seed {seed}), greedy, one at a time; handoffs, tokens and s are means a problem, "
            "ms a token is the median problem's, with quartiles.",
            f"random: p was searched on {searched} other problems so that the large model's share is as in relaygen.",
        ),
    )


def match_utilisation(
    engine: RelayEngine, wanted: Policy, drawn: Sequence[Problem], progress: Progress = lambda what, share: None
) -> float:
    """The probability at which `random` has the utilisation of another policy.

    Args:
        engine: Of the pair.
        wanted: The other policy.
        drawn: The problems to search on.
        progress: Told how far it is.
    """

    def utilisation(policy: Policy, done: int) -> float:
        progress("matching the random baseline", done / (SEARCH_STEPS + 1))
        tally = Tally(policy)
        for problem in drawn:
            tally.run(engine, problem)
        return tally.utilisation

    target = utilisation(wanted, 0)
    low, high, p = 0.0, 1.0, 1 - target
    for step in range(SEARCH_STEPS):
        found = utilisation(RandomPolicy(p=p, seed=RANDOM_SEEDS[0]), step + 1)
        if abs(found - target) <= SEARCH_TOLERANCE:
            break
        low, high = (p, high) if found > target else (low, p)
        p = (low + high) / 2
    return p


def _rotated(tallies: Sequence[Tally], number: int) -> list[Tally]:
    """In another order for each problem, so that a machine that slows down slows all of them."""
    start = number % len(tallies)
    return [*tallies[start:], *tallies[:start]]
