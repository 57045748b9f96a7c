"""The outcomes of one policy on one family of problems, and the figures that they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from relay_integrations.evaluation.solving import Outcome
from relay_integrations.evaluation.statistics import Pairs, newcombe_paired, spread, wilson
from relay_integrations.policies import Policy


@dataclass(slots=True)
class Tally:
    """The outcomes of one policy on one family."""

    policy: Policy
    family: str
    case: str | None = None
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def utilisation(self) -> float:
        """Share of all tokens that the large model wrote."""
        return sum(o.large_tokens for o in self.outcomes) / max(1, sum(o.tokens for o in self.outcomes))

    def row(self, baseline: Tally | None) -> dict[str, Any]:
        """The figures; tokens, handoffs and seconds are means over the problems.

        Args:
            baseline: The large model alone on the same problems, to say the difference to it.
        """
        n = len(self.outcomes)
        right = sum(o.right for o in self.outcomes)
        paces = spread([1e3 * o.seconds / max(1, o.tokens) for o in self.outcomes])
        return {
            "policy": self.policy.name,
            "family": self.family,
            **({} if self.case is None else {"case": self.case}),
            "n": n,
            "accuracy": right / n,
            "accuracy_ci": list(wilson(right, n)),
            **({} if baseline is None or baseline is self else self._beside(baseline)),
            "utilisation": self.utilisation,
            "handoffs": fmean(o.handoffs for o in self.outcomes),
            "tokens": fmean(o.tokens for o in self.outcomes),
            "seconds": fmean(o.seconds for o in self.outcomes),
            "ms_per_token": paces.median,
            "ms_per_token_spread": [paces.low, paces.high],
        }

    def _beside(self, baseline: Tally) -> dict[str, Any]:
        """The difference to the large model alone, with its interval."""
        counts = [0, 0, 0, 0]
        for mine, other in zip(self.outcomes, baseline.outcomes, strict=True):
            counts[2 * (not mine.right) + (not other.right)] += 1
        pairs = Pairs(*counts)
        return {"difference": pairs.difference, "difference_ci": list(newcombe_paired(pairs))}
