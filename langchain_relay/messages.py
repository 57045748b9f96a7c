"""LangChain's messages as the engine takes them: text, reasoning, tool calls and their results. The engine checks them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    FunctionMessage,
    ToolMessage,
    message_chunk_to_message,
)

from relay_integrations import MessageError

RelayMessage = dict[str, Any]
"""An OpenAI-style message."""

Block = str | Mapping[str, Any]

_ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "system": "system", "developer": "system"}
_CALLS = ("tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call")
"""Blocks that repeat what stands in a message's `tool_calls`."""


def to_relay(messages: Sequence[BaseMessage]) -> list[RelayMessage]:
    """A conversation as the engine takes it.

    Raises:
        MessageError: A message is of a kind that no model can be shown.
    """
    return [read for message in messages for read in _read(message)]


def _read(message: BaseMessage) -> list[RelayMessage]:
    while isinstance(message, BaseMessageChunk):  # a class that somebody derived from one takes two steps
        message = message_chunk_to_message(message)
    if isinstance(message, AIMessage):
        return [_assistant(message)]
    if isinstance(message, ToolMessage):
        return [_named(message, role="tool", content=_parts(message.content), tool_call_id=message.tool_call_id)]
    if isinstance(message, FunctionMessage):
        return [_named(message, role="tool", content=_parts(message.content))]
    kind = message.role if isinstance(message, ChatMessage) else message.type
    role = _ROLES.get(kind)
    if role is None:
        raise MessageError(f"a message of type {type(message).__name__} ({kind!r}) cannot be shown to a model; leave it out")
    return _with_results(message, role)


def _named(message: BaseMessage, **fields: Any) -> RelayMessage:
    return fields if message.name is None else {**fields, "name": message.name}


def _assistant(message: AIMessage) -> RelayMessage:
    blocks = _blocks(message.content)
    kept = message.additional_kwargs.get("reasoning_content")
    reasoning = kept if isinstance(kept, str) else "".join(_reasoning(block) for block in blocks)
    calls: Sequence[Mapping[str, Any]] = message.tool_calls
    if not calls:  # of another provider, and not read by LangChain
        calls = [{**block, "args": block.get("input", {})} for block in blocks if _type(block) == "tool_use" and isinstance(block, Mapping)]
    fields: dict[str, Any] = {"reasoning": reasoning} if reasoning else {}
    if calls:
        fields["tool_calls"] = [_call(call) for call in calls]
    return _named(message, role="assistant", content=_parts(message.content), **fields)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    try:
        arguments = json.dumps(call["args"], ensure_ascii=False)
    except (TypeError, ValueError) as e:
        raise MessageError(f"the arguments of the call of {call.get('name')!r} are not JSON: {e}") from e
    return {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": arguments}}


def _with_results(message: BaseMessage, role: str) -> list[RelayMessage]:
    """A message, and in front of what follows them the tool results that it holds as Anthropic writes them: messages of their own."""
    read: list[RelayMessage] = []
    said: list[Block] = []

    def speak() -> None:
        if said:
            read.append(_named(message, role=role, content=_parts(list(said))))
            said.clear()

    for block in _blocks(message.content):
        if isinstance(block, Mapping) and _type(block) == "tool_result":
            speak()
            read.append({"role": "tool", "content": _parts(block.get("content") or ""), "tool_call_id": block.get("tool_use_id")})
        else:
            said.append(block)
    speak()
    return read or [_named(message, role=role, content="")]


def _blocks(content: Any) -> Sequence[Block]:
    return [content] if isinstance(content, str) else content


def _parts(content: Any) -> str | list[Block]:
    """Content without what is no text of the message's; what is no text at all, the engine refuses by its type."""
    if isinstance(content, str):
        return content
    return [_part(block) for block in _blocks(content) if _type(block) not in (*_CALLS, "reasoning", "thinking", "redacted_thinking")]


def _part(block: Block) -> Block:
    if isinstance(block, Mapping) and _type(block) in (None, "text-plain") and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    return block


def _reasoning(block: Block) -> str:
    text = block.get(str(_type(block))) if isinstance(block, Mapping) and _type(block) in ("reasoning", "thinking") else None
    return text if isinstance(text, str) else ""


def _type(block: Block) -> Any:
    return "text" if isinstance(block, str) else block.get("type")
