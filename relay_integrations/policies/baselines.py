"""Baselines to measure a policy against: one model alone, random delegation, fixed segment lengths."""

from __future__ import annotations

import random
from typing import ClassVar

from pydantic import Field, field_validator

from relay_integrations.policies.base import AnswerRole, Plan, Policy, StopRule
from relay_integrations.roles import HandoffReason, Role
from relay_integrations.transcript import SegmentEnd, Transcript


class LargeOnly(Policy):
    """The large model alone."""

    name: ClassVar[str] = "large-only"
    roles: ClassVar[tuple[Role, ...]] = ("large",)

    def next(self, transcript: Transcript, ended: SegmentEnd | None) -> Plan | None:
        return Plan("large", "start") if ended is None else None


class SmallOnly(Policy):
    """The small model alone."""

    name: ClassVar[str] = "small-only"
    leader: ClassVar[Role] = "small"
    roles: ClassVar[tuple[Role, ...]] = ("small",)

    def next(self, transcript: Transcript, ended: SegmentEnd | None) -> Plan | None:
        return Plan("small", "start") if ended is None else None


class RandomPolicy(Policy):
    """Each sentence of the reasoning goes to the small model with probability `p`; `answer_role` answers.

    Attributes:
        p: Probability that the small model writes a sentence.
        seed: Seed of the draws, which also depend on the prompt.
        max_small_tokens: Where a sentence of the small model ends at the latest.
        answer_role: Who writes the answer after the reasoning.
    """

    name: ClassVar[str] = "random"

    p: float = Field(0.3, ge=0, le=1)
    seed: int = 0
    max_small_tokens: int = Field(128, ge=1)
    answer_role: AnswerRole = "small"

    def next(self, transcript: Transcript, ended: SegmentEnd | None) -> Plan | None:
        if ended is None:
            draw = random.Random(f"{self.seed}:{transcript.key}").random()
            return self._sentences(transcript, "small" if draw < self.p else "large", "start")
        if transcript.reasoning_closed:
            return None if ended.cause == "eos" else Plan(self.answer_role, "think_end")
        if ended.cause == "eos":
            return self._sentences(transcript, "large", "eos") if ended.role == "small" else None
        reason: HandoffReason = "segment_limit" if ended.cause == "segment_limit" else "sentence_end"
        return self._sentences(transcript, "small" if ended.role == "large" else "large", reason)

    def _sentences(self, transcript: Transcript, role: Role, reason: HandoffReason) -> Plan:
        """As many sentences as the draws give the same role in a row."""
        draws = random.Random(f"{self.seed}:{transcript.key}:{len(transcript.segments)}")
        stay = self.p if role == "small" else 1 - self.p
        count = 1
        while draws.random() < stay and count < 10_000:
            count += 1
        limit = self.max_small_tokens * count if role == "small" else None
        return Plan(role, reason, StopRule(sentences=count), max_tokens=limit)


class Schedule(Policy):
    """Fixed segment lengths in turn, to the end of the sequence: for benches, where the content must not matter.

    Attributes:
        segments: Role and number of tokens, repeated from the start when used up.
    """

    name: ClassVar[str] = "schedule"

    segments: tuple[tuple[Role, int], ...] = (("large", 20), ("small", 10))

    @field_validator("segments")
    @classmethod
    def _check(cls, segments: tuple[tuple[Role, int], ...]) -> tuple[tuple[Role, int], ...]:
        if not segments or any(count < 1 for _, count in segments):
            raise ValueError("segments needs at least one (role, tokens) with tokens >= 1")
        if any(a[0] == b[0] for a, b in zip(segments, segments[1:] + segments[:1], strict=True)) and len(segments) > 1:
            raise ValueError("neighbouring segments (the last and first are neighbours too) need different roles: add their tokens up")
        return segments

    def next(self, transcript: Transcript, ended: SegmentEnd | None) -> Plan | None:
        if ended is not None and ended.cause == "eos":
            return None
        role, count = self.segments[len(transcript.segments) % len(self.segments)]
        return Plan(role, "start" if ended is None else "schedule", max_tokens=count)
