"""The engine's events as chunks of an AI message, and its results as whole messages: one is the other, merged."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.json import parse_partial_json

from langchain_relay.metadata import response_metadata, usage_metadata
from relay_integrations import Event, RelayChoice, RelayResult, TextDelta, ToolCall, ToolCallDelta, Usage
from relay_integrations.adapter.report import Reporter

REASONING, TEXT, FIRST_CALL = 0, 1, 2
"""Indices of content blocks. They are fixed: text is one block, however many segments wrote it."""

_ENDS = ("]", "}", '"]', '"}', '""]', '""}')


class ChunkWriter:
    """Writes the chunks of one streamed answer.

    Args:
        blocks: Whether content is a list of standard blocks (`output_version="v1"`) rather than a string.
    """

    def __init__(self, *, blocks: bool) -> None:
        self._blocks = blocks
        self._arguments: dict[int, str] = {}
        self._nameless: dict[int, str | None] = {}

    def write(self, event: Event) -> ChatGenerationChunk | None:
        """The chunk that an event makes; None for one that adds nothing to the message."""
        if isinstance(event, TextDelta):
            return _generation(self._text(event))
        if isinstance(event, ToolCallDelta):
            return self._call(event)
        return None

    def last(self, choice: RelayChoice, reporter: Reporter) -> ChatGenerationChunk:
        """The chunk that ends the answer, with all that may be said only once."""
        message = AIMessageChunk(
            content=[] if self._blocks else "",
            response_metadata={**self._version, **response_metadata(reporter, choice)},
            usage_metadata=usage_metadata(choice.usage),
            chunk_position="last",
        )
        return ChatGenerationChunk(message=message, generation_info=None)

    @property
    def _version(self) -> dict[str, Any]:
        # Said on every chunk: content that is said to be standard is not looked through for tool calls once more.
        return {"output_version": "v1"} if self._blocks else {}

    def _text(self, event: TextDelta) -> AIMessageChunk:
        if event.channel == "reasoning":
            block = {"type": "reasoning", "reasoning": event.text, "index": REASONING}
            content: Any = [block] if self._blocks else ""
            return AIMessageChunk(content=content, additional_kwargs={"reasoning_content": event.text}, response_metadata=self._version)
        content = [{"type": "text", "text": event.text, "index": TEXT}] if self._blocks else event.text
        return AIMessageChunk(content=content, response_metadata=self._version)

    def _call(self, event: ToolCallDelta) -> ChatGenerationChunk | None:
        name, call_id, arguments = event.name, event.id, event.arguments
        so_far = self._arguments[event.index] = self._arguments.get(event.index, "") + arguments
        if name == "":
            self._nameless[event.index] = call_id
        if event.index in self._nameless:
            # Cut off in its name. LangChain would take it for a call up to the chunk that says it is none: so that chunk is the only one.
            if event.valid is None:
                return None
            name, call_id, arguments = "", self._nameless[event.index], so_far
        added = arguments + (broken_end(so_far) if event.valid is False else "")
        if name is None and not added:
            return None
        chunk = tool_call_chunk(name=name, args=added, id=call_id, index=event.index)
        content: Any = [{**chunk, "index": FIRST_CALL + event.index}] if self._blocks else ""
        return _generation(AIMessageChunk(content=content, tool_call_chunks=[chunk], response_metadata=self._version))


def to_chat_result(result: RelayResult, reporter: Reporter) -> ChatResult:
    """A result that was not streamed. The usage of all choices stands on the first one alone: whoever adds up counts it once."""
    return ChatResult(
        generations=[
            ChatGeneration(message=to_message(choice, reporter, result.usage if choice.index == 0 else None)) for choice in result.choices
        ]
    )


def to_message(choice: RelayChoice, reporter: Reporter, usage: Usage | None) -> AIMessage:
    """An answer as a message; the same that its chunks make when they are merged."""
    merged = AIMessageChunk(content="", tool_call_chunks=[_whole(i, call) for i, call in enumerate(choice.tool_calls)])
    return AIMessage(
        content=choice.text,
        additional_kwargs={"reasoning_content": choice.reasoning} if choice.reasoning else {},
        tool_calls=merged.tool_calls,
        invalid_tool_calls=merged.invalid_tool_calls,
        response_metadata=response_metadata(reporter, choice),
        usage_metadata=usage_metadata(usage) if usage else None,
    )


def broken_end(arguments: str) -> str:
    """What is to be put behind arguments that are no JSON object, so that LangChain sees that too.

    It mends JSON that breaks off, which is right while a call is being written, and wrong at its end: a call that `max_tokens` cut
    short would be made with half of its arguments. A closing bracket that fits nothing cannot be mended.
    """
    if _is_object(arguments):
        return ""
    return next(end for end in ("", *_ENDS) if not _mended(arguments + end))


def _whole(index: int, call: ToolCall) -> ToolCallChunk:
    return tool_call_chunk(name=call.name, args=call.arguments + broken_end(call.arguments), id=call.id, index=index)


def _generation(message: AIMessageChunk) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=message)


def _is_object(arguments: str) -> bool:
    """Whether they are a JSON object as LangChain reads it, which allows line breaks in texts."""
    try:
        return isinstance(json.loads(arguments, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _mended(arguments: str) -> bool:
    try:
        return not arguments or isinstance(parse_partial_json(arguments), dict)
    except (ValueError, RecursionError):
        return False
