"""What a message says about how it came to be, in LangChain's terms."""

from __future__ import annotations

from typing import Any

from langchain_core.messages.ai import OutputTokenDetails, UsageMetadata

from relay_integrations import RelayChoice, Usage
from relay_integrations.adapter.report import Reporter

PROVIDER = "relay"


def response_metadata(reporter: Reporter, choice: RelayChoice) -> dict[str, Any]:
    """All that `response_metadata` holds. Streamed, it goes on the last chunk alone: merging adds numbers and joins texts."""
    return {
        "model_name": reporter.model,
        "model_provider": PROVIDER,
        "finish_reason": choice.finish_reason,
        "relay": reporter.relay(choice),
    }


def usage_metadata(usage: Usage) -> UsageMetadata:
    """Usage in LangChain's terms: integers only, which is what chunks can be merged with."""
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens),
    )
