"""What an answer says about how it came to be, in plain dicts: the relay's figures, and its segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay_integrations.events import SegmentFinished
from relay_integrations.result import RelayChoice


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reports on the answers of one call.

    Attributes:
        model: The name that is reported.
        policy: The policy's name.
        large, small: The models' names.
        max_segments: How many segments are listed at most.
    """

    model: str
    policy: str
    large: str
    small: str
    max_segments: int

    def relay(self, choice: RelayChoice) -> dict[str, Any]:
        """The relay's figures on an answer; a fresh dict."""
        usage = choice.usage
        listed = choice.segments[: self.max_segments]
        return {
            "policy": self.policy,
            "models": {"large": self.large, "small": self.small},
            "tokens": {
                "large": usage.large_tokens,
                "small": usage.small_tokens,
                "forced": usage.forced_tokens,
                "discarded": usage.discarded_tokens,
            },
            "utilisation": usage.utilisation,
            "handoffs": dict(usage.handoffs),
            "segments": [describe_segment(segment) for segment in listed],
            "segments_left_out": len(choice.segments) - len(listed),
            "requests": usage.requests,
            "sent_tokens": usage.sent_tokens,
            "cached_tokens": usage.cached_tokens,
            "flops": usage.flops,
            "cost": usage.cost,
            "seed": choice.seed,
            "stop_sequence": choice.stop_sequence,
        }


def describe_segment(segment: SegmentFinished) -> dict[str, Any]:
    """A segment without its text. `started` and `ended` are seconds since the generation began."""
    return {
        "index": segment.index,
        "role": segment.role,
        "reason": segment.reason,
        "cause": segment.cause,
        "cue": segment.cue,
        "tokens": segment.tokens,
        "started": segment.time - segment.duration,
        "ended": segment.time,
    }
