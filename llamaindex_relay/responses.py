"""The engine's events as LlamaIndex's responses: each holds all that was said so far, the last one is the whole answer."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from relay_integrations import Event, RelayChoice, TextDelta, ToolCallDelta, Usage
from relay_integrations.adapter.report import Reporter


class ResponseWriter:
    """Writes the responses of one answer.

    Args:
        reporter: Says how the answer came to be.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._reasoning = ""
        self._text = ""
        self._calls: dict[int, _Call] = {}

    def write(self, event: Event) -> ChatResponse | None:
        """The response that an event makes; None for one that adds nothing."""
        if isinstance(event, TextDelta):
            return self._said(event)
        if isinstance(event, ToolCallDelta):
            call = self._calls.setdefault(event.index, _Call(event.id or "", event.name or ""))
            call.arguments += event.arguments
            # Cut off in its name it is no call at all, which the last response says.
            return self._response("", event) if call.name and (event.name or event.arguments) else None
        return None

    def last(self, choice: RelayChoice) -> ChatResponse:
        """The whole answer. It may be the only response, where nothing was streamed.

        A call that broke off is none to be made: it is in `raw["relay"]["invalid_tool_calls"]` alone.
        """
        calls = [
            ToolCallBlock(tool_call_id=c.id, tool_name=c.name, tool_kwargs=json.loads(c.arguments)) for c in choice.tool_calls if c.valid
        ]
        broken = [call.model_dump() for call in choice.tool_calls if not call.valid]
        relay = {**self._reporter.relay(choice), "finish_reason": choice.finish_reason, "invalid_tool_calls": broken}
        raw = {"model": self._reporter.model, "relay": relay, "usage": usage_dict(choice.usage)}
        message = _message(choice.reasoning, choice.text, calls, choice.usage.reasoning_tokens)
        return ChatResponse(message=message, delta="", raw=raw)

    def _said(self, event: TextDelta) -> ChatResponse:
        if event.channel == "reasoning":
            self._reasoning += event.text
            return self._response("", event, thinking_delta=event.text)
        self._text += event.text
        return self._response(event.text, event)

    def _response(self, delta: str, event: TextDelta | ToolCallDelta, **more: str) -> ChatResponse:
        calls = [ToolCallBlock(tool_call_id=c.id, tool_name=c.name, tool_kwargs=c.arguments) for c in self._calls.values() if c.name]
        model = self._reporter.large if event.role == "large" else self._reporter.small
        raw = {"model": self._reporter.model, "relay": {"segment": event.segment, "role": event.role, "model": model}}
        return ChatResponse(message=_message(self._reasoning, self._text, calls), delta=delta, raw=raw, additional_kwargs=more)


class _Call:
    """A call while it is being written."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.arguments = ""


def to_completion(response: ChatResponse) -> CompletionResponse:
    """A chat's response as that of a completion."""
    return CompletionResponse(
        text=response.message.content or "", additional_kwargs=dict(response.additional_kwargs), raw=response.raw, delta=response.delta
    )


def usage_dict(usage: Usage) -> dict[str, Any]:
    """Usage under the names that LlamaIndex's token counters look for; the reasoning is among the completion tokens."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _message(reasoning: str, text: str, calls: list[ToolCallBlock], reasoning_tokens: int | None = None) -> ChatMessage:
    """One block of reasoning, exactly one of text (LlamaIndex joins several by line breaks), and the calls."""
    thinking = [ThinkingBlock(content=reasoning, num_tokens=reasoning_tokens)] if reasoning else []
    # Streamed structured output looks for calls in this place only.
    also = {"tool_calls": [_openai(call) for call in calls]} if calls else {}
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[*thinking, TextBlock(text=text), *calls], additional_kwargs=also)


def _openai(call: ToolCallBlock) -> dict[str, Any]:
    written = call.tool_kwargs if isinstance(call.tool_kwargs, str) else json.dumps(call.tool_kwargs, ensure_ascii=False)
    return {"id": call.tool_call_id, "type": "function", "function": {"name": call.tool_name, "arguments": written}}
