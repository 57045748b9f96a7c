"""The conversation as a caller may pass it: checked, and nothing dropped from it or put into it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from relay_integrations import ConfigError, Message, MessageError, NotSupported, ToolCall
from relay_integrations.chat.messages import read_messages, read_tools
from tests.unit.support import WEATHER

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}


def test_a_plain_string_is_one_user_message() -> None:
    assert read_messages("Hi") == [Message(role="user", content="Hi")]


def test_a_whole_history_is_read_in_order() -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "reasoning_content": "Ask the tool.", "tool_calls": [CALL]},
        {"role": "tool", "content": "12 degrees", "tool_call_id": "c1", "name": "weather"},
    ]
    assert read_messages(history) == [
        Message(role="system", content="Be brief."),
        Message(role="user", content="Weather?"),
        Message(role="assistant", reasoning="Ask the tool.", tool_calls=(ToolCall(id="c1", name="weather", arguments='{"city": "Oslo"}'),)),
        Message(role="tool", content="12 degrees", tool_call_id="c1", name="weather"),
    ]


def test_our_own_messages_and_dicts_mix() -> None:
    mixed = [Message(role="system", content="a"), {"role": "user", "content": "b"}]
    assert [m.content for m in read_messages(mixed)] == ["a", "b"]


def test_what_the_caller_passed_is_not_changed() -> None:
    history = [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": "b", "refusal": None}]
    history.append({"role": "user", "content": "c"})
    before = copy.deepcopy(history)
    read_messages(history)
    assert history == before


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": " b"}, " c"]
    assert read_messages([{"role": "user", "content": parts}])[0].content == "a b c"


def test_either_spelling_of_earlier_reasoning_is_read() -> None:
    for key in ("reasoning", "reasoning_content"):
        history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", key: "why"}, {"role": "user", "content": "c"}]
        assert read_messages(history)[1].reasoning == "why"


def test_developer_is_another_word_for_system() -> None:
    assert read_messages([{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}])[0].role == "system"


def test_arguments_may_come_as_an_object() -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}
    read = read_messages([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "b"}])
    assert read[1].tool_calls[0].arguments == '{"a": 1}'


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_an_image_or_other_media_is_a_clear_error(kind: str) -> None:
    with pytest.raises(NotSupported, match=rf"content of type '{kind}'.*text only"):
        read_messages([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": kind, kind: {}}]}])


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "messages is empty"),
        ({"role": "user", "content": "a"}, r"not dict; put a single message in a list"),
        (5, "not int"),
        (b"hello", "not bytes"),
        (["hello"], r"messages\[0\] is a str"),
        ([{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}], r"messages\[1\] is malformed: role"),
        ([{"content": "a"}], r"messages\[0\] is malformed: role"),
        ([{"role": "user", "content": 5}], r"messages\[0\] is malformed: content"),
        ([{"role": "user", "content": "a", "colour": "red"}], r"messages\[0\] is malformed: colour"),
        ([{"role": "user", "content": "a", "tool_calls": [CALL]}], r"messages\[0\].*user message cannot have tool_calls"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "c"}]}], r"messages\[1\].*tool_calls\.0"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": 5}], r"messages\[1\].*tool_calls"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": 5}]}], r"messages\[1\].*tool_calls"),
        ([{"role": "user", "content": "a\ud800b"}], r"messages\[0\].*surrogate at 1"),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "c", "name": "t", "arguments": "\ud800"}]}],
            r"messages\[1\].*surrogate",
        ),
        ([{"role": "system", "content": "a"}], "no user message"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "last message is the assistant's"),
        ([{"role": "user", "content": "  \n"}], "every message is blank"),
        ("", "every message is blank"),
    ],
)
def test_what_is_wrong_with_the_messages_is_said(messages: Any, says: str) -> None:
    with pytest.raises(MessageError, match=says):
        read_messages(messages)


def test_a_message_error_is_a_config_error() -> None:
    assert issubclass(MessageError, ConfigError)


def test_a_template_gets_arguments_as_objects_and_all_the_rest() -> None:
    call = ToolCall(id="c1", name="weather", arguments='{"city": "Oslo"}')
    message = Message(role="assistant", content="a", reasoning="why", tool_calls=(call,))
    assert message.to_template() == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "why",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}],
    }
    assert Message(role="tool", content="b", tool_call_id="c1", name="weather").to_template() == {
        "role": "tool",
        "content": "b",
        "tool_call_id": "c1",
        "name": "weather",
    }
    assert Message(role="user", content="c").to_template() == {"role": "user", "content": "c"}


@pytest.mark.parametrize(
    ("name", "arguments", "valid"), [("f", "{}", True), ("f", '{"a": 1}', True), ("", "{}", False), ("f", "[1]", False), ("f", "{a", False)]
)
def test_a_call_is_valid_with_a_name_and_an_object(name: str, arguments: str, valid: bool) -> None:
    assert ToolCall(id="c", name=name, arguments=arguments).valid is valid


def test_tools_in_openais_format_pass_through_whole() -> None:
    strict = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}}
    assert read_tools([WEATHER, strict]) == [WEATHER, strict]
    assert read_tools(None) == read_tools([]) == []


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("weather", r"tools\[1\]"),
        ({"name": "weather"}, r"tools\[1\].*function"),
        ({"type": "function", "function": {"name": ""}}, r"tools\[1\].*name"),
        ({"type": "web_search", "function": {"name": "f"}}, r"tools\[1\].*type"),
    ],
)
def test_what_is_wrong_with_a_tool_is_said(tool: Any, says: str) -> None:
    with pytest.raises(MessageError, match=says):
        read_tools([WEATHER, tool])
