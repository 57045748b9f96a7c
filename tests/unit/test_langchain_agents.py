"""Agents on LangGraph: tools are called, forms are filled in, and no message is streamed twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.tools import tool
from pydantic import BaseModel

from langchain_relay import ChatRelay
from tests.unit.langchain_support import Recorder
from tests.unit.talking import talking_engine

CALL_HANDOFFS = ["cue", "sentence_end", "cue", "sentence_end"]
ANSWER_HANDOFFS = [*CALL_HANDOFFS, "sentence_end"]
"""With tools bound the large model opens the answer; where it is no call, the small one takes over at a sentence's end."""


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    degrees: int


@tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"Sunny in {city}."


@pytest.fixture(params=["summary", "all", "none"])
def model(request: pytest.FixtureRequest) -> Iterator[ChatRelay]:
    with talking_engine() as engine:
        yield ChatRelay(engine=engine, seed=1, trace_segments=request.param)


QUESTION: Any = {"messages": [("human", "How is it in 'Rome'?")]}


def test_an_agent_calls_its_tool_and_answers(model: ChatRelay) -> None:
    recorder = Recorder()
    messages = create_agent(model, [weather]).invoke(QUESTION, {"callbacks": [recorder]})["messages"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert messages[2].content == "Sunny in Rome."
    assert messages[3].content.startswith("You said: Sunny in Rome.")
    assert recorder.reasons == CALL_HANDOFFS + ANSWER_HANDOFFS
    assert recorder.all_ended


def test_a_form_is_filled_in_by_a_forced_call_with_thinking_on(model: ChatRelay) -> None:
    alone = create_agent(model, [], response_format=ToolStrategy(Weather)).invoke({"messages": [("human", "'Rome' has 30.")]})
    assert alone["structured_response"] == Weather(city="Rome", degrees=30)
    assert alone["messages"][1].additional_kwargs["reasoning_content"]
    state = create_agent(model, [weather], response_format=Weather).invoke({"messages": [("human", "How is it in 'Rome'?")]})
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai", "tool"]
    assert isinstance(state["structured_response"], Weather)


def _texts(pairs: list[tuple[Any, Any]]) -> dict[str, str]:
    """The text of each AI message in a stream of messages, by its id."""
    texts: dict[str, str] = {}
    for message, _ in pairs:
        if isinstance(message, (AIMessage, AIMessageChunk)):
            texts[message.id or ""] = texts.get(message.id or "", "") + message.text
    return texts


def test_messages_are_streamed_once_each(model: ChatRelay) -> None:
    agent = create_agent(model, [weather])
    texts = _texts(list(agent.stream(QUESTION, stream_mode="messages")))
    assert list(texts.values()) == ["", "You said: Sunny in Rome.. That is all there is to say about it."]


def test_messages_are_streamed_once_each_to_async_code_too(model: ChatRelay) -> None:
    async def read() -> list[Any]:
        return [pair async for pair in create_agent(model, [weather]).astream(QUESTION, stream_mode="messages")]

    texts = _texts(asyncio.run(read()))
    assert list(texts.values()) == ["", "You said: Sunny in Rome.. That is all there is to say about it."]


def test_the_events_of_an_agent_hold_its_handoffs(model: ChatRelay) -> None:
    async def read() -> list[Any]:
        return [event async for event in create_agent(model, [weather]).astream_events(QUESTION, version="v2")]

    events = asyncio.run(read())
    handoffs = [event for event in events if event["event"] == "on_custom_event"]
    models = [event["run_id"] for event in events if event["event"] == "on_chat_model_start"]
    assert Counter(event["run_id"] for event in handoffs) == dict(zip(models, map(len, (CALL_HANDOFFS, ANSWER_HANDOFFS)), strict=True))


def test_several_agents_at_once_do_not_mix(model: ChatRelay) -> None:
    agent = create_agent(model, [weather])
    cities = ["Rome", "Oslo", "Bern", "Paris"]
    states = agent.batch([{"messages": [("human", f"How is it in '{city}'?")]} for city in cities])
    assert [state["messages"][2].content for state in states] == [f"Sunny in {city}." for city in cities]


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_protocol_v3_shows_each_message_once_and_handlers_hear_the_handoffs(model: ChatRelay) -> None:
    recorder = Recorder()
    run = create_agent(model, [weather]).stream_events(QUESTION, {"callbacks": [recorder]}, version="v3")
    shown = [(str(message.reasoning)[:3], str(message.text)[:8], len(message.output.tool_calls)) for message in run.messages]
    assert shown == [("Let", "", 1), ("Let", "You said", 0)]
    assert recorder.reasons == CALL_HANDOFFS + ANSWER_HANDOFFS
    assert recorder.all_ended
