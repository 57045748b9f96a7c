"""Adds up what a generation used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay_integrations.events import Usage
from relay_integrations.job import Job
from relay_integrations.roles import HandoffReason, Role
from relay_integrations.transcript import Transcript

if TYPE_CHECKING:
    from relay_integrations.hop import SegmentRun


class Meter:
    """The running sums of one generation."""

    def __init__(self, job: Job, transcript: Transcript) -> None:
        self._job = job
        self._transcript = transcript
        self._handoffs: dict[str, int] = {}
        self._requests = 0
        self._sent: dict[Role, int] = {"large": 0, "small": 0}
        self._cached: dict[Role, int | None] = {"large": 0, "small": 0}

    def handoff(self, reason: HandoffReason) -> None:
        """Counts a handoff."""
        self._handoffs[reason] = self._handoffs.get(reason, 0) + 1

    def segment(self, run: SegmentRun) -> None:
        """Adds a finished segment's requests."""
        role = run.role
        self._requests += run.requests
        self._sent[role] += run.sent
        before = self._cached[role]
        self._cached[role] = None if before is None or (run.cached is None and run.requests) else before + (run.cached or 0)

    def usage(self) -> Usage:
        """All so far."""
        t, job = self._transcript, self._job
        leader = job.policy.leader if job.policy.leader in job.prompts else next(iter(job.prompts))
        cached = list(self._cached.values())
        return Usage(
            prompt_tokens=len(job.prompts[leader].ids),
            completion_tokens=t.output_tokens,
            reasoning_tokens=t.reasoning_tokens if t.reasoning_closed or t.channel == "answer" else t.output_tokens,
            large_tokens=t.tokens["large"],
            small_tokens=t.tokens["small"],
            forced_tokens=t.forced,
            discarded_tokens=t.discarded,
            handoffs=dict(self._handoffs),
            requests=self._requests,
            sent_tokens=sum(self._sent.values()),
            cached_tokens=None if None in cached else sum(c or 0 for c in cached),
            flops=self._flops(),
            cost=self._cost(),
        )

    def _flops(self) -> float | None:
        total = 0.0
        for role, generated in self._transcript.generated.items():
            parameters = self._job.backends[role].capabilities.parameters
            if generated and parameters is None:
                return None
            total += 2.0 * (parameters or 0) * generated
        return total

    def _cost(self) -> float | None:
        if not self._job.prices:
            return None
        generated = self._transcript.generated
        return sum(p.cost(self._sent[role], self._cached[role], generated[role]) for role, p in self._job.prices.items())
