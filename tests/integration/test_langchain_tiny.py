"""The chat model on real models: the tiny pair, opened when it is first needed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from langchain_relay import ChatRelay
from relay_integrations import ModelLoadError
from relay_integrations.tiny import SMALL
from tests.unit.langchain_support import merged, plain

QUESTION = "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?"


@tool
def calculator(expression: str) -> str:
    """Work out an arithmetic expression."""
    return expression


@pytest.fixture(scope="module")
def model() -> Iterator[ChatRelay]:
    made = ChatRelay.tiny(temperature=0, max_tokens=400)
    yield made
    made.close()


def test_it_answers_and_streams_the_same(model: ChatRelay) -> None:
    whole = model.invoke(QUESTION, seed=1)
    assert "42" in whole.text
    assert whole.response_metadata["relay"]["handoffs"]["cue"] > 0
    assert plain(merged(model.stream(QUESTION, seed=1))) == plain(whole)


def test_what_is_counted_is_what_is_sent(model: ChatRelay) -> None:
    messages = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
    for tools in ([], [calculator]):
        answer = model.bind_tools(tools).invoke(messages)
        assert answer.usage_metadata is not None
        assert model.get_num_tokens_from_messages(messages, tools=tools) == answer.usage_metadata["input_tokens"]
    assert model.get_num_tokens_from_messages([AIMessage("Part of a conversation.")]) > 3
    assert model.get_num_tokens("12 + 30") == len(model.get_token_ids("12 + 30")) > 3


def test_its_template_takes_tools_calls_and_results(model: ChatRelay) -> None:
    bound = model.bind_tools([calculator])
    question = HumanMessage("What is 12+30?")
    call = bound.invoke([question])
    assert [(made["name"], made["args"]) for made in call.tool_calls] == [("calculator", {"expression": "12+30"})]
    answer = bound.invoke([question, call, ToolMessage("42", tool_call_id=call.tool_calls[0]["id"])])
    assert answer.tool_calls == []
    assert "42" in answer.text


class Person(BaseModel):
    """Person to return."""

    name: str = Field(max_length=12)
    age: int = Field(ge=2, le=99)
    mood: Literal["glad", "sad"]


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.2, "top_p": 1.0}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_a_schema_is_always_followed(model: ChatRelay, method: Any, sampling: dict[str, Any], thinking: bool) -> None:
    # The budget: sampled, and on a task that they do not know, the tiny models may reason without end.
    asked = {"reasoning": thinking, "reasoning_budget": 60 if thinking else None, **sampling}
    filled = model.with_structured_output(Person, method=method, include_raw=True, **asked)
    for seed in range(3):
        made: Any = filled.invoke("Mia is 12 years old.", seed=seed)
        assert made["parsing_error"] is None
        assert isinstance(made["parsed"], Person)
        assert bool(made["raw"].additional_kwargs.get("reasoning_content")) == thinking
    *_, last = model.with_structured_output(Person, method=method, **asked).stream("Mia is 12 years old.", seed=1)
    assert isinstance(last, Person)


@pytest.mark.parametrize("sampling", [{}, *({"temperature": 1.2, "seed": seed} for seed in range(3))])
def test_any_json_is_json_by_the_loosest_method(model: ChatRelay, sampling: dict[str, Any]) -> None:
    made: Any = model.with_structured_output(method="json_mode", include_raw=True).invoke("Give JSON.", **sampling)
    if made["raw"].response_metadata["finish_reason"] == "stop":
        assert isinstance(made["parsed"], dict)
    else:  # nothing says where an object of any form has to end
        assert "not whole" in str(made["parsing_error"])


@pytest.mark.parametrize("choice", ["any", "calculator", "note"])
def test_a_forced_call_is_made_whatever_is_asked(model: ChatRelay, choice: str) -> None:
    @tool
    def note(text: str, urgent: bool) -> str:
        """Write something down."""
        return text

    message = model.bind_tools([calculator, note], tool_choice=choice, parallel_tool_calls=False).invoke("How are you?")
    (call,) = message.tool_calls
    assert choice in ("any", call["name"])
    assert (message.text, message.invalid_tool_calls) == ("", [])
    assert set(call["args"]) == ({"expression"} if call["name"] == "calculator" else {"text", "urgent"})


def test_an_agent_gives_its_answer_in_a_form(model: ChatRelay) -> None:
    for form in (ToolStrategy(Person), ProviderStrategy(Person)):
        agent: Any = create_agent(model.model_copy(update={"reasoning_budget": 60}), [calculator], response_format=form)
        assert isinstance(agent.invoke({"messages": [("human", "Mia is 12 years old.")]})["structured_response"], Person)


def test_threads_share_the_models(model: ChatRelay) -> None:
    questions = [QUESTION, "Tom has 55 pens. Tom loses 16. How many pens does Tom have?"] * 2
    alone = [model.invoke(question).text for question in questions]
    with ThreadPoolExecutor(4) as threads:
        assert [message.text for message in threads.map(model.invoke, questions)] == alone


def test_a_model_that_cannot_be_loaded_is_an_error_each_time_it_is_used() -> None:
    model = ChatRelay(large="./nowhere", small=SMALL)
    for _ in range(2):
        with pytest.raises(ModelLoadError, match="nowhere"):
            model.invoke("hi")
