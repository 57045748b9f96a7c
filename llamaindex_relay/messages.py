"""LlamaIndex's messages as the engine takes them: text, reasoning, tool calls and their results. The engine checks them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from relay_integrations import MessageError, NotSupported

RelayMessage = dict[str, Any]
"""An OpenAI-style message."""

_ROLES = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}


def to_relay(messages: Sequence[ChatMessage]) -> list[RelayMessage]:
    """A conversation as the engine takes it.

    Raises:
        MessageError: A message cannot be read.
        NotSupported: A message holds an image or other media.
    """
    return [_read(message) for message in messages]


def _read(message: ChatMessage) -> RelayMessage:
    if not isinstance(message, ChatMessage):
        raise MessageError(f"a message is a {type(message).__name__}: give LlamaIndex's ChatMessage")
    role = _ROLES[message.role]
    read: RelayMessage = {"role": role, "content": "\n".join(_texts(message.blocks))}
    if role == "assistant":
        reasoning = "".join(block.content or "" for block in message.blocks if isinstance(block, ThinkingBlock))
        calls = _calls(message)
        return {**read, **({"reasoning": reasoning} if reasoning else {}), **({"tool_calls": calls} if calls else {})}
    if role == "tool":
        read["tool_call_id"] = message.additional_kwargs.get("tool_call_id")
    name = message.additional_kwargs.get("name")
    return {**read, "name": name} if isinstance(name, str) else read


def _texts(blocks: Iterable[Any]) -> list[str]:
    """The texts in blocks; LlamaIndex joins those of one message by line breaks."""
    texts: list[str] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif isinstance(block, CitableBlock):
            texts += _texts(block.content)
        elif isinstance(block, CitationBlock):
            texts += _texts([block.cited_content])
        elif not isinstance(block, ThinkingBlock | ToolCallBlock | CachePoint):
            raise NotSupported("relay", f"message content of type {block.block_type!r}", "send text only; both models read text alone")
    return texts


def _calls(message: ChatMessage) -> list[dict[str, Any]]:
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if blocks:
        return [_call(block.tool_call_id, block.tool_name, block.tool_kwargs) for block in blocks]
    # Other providers' messages, and those of older versions, have them here alone.
    return [_read_call(call) for call in message.additional_kwargs.get("tool_calls") or ()]


def _read_call(call: Any) -> dict[str, Any]:
    data = call if isinstance(call, Mapping) else call.model_dump() if hasattr(call, "model_dump") else None
    function = data.get("function") if data is not None else None
    if data is None or not isinstance(function, Mapping):
        raise MessageError(f"a tool call in additional_kwargs is not in OpenAI's format: {call!r}")
    return _call(data.get("id"), function.get("name"), function.get("arguments") or "{}")


def _call(call_id: str | None, name: Any, arguments: Any) -> dict[str, Any]:
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError) as e:
        raise MessageError(f"the arguments of the call of {name!r} are not JSON: {e}") from e
    return {"id": call_id or name, "function": {"name": name, "arguments": text}}
