"""LangChain's messages, as the engine is given them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from langchain_relay.messages import to_relay
from relay_integrations import Message, MessageError, NotSupported
from relay_integrations.chat.messages import parse_messages

CALL = {"name": "weather", "args": {"city": "Zürich"}, "id": "c1", "type": "tool_call"}


def read(*messages: BaseMessage) -> list[Message]:
    return parse_messages(to_relay(messages))


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (SystemMessage("hi"), "system"),
        (HumanMessage("hi"), "user"),
        (HumanMessageChunk("hi"), "user"),
        (SystemMessageChunk("hi"), "system"),
        (ToolMessageChunk("hi", tool_call_id="c1"), "tool"),
        (ChatMessageChunk("hi", role="user"), "user"),
        (FunctionMessageChunk("hi", name="f"), "tool"),
        (AIMessage("hi"), "assistant"),
        (AIMessageChunk("hi"), "assistant"),
        (ToolMessage("hi", tool_call_id="c1"), "tool"),
        (FunctionMessage("hi", name="weather"), "tool"),
        (ChatMessage("hi", role="developer"), "system"),
        (ChatMessage("hi", role="user"), "user"),
    ],
)
def test_each_kind_of_message_has_its_role(message: BaseMessage, role: str) -> None:
    (made,) = read(message)
    assert (made.role, made.content) == (role, "hi")


class Heard(HumanMessageChunk):
    """Somebody's own."""


def test_a_chunk_of_somebodys_own_class_is_read_as_what_it_is_derived_from() -> None:
    (made,) = read(Heard("hi", name="Ada"))
    assert (made.role, made.content, made.name) == ("user", "hi", "Ada")


def test_chunks_that_were_added_up_are_read_as_one_message() -> None:
    call = {"name": "weather", "args": '{"city": ', "id": "c1", "index": 0, "type": "tool_call_chunk"}
    first = AIMessageChunk("So", additional_kwargs={"reasoning_content": "H"}, tool_call_chunks=[call])  # type: ignore[list-item]
    rest = {"name": None, "args": '"Rome"}', "id": None, "index": 0, "type": "tool_call_chunk"}
    whole = first + AIMessageChunk(":", additional_kwargs={"reasoning_content": "m."}, tool_call_chunks=[rest])  # type: ignore[list-item]
    (made,) = read(whole)
    assert (made.content, made.reasoning, made.tool_calls[0].arguments) == ("So:", "Hm.", '{"city": "Rome"}')


def test_a_history_with_reasoning_and_tool_calls_keeps_both() -> None:
    said = AIMessage("Let me see.", additional_kwargs={"reasoning_content": "Hm."}, tool_calls=[CALL])
    user, assistant, tool = read(HumanMessage("Well?", name="Ada"), said, ToolMessage("4 °C", tool_call_id="c1", name="weather"))
    assert (user.name, assistant.reasoning, assistant.content) == ("Ada", "Hm.", "Let me see.")
    assert assistant.to_template()["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich"}}}
    ]
    assert (tool.content, tool.tool_call_id, tool.name) == ("4 °C", "c1", "weather")


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}],
        [
            {"type": "thinking", "thinking": "Hm.", "signature": "xyz"},
            {"type": "redacted_thinking", "data": "?"},
            {"type": "text", "text": "Yes."},
        ],
        [{"type": "reasoning", "reasoning": "H", "index": 0}, {"type": "reasoning", "reasoning": "m."}, "Yes."],
    ],
)
def test_reasoning_in_blocks_is_reasoning_and_no_content(content: list[Any]) -> None:
    (made,) = read(AIMessage(content))
    assert (made.reasoning, made.content) == ("Hm.", "Yes.")


def test_reasoning_that_stands_in_both_places_counts_once() -> None:
    (made,) = read(AIMessage([{"type": "reasoning", "reasoning": "Hm."}], additional_kwargs={"reasoning_content": "Hm."}))
    assert made.reasoning == "Hm."


@pytest.mark.parametrize("kind", ["tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call"])
def test_blocks_that_repeat_tool_calls_are_not_read_twice(kind: str) -> None:
    (made,) = read(AIMessage(["So: ", {"type": kind, "id": "c1", "name": "weather", "input": {}}], tool_calls=[CALL]))
    assert (made.content, len(made.tool_calls)) == ("So: ", 1)


def test_calls_of_another_provider_that_stand_in_blocks_alone_are_read_there() -> None:
    (made,) = read(AIMessage([{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}}]))
    assert [(call.id, call.name, call.arguments) for call in made.tool_calls] == [("c1", "weather", '{"city": "Rome"}')]


def test_tool_results_in_a_human_message_become_tool_messages_in_their_place() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "green"}], "is_error": False}
    made = read(HumanMessage([{"type": "text", "text": "Here:"}, result, {"type": "text", "text": "And now?"}]))
    assert [(m.role, m.content, m.tool_call_id) for m in made] == [
        ("user", "Here:", None),
        ("tool", "green", "c1"),
        ("user", "And now?", None),
    ]


@pytest.mark.parametrize(
    "part",
    [
        "one",
        {"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}},
        {"text": "one"},
        {"type": "text-plain", "text": "one"},
    ],
)
def test_text_may_come_in_parts(part: Any) -> None:
    assert [m.content for m in read(HumanMessage([part, " two"]))] == ["one two"]


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("image", {"type": "image", "base64": "AAAA", "mime_type": "image/png"}),
        ("image_url", {"type": "image_url", "image_url": {"url": "http://x/y.png"}}),
        ("audio", {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}),
        ("file", {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"}),
    ],
)
@pytest.mark.parametrize("tool", [False, True])
def test_what_is_no_text_is_a_clear_error(kind: str, block: dict[str, Any], tool: bool) -> None:
    content: list[Any] = ["Look:", block]
    with pytest.raises(NotSupported, match=f"'{kind}'.*send text only"):
        read(ToolMessage(content, tool_call_id="c1") if tool else HumanMessage(content))


def test_empty_messages_stay() -> None:
    assert [m.content for m in read(HumanMessage(""), AIMessage([]), HumanMessage([]))] == ["", "", ""]


def test_a_message_that_is_none_is_an_error_that_names_it() -> None:
    with pytest.raises(MessageError, match="RemoveMessage"):
        read(RemoveMessage(id="1"))
    with pytest.raises(MessageError, match="nobody"):
        read(ChatMessage("hi", role="nobody"))


def test_arguments_that_are_no_json_are_an_error_that_names_the_call() -> None:
    with pytest.raises(MessageError, match="'weather' are not JSON"):
        read(AIMessage("", tool_calls=[{**CALL, "args": {"city": object()}}]))
