"""How many tokens a segment may still take, and which limit that is."""

from __future__ import annotations

from relay_integrations.job import Job
from relay_integrations.roles import Role, SegmentEndCause
from relay_integrations.transcript import Transcript


class Limits:
    """The limits of one generation.

    Args:
        job: Its options and windows.
        transcript: What has been generated.
        has_reasoning: Whether there are think tags at all.
    """

    def __init__(self, job: Job, transcript: Transcript, *, has_reasoning: bool) -> None:
        self._job = job
        self._transcript = transcript
        self._large_budget = job.options.large_budget()
        self._reasoning_budget = job.options.reasoning_budget if has_reasoning else None

    def window_left(self, role: Role) -> int:
        """Room in the role's window."""
        return self._job.window(role) - self._transcript.length(role)

    def large_left(self) -> int | None:
        """What is left of the large model's budget; dropped tokens were paid for too. None without a budget."""
        if self._large_budget is None:
            return None
        return max(0, self._large_budget - self._transcript.generated["large"])

    def reasoning_spent(self) -> bool:
        """Whether the reasoning goes on with its budget spent."""
        t = self._transcript
        if self._reasoning_budget is None or t.reasoning_closed or t.channel != "reasoning":
            return False
        return t.output_tokens >= self._reasoning_budget

    def left(self, role: Role, of_plan: int | None) -> tuple[int, SegmentEndCause]:
        """Tokens that the role may write now, and how the segment ends when they are written.

        Args:
            role: Who writes.
            of_plan: What is left of the plan's own limit.
        """
        t, options = self._transcript, self._job.options
        limits: list[tuple[int, SegmentEndCause]] = []
        if options.max_tokens is not None:
            limits.append((options.max_tokens - t.output_tokens, "length"))
        # Where the small model's window ends the large one may go on; where the large model's ends, all ends.
        large_beside = role == "small" and "large" in t.sides
        limits.append((self.window_left(role), "segment_limit" if large_beside else "length"))
        if large_beside:
            limits.append((self.window_left("large"), "length"))
        if role == "large" and (large_left := self.large_left()) is not None:
            limits.append((large_left, "budget"))
        if self._reasoning_budget is not None and t.channel == "reasoning" and not t.reasoning_closed:
            limits.append((self._reasoning_budget - t.output_tokens, "budget"))
        if of_plan is not None and not t.in_call:
            limits.append((of_plan, "segment_limit"))
        return min(limits, key=lambda limit: limit[0])
