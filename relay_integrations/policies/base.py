"""What a policy is: it sees the transcript and how the last segment ended, and says who goes on and until when.

Policies do no I/O and keep no state of their own: the next step follows from the transcript alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from relay_integrations.chat.constraint import Constraint
from relay_integrations.cues.matcher import CueSet
from relay_integrations.cues.profile import CueProfile
from relay_integrations.roles import ROLES, HandoffReason, Role
from relay_integrations.transcript import SegmentEnd, Transcript

AnswerRole = Literal["small", "large"]


@dataclass(frozen=True, slots=True)
class StopRule:
    """Where a segment ends, besides end of sequence, the user's stop sequences and the limits.

    Attributes:
        cues: End behind the first of these cues.
        min_tokens: A cue counts only if this many tokens of the segment stand before it.
        sentences: End at this many sentence ends; 0 means never.
        think_end: End when the reasoning is closed.
        repetition: End when the text has fallen into a loop.
        past_tool_calls: Whether cues and sentence ends still count once the segment holds a tool call.
    """

    cues: CueSet | None = None
    min_tokens: int = 0
    sentences: int = 0
    think_end: bool = True
    repetition: bool = False
    past_tool_calls: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """The next segment.

    Attributes:
        role: Who writes. The role that wrote last goes on in the same segment.
        reason: Why it begins.
        stop: Where it ends.
        max_tokens: Where it ends at the latest ("segment_limit"); None for no limit of its own.
        top2: Whether the policy needs the margin of each token.
        constraint: What the segment has to be.
    """

    role: Role
    reason: HandoffReason
    stop: StopRule = StopRule(think_end=False)
    max_tokens: int | None = None
    top2: bool = False
    constraint: Constraint | None = None


class Policy(BaseModel, ABC):
    """Decides who goes next. A new one is one new file and one line in `relay_integrations.policies`.

    Class attributes:
        name: As in `policy="…"` and in benches.
        leader: Who starts, and goes on alone if the other fails.
        roles: The models that it uses at all.
        needs_cues: Whether it takes a cue profile.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: ClassVar[str]
    leader: ClassVar[Role] = "large"
    roles: ClassVar[tuple[Role, ...]] = ROLES
    needs_cues: ClassVar[bool] = False

    @property
    def constrained_role(self) -> Role:
        """Who writes an answer that has to follow a tool choice or a response format.

        It is `tool_call_role` where the policy has that setting, else the large model if it takes part.
        """
        role: Role | None = getattr(self, "tool_call_role", None)
        return role or ("large" if "large" in self.roles else self.roles[0])

    @abstractmethod
    def next(self, transcript: Transcript, ended: SegmentEnd | None) -> Plan | None:
        """The next segment, or None where the generation is complete.

        Args:
            transcript: All so far; not to be changed.
            ended: How the last segment ended; None at the start.
        """

    def with_cues(self, profile: CueProfile) -> Policy:
        """This policy with a cue profile, where it takes one and has none."""
        return self
