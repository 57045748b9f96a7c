"""Chunks of an answer, and the whole answer: one is the other, merged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk

from langchain_relay.chunks import broken_end
from langchain_relay.messages import to_relay
from relay_integrations.chat.messages import parse_messages
from tests.unit.langchain_support import chat, merged, plain
from tests.unit.support import MATHS, WEATHER, continuing

TWO_CALLS = (
    "<think>\nTwo tools. So, we call them. Done.\n</think>\n\nLet me see."
    '\n<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
    '\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rom"}}\n</tool_call>'
)
UNCLOSED = "<think>\nFirst we add them. So, it is seven. And then"
CUT = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Zü'
SINGLE_QUOTES = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {\'city\': \'Rom\'}}\n</tool_call>'
NO_CALL = "<think>\nHm.\n</think>\n\n<tool_call>\nweather in Rome\n</tool_call>"
TEXTS = {
    "reasoning, then an answer": MATHS,
    "no reasoning": "The answer is 7.5. So, that is it.",
    "reasoning that is never closed": UNCLOSED,
    "two tool calls": TWO_CALLS,
    "a call that breaks off": CUT,
    "a call with arguments that are no JSON": SINGLE_QUOTES,
    "a call that is none": NO_CALL,
    "nothing": "",
}


def both(text: str, *, version: str | None = None, chunk: int = 1, **kwargs: Any) -> tuple[AIMessage, AIMessageChunk]:
    """The message of `invoke`, and the one merged from a stream."""
    model = chat(continuing(text, chunk=chunk), output_version=version, seed=1)
    assert model.engine is not None
    with model.engine:
        return model.invoke("hi", tools=[WEATHER], **kwargs), merged(model.stream("hi", tools=[WEATHER], **kwargs))


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_merged_stream_equals_the_whole_message_in_every_field(text: str, chunk: int) -> None:
    whole, streamed = both(text, chunk=chunk)
    assert plain(streamed) == plain(whole)


def test_text_stays_a_string_and_reasoning_out_of_it() -> None:
    whole, streamed = both(MATHS)
    assert whole.content == streamed.content == "The answer is 7.5."
    assert whole.additional_kwargs == streamed.additional_kwargs
    assert whole.additional_kwargs["reasoning_content"].startswith("First we add")
    assert [block["type"] for block in whole.content_blocks] == ["reasoning", "text"]


@pytest.mark.parametrize("text", [MATHS, TWO_CALLS], ids=["text", "tool calls"])
def test_standard_blocks_are_one_of_each_kind_however_many_segments_wrote_them(text: str) -> None:
    whole, streamed = both(text, version="v1")

    def blocks(message: AIMessage) -> list[dict[str, Any]]:
        return [{key: value for key, value in block.items() if key != "index"} for block in message.content if isinstance(block, dict)]

    assert blocks(streamed) == blocks(whole)
    assert [block["type"] for block in blocks(whole)][:2] == ["reasoning", "text"]
    assert streamed.content_blocks == streamed.content
    assert streamed.tool_calls == whole.tool_calls
    assert streamed.text == whole.text


@pytest.mark.parametrize("version", [None, "v1"])
@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_protocol_v3_makes_the_same_blocks(version: str | None) -> None:
    model = chat(TWO_CALLS, output_version=version, seed=1)
    output = model.stream_events("hi", version="v3", tools=[WEATHER]).output
    assert [block["type"] for block in output.content_blocks] == ["reasoning", "text", "tool_call", "tool_call"]
    whole = model.invoke("hi", tools=[WEATHER])
    assert (output.text, output.tool_calls, output.usage_metadata) == (whole.text, whole.tool_calls, whole.usage_metadata)


def test_whatever_its_form_a_message_goes_back_to_the_engine_as_the_same() -> None:
    back = [parse_messages(to_relay([message])) for version in (None, "v1") for message in both(TWO_CALLS, version=version)]
    assert back[1:] == back[:1] * 3
    ((only,),) = back[:1]
    assert (only.content, bool(only.reasoning), len(only.tool_calls)) == ("Let me see.\n", True, 2)


def test_a_streamed_call_begins_with_its_name_and_no_arguments() -> None:
    model = chat(TWO_CALLS)
    chunks = [chunk for chunk in model.stream("hi", tools=[WEATHER]) if chunk.tool_call_chunks]
    assert all(chunk.content == "" for chunk in chunks)
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    heads = [(piece["name"], piece["args"], piece["index"]) for piece in pieces if piece["name"] is not None]
    assert heads == [("weather", "", 0), ("weather", "", 1)]
    assert len({piece["id"] for piece in pieces if piece["id"]}) == 2
    assert [call["args"] for call in merged(chunks).tool_calls] == [{"city": "Zürich"}, {"city": "Rom"}]


@pytest.mark.parametrize("text", [CUT, SINGLE_QUOTES, NO_CALL])
@pytest.mark.parametrize("version", [None, "v1"])
def test_a_call_that_is_no_json_is_never_one_to_be_made(text: str, version: str | None) -> None:
    for message in both(text, version=version):
        assert message.tool_calls == []
        assert len(message.invalid_tool_calls) == 1


def test_a_call_that_the_token_limit_cuts_short_is_not_made_with_half_of_its_arguments() -> None:
    model = chat(TWO_CALLS)
    whole = model.invoke("hi", tools=[WEATHER])
    cut = whole.usage_metadata["output_tokens"] - 8  # type: ignore[index]
    for message in (model.invoke("hi", tools=[WEATHER], max_tokens=cut), merged(model.stream("hi", tools=[WEATHER], max_tokens=cut))):
        assert message.response_metadata["finish_reason"] == "length"
        assert [call["args"] for call in message.tool_calls] == [{"city": "Zürich"}]
        assert len(message.invalid_tool_calls) == 1


def test_line_breaks_inside_the_texts_of_arguments_are_allowed() -> None:
    whole, streamed = both('<tool_call>\n{"name": "weather", "arguments": {"city": "Bad\nRagaz"}}\n</tool_call>')
    assert whole.tool_calls == streamed.tool_calls
    assert whole.tool_calls[0]["args"] == {"city": "Bad\nRagaz"}


def test_what_may_be_said_once_is_said_on_the_last_chunk_alone() -> None:
    *chunks, last = chat(MATHS).stream("hi")
    assert last.chunk_position == "last"
    assert all(chunk.usage_metadata is None and not chunk.response_metadata and chunk.chunk_position is None for chunk in chunks)
    assert set(last.response_metadata) == {"model_name", "model_provider", "finish_reason", "relay"}
    assert len({chunk.id for chunk in [*chunks, last]}) == 1


@given(st.text(alphabet='{}[]":,\\ a1\n', max_size=30))
def test_whatever_the_arguments_a_call_is_made_only_if_they_are_an_object(arguments: str) -> None:
    try:
        wanted = json.loads(arguments, strict=False)
    except ValueError:
        wanted = None
    piece = {"name": "weather", "args": arguments + broken_end(arguments), "id": "c1", "index": 0}
    made = AIMessageChunk(content="", tool_call_chunks=[piece])
    assert [call["args"] for call in made.tool_calls] == ([wanted] if isinstance(wanted, dict) else [])
    assert len(made.invalid_tool_calls) == 1 - len(made.tool_calls)
