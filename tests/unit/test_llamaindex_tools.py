"""Tools: what a template is shown of them, how calls come back, whole or in pieces, and what agents read out of each piece."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatResponse, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from llamaindex_relay import Relay
from llamaindex_relay.tools import read_tools
from relay_integrations import ConfigError
from tests.unit.llamaindex_support import HI, llm, rendered, talker
from tests.unit.support import WEATHER, continuing

TWO_CALLS = (
    "<think>\nTwo tools. So, we call them. Done.\n</think>\n\nLet me see."
    '\n<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
    '\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rom"}}\n</tool_call>'
)
NOT_JSON = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {\'city\': \'Rom\'}}\n</tool_call>'


def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"Sunny in {city}."


def clock() -> str:
    """Tell the time."""
    return "noon"


TOOLS = [FunctionTool.from_defaults(weather), FunctionTool.from_defaults(clock)]


async def _pieces(model: Relay, how: dict[str, Any]) -> list[ChatResponse]:
    return [response async for response in await model.astream_chat_with_tools(TOOLS, **how)]


WITH_TOOLS: dict[str, Callable[..., list[ChatResponse]]] = {
    "chat": lambda model, **how: [model.chat_with_tools(TOOLS, **how)],
    "achat": lambda model, **how: [asyncio.run(model.achat_with_tools(TOOLS, **how))],
    "stream": lambda model, **how: list(model.stream_chat_with_tools(TOOLS, **how)),
    "astream": lambda model, **how: asyncio.run(_pieces(model, how)),
}
every_way = pytest.mark.parametrize("way", WITH_TOOLS.values(), ids=WITH_TOOLS.keys())


def calls(model: Relay, response: ChatResponse) -> list[tuple[str, dict[str, Any]]]:
    made = model.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    return [(call.tool_name, call.tool_kwargs) for call in made]


def asked(model: Relay) -> dict[str, Any]:
    """What the model was last asked for that would have to constrain it."""
    found: dict[str, Any] = rendered(model)[2].template.get("asked", {})
    return found


@pytest.fixture
def model() -> Iterator[Relay]:
    made = talker()
    yield made
    assert made.engine is not None
    made.engine.close()


@every_way
def test_the_template_gets_the_tools_as_openai_writes_them(model: Relay, way: Callable[..., Any]) -> None:
    way(model, user_msg="How is it in 'Rome'?")
    _, (first, second), _ = rendered(model)
    assert (first["type"], first["function"]["name"], second["function"]["name"]) == ("function", "weather", "clock")
    assert first["function"]["parameters"]["properties"]["city"]["type"] == "string"
    assert "Tell the weather" in first["function"]["description"]


@every_way
def test_a_call_comes_back_in_a_block_and_in_openais_form(model: Relay, way: Callable[..., Any]) -> None:
    last = way(model, user_msg="How is it in 'Rome'?")[-1]
    thinking, text, call = last.message.blocks
    assert (type(thinking), type(text), type(call)) == (ThinkingBlock, TextBlock, ToolCallBlock)
    assert (text.text, call.tool_name, call.tool_kwargs) == ("", "weather", {"city": "Rome"})
    (other,) = last.message.additional_kwargs["tool_calls"]
    assert other["function"] == {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert other["id"] == call.tool_call_id != ""
    assert last.raw["relay"]["finish_reason"] == "tool_calls"
    assert calls(model, last) == [("weather", {"city": "Rome"})]


@pytest.mark.parametrize("chunk", [1, 4, 1000])
@every_way
def test_calls_in_a_row_come_whole_however_they_are_cut(way: Callable[..., Any], chunk: int) -> None:
    model = llm(continuing(TWO_CALLS, chunk=chunk))
    last = way(model, user_msg="hi", allow_parallel_tool_calls=True)[-1]
    assert calls(model, last) == [("weather", {"city": "Zürich"}), ("weather", {"city": "Rom"})]
    assert len({block.tool_call_id for block in last.message.blocks if isinstance(block, ToolCallBlock)}) == 2
    assert last.message.content == "Let me see.\n"


@every_way
def test_only_one_call_is_made_unless_several_are_allowed(way: Callable[..., Any]) -> None:
    model = llm(TWO_CALLS)
    assert calls(model, way(model, user_msg="hi")[-1]) == [("weather", {"city": "Zürich"})]


@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_each_piece_of_a_stream_can_be_read_for_calls_that_only_grow(chunk: int) -> None:
    model = llm(continuing(TWO_CALLS, chunk=chunk))
    seen = [calls(model, piece) for piece in model.stream_chat_with_tools(TOOLS, "hi", allow_parallel_tool_calls=True)]
    assert seen[0] == []
    assert seen[-1] == [("weather", {"city": "Zürich"}), ("weather", {"city": "Rom"})]
    for earlier, later in itertools.pairwise(seen):
        assert len(earlier) <= len(later)
        for (name, some), (same, more) in zip(earlier, later, strict=False):
            assert name == same
            assert all(str(more[key]).startswith(value) for key, value in some.items())
    if chunk == 1:
        assert [("weather", {"city": "Zür"})] in seen or [("weather", {"city": "Zürich"})] in seen


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_the_last_piece_is_what_an_unstreamed_call_returns(way: str) -> None:
    (whole,) = WITH_TOOLS["chat"](llm(TWO_CALLS, seed=1), user_msg="hi", allow_parallel_tool_calls=True)
    pieces = WITH_TOOLS[way](llm(TWO_CALLS, seed=1), user_msg="hi", allow_parallel_tool_calls=True)
    assert pieces[-1].raw["usage"] == whole.raw["usage"]
    assert [b.model_dump(exclude={"tool_call_id"}) for b in pieces[-1].message.blocks] == [
        b.model_dump(exclude={"tool_call_id"}) for b in whole.message.blocks
    ]


@every_way
def test_a_call_that_the_token_limit_cuts_short_is_not_made(way: Callable[..., Any]) -> None:
    model = llm(TWO_CALLS)
    whole = model.chat_with_tools(TOOLS, "hi", allow_parallel_tool_calls=True)
    cut = whole.raw["usage"]["completion_tokens"] - 8
    last = way(model, user_msg="hi", allow_parallel_tool_calls=True, max_tokens=cut)[-1]
    assert calls(model, last) == [("weather", {"city": "Zürich"})]
    assert last.raw["relay"]["finish_reason"] == "length"
    (broken,) = last.raw["relay"]["invalid_tool_calls"]
    assert broken["name"] == "weather"
    assert len(last.message.additional_kwargs["tool_calls"]) == 1


@every_way
def test_arguments_that_are_no_json_are_no_call(way: Callable[..., Any]) -> None:
    model = llm(NOT_JSON)
    last = way(model, user_msg="hi")[-1]
    assert calls(model, last) == []
    assert len(last.raw["relay"]["invalid_tool_calls"]) == 1
    with pytest.raises(ValueError, match="call"):
        model.get_tool_calls_from_response(last)


@pytest.mark.parametrize(
    ("how", "sent"),
    [
        ({}, {"parallel_tool_calls": False}),
        ({"allow_parallel_tool_calls": True}, {"parallel_tool_calls": True}),
        ({"tool_required": True}, {"parallel_tool_calls": False, "tool_choice": "required"}),
        ({"tool_required": True, "tool_choice": "clock"}, {"parallel_tool_calls": False, "tool_choice": "clock"}),
        ({"tool_required": True, "tool_choice": "auto"}, {"parallel_tool_calls": False, "tool_choice": "required"}),
        ({"tool_choice": "none"}, {"parallel_tool_calls": False, "tool_choice": "none"}),
    ],
)
@every_way
def test_what_is_asked_of_the_choice_reaches_the_engine(model: Relay, way: Callable[..., Any], how: Any, sent: Any) -> None:
    way(model, user_msg="hi", **how)
    assert asked(model) == sent


def test_a_forced_call_is_made_with_thinking_on(model: Relay) -> None:
    last = model.chat_with_tools(TOOLS, "hi", tool_required=True, tool_choice="clock")
    assert calls(model, last) == [("clock", {})]
    assert isinstance(last.message.blocks[0], ThinkingBlock)


def test_a_choice_that_names_no_tool_is_an_error(model: Relay) -> None:
    with pytest.raises(ConfigError, match=r"nonesuch"):
        model.chat_with_tools(TOOLS, "hi", tool_choice="nonesuch")


def test_no_tools_are_fine(model: Relay) -> None:
    answer = model.chat_with_tools([], "hi", tool_required=True)
    assert answer.message.content == "You said: hi. That is all there is to say about it."
    assert asked(model) == {}


def test_the_history_that_was_passed_in_stays_as_it_was(model: Relay) -> None:
    history = list(HI)
    model.chat_with_tools(TOOLS, "And now?", chat_history=history)
    assert history == HI
    assert [m.content for m in rendered(model)[0]] == ["hi", "And now?"]


def test_a_conversation_with_calls_and_results_goes_back_to_the_template_whole(model: Relay) -> None:
    question = ChatMessage(role="user", content="How is it in 'Rome'?")
    call = model.chat_with_tools(TOOLS, chat_history=[question])
    (made,) = model.get_tool_calls_from_response(call)
    result = ChatMessage(role="tool", content=weather(**made.tool_kwargs), additional_kwargs={"tool_call_id": made.tool_id})
    answer = model.chat_with_tools(TOOLS, chat_history=[question, call.message, result])
    assert answer.message.content == "You said: Sunny in Rome.. That is all there is to say about it."
    model.chat_with_tools(TOOLS, "And now?", chat_history=[question, call.message, result, answer.message])
    messages, _, _ = rendered(model)
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[1].reasoning == call.message.blocks[0].content
    assert messages[1].tool_calls[0].id == messages[2].tool_call_id == made.tool_id
    assert messages[1].content == ""


def test_tools_that_are_openais_dicts_are_taken_as_they_are(model: Relay) -> None:
    assert model.chat(HI, tools=[WEATHER]).message.additional_kwargs["tool_calls"][0]["function"]["name"] == "weather"
    assert rendered(model)[1] == [WEATHER]


class Place(BaseModel):
    """A place on a map."""

    name: str
    near: list[str] = []


class LookUp(BaseModel):
    """What to look up."""

    place: Place
    deep: bool = False


def test_arguments_by_a_class_of_ones_own_reach_the_tool(model: Relay) -> None:
    def look_up(**arguments: Any) -> str:
        return f"{arguments['place']['name']}: nothing, {arguments['deep']}"

    tool = FunctionTool.from_defaults(look_up, fn_schema=LookUp, description="Look a place up.")
    assert model.predict_and_call([tool], "Where is 'Ulm'?").response == "Ulm: nothing, False"


class Tree(BaseModel):
    """Refers to itself, and is no more than such a reference in its own schema."""

    value: int
    children: list[Tree] = []


def test_a_class_that_refers_to_itself_is_shown_whole() -> None:
    ((shown,),) = ([tool["function"]["parameters"] for tool in read_tools([get_function_tool(Tree)])],)
    assert shown["required"] == ["value"]
    assert set(shown["properties"]) == {"value", "children"}
    assert shown["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert "Tree" in shown["$defs"]


@pytest.mark.parametrize(("tools", "says"), [([1], r"tools\[0\] is a int"), ("x", "must be a list of tools, not str"), (5, "not int")])
def test_what_is_no_tool_is_named(tools: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        llm().chat(HI, tools=tools)
