"""The two roles, the two channels, and the reasons for which a role begins to write."""

from __future__ import annotations

from typing import Literal

Role = Literal["large", "small"]
Channel = Literal["reasoning", "answer"]

ROLES: tuple[Role, Role] = ("large", "small")

HandoffReason = Literal[
    "start",  # the first segment; every other reason below is that of a handoff
    "cue",
    "sentence_end",
    "think_end",
    "command",
    "command_done",
    "segment_limit",
    "eos",
    "repetition",
    "margin",
    "schedule",
    "budget",
    "fallback",
    "constraint",  # the answer begins that has to follow a tool choice or a response format
]

SegmentEndCause = Literal[
    "cue",
    "sentence_end",
    "think_end",
    "segment_limit",
    "budget",
    "length",
    "eos",
    "stop",
    "repetition",
    "constraint",
    "error",
    "cancelled",
]

FinishReason = Literal["stop", "length", "tool_calls", "error", "cancelled"]


def other(role: Role) -> Role:
    """The other one of the two roles."""
    return "small" if role == "large" else "large"
