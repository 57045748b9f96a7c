"""What a message says about how it came to be: usage in LangChain's terms, and the relay's own figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.messages.ai import OutputTokenDetails, UsageMetadata

from relay_integrations import RelayChoice, SegmentFinished, Usage

PROVIDER = "relay"


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

    def response_metadata(self, choice: RelayChoice) -> dict[str, Any]:
        """All that `response_metadata` holds. Streamed, it goes on the last chunk alone: merging adds numbers and joins texts."""
        return {
            "model_name": self.model,
            "model_provider": PROVIDER,
            "finish_reason": choice.finish_reason,
            "relay": self._relay(choice),
        }

    def _relay(self, choice: RelayChoice) -> dict[str, Any]:
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


def usage_metadata(usage: Usage) -> UsageMetadata:
    """Usage in LangChain's terms: integers only, which is what chunks can be merged with."""
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens),
    )
