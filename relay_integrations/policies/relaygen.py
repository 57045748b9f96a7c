"""RelayGen (arXiv 2602.06454): the large model reasons; behind a switch cue the small one continues to the sentence's end."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from relay_integrations.cues.profile import CueProfile, all_candidates
from relay_integrations.policies.base import AnswerRole, Plan, Policy, StopRule
from relay_integrations.roles import HandoffReason
from relay_integrations.transcript import SegmentEnd, Transcript


class RelayGen(Policy):
    """Training-free switching at segment level.

    The large model writes until one of the profile's cues, the small one from there until the sentence ends. A closing think tag by
    either ends the reasoning, and `answer_role` answers. Without reasoning, the answer itself is relayed by cues.

    Attributes:
        cues: The cue profile of the pair; filled in by the engine where it is None.
        min_large_tokens: What the large model owes before the next cue counts (the paper's 5: it stops a "So-So-So" loop).
        max_small_tokens: Where a delegated sentence ends at the latest.
        answer_role: Who writes the answer after the reasoning.
        tool_call_role: With tools bound: who opens the answer. If that turns out to be no tool call, `answer_role` takes over at the
            first sentence end.
    """

    name: ClassVar[str] = "relaygen"
    needs_cues: ClassVar[bool] = True

    cues: CueProfile | None = None
    min_large_tokens: int = Field(5, ge=0)
    max_small_tokens: int = Field(128, ge=1)
    answer_role: AnswerRole = "small"
    tool_call_role: AnswerRole = "large"

    def with_cues(self, profile: CueProfile) -> Policy:
        return self if self.cues else self.model_copy(update={"cues": profile})

    def next(self, transcript: Transcript, ended: SegmentEnd | None) -> Plan | None:
        if ended is None:
            return self._reason("start")
        if transcript.reasoning_closed:
            return self._answer(transcript, ended)
        if ended.cause == "eos":
            # The small model was asked for a sentence, not for the end: that is for the large one to say.
            return self._reason("eos") if ended.role == "small" else None
        if ended.cause == "cue":
            stop = StopRule(sentences=1, repetition=True)
            return Plan("small", "cue", stop, max_tokens=self.max_small_tokens)
        return self._reason(_reason_of(ended))

    def _reason(self, reason: HandoffReason) -> Plan:
        cues = self.cues.cue_set if self.cues else None
        return Plan("large", reason, StopRule(cues=cues, min_tokens=self.min_large_tokens))

    def _answer(self, transcript: Transcript, ended: SegmentEnd) -> Plan | None:
        if ended.cause == "eos":
            return None
        if ended.cause == "repetition":
            return Plan("large", "repetition")
        if ended.cause == "think_end" and transcript.tools:
            role = self.tool_call_role
            sentences = 0 if role == self.answer_role else 1
            return Plan(role, "think_end", StopRule(sentences=sentences, past_tool_calls=False, repetition=role == "small"))
        role = self.answer_role
        return Plan(role, _reason_of(ended), StopRule(repetition=role == "small"))


class AllCues(RelayGen):
    """Baseline: RelayGen with every candidate of the paper's lexicon as a cue."""

    name: ClassVar[str] = "all-cues"
    needs_cues: ClassVar[bool] = False

    cues: CueProfile | None = Field(default_factory=all_candidates)


def _reason_of(ended: SegmentEnd) -> HandoffReason:
    """The reason of the handoff that follows from how a segment ended."""
    reasons: dict[str, HandoffReason] = {
        "sentence_end": "sentence_end",
        "segment_limit": "segment_limit",
        "repetition": "repetition",
        "think_end": "think_end",
        "budget": "budget",
        "cue": "cue",
    }
    return reasons.get(ended.cause, "fallback")
