"""The LLM on real models: the tiny pair, opened when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

from llamaindex_relay import Relay
from relay_integrations import ModelLoadError
from relay_integrations.evaluation.statistics import newcombe_paired
from relay_integrations.tiny import MAX_TOKENS, SMALL
from tests.integration.llamaindex_tasks import attempts, compare_query_engines
from tests.unit.llamaindex_support import core_warns, recorded

pytestmark = core_warns

QUESTION = "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?"
AGENT_PROBLEMS, QUERIES = 15, 12  # tests/slow has more


@pytest.fixture(scope="module")
def model() -> Iterator[Relay]:
    made = Relay.tiny(temperature=0, max_tokens=MAX_TOKENS)
    yield made
    made.close()


def test_it_answers_and_streams_the_same(model: Relay) -> None:
    with recorded() as told:
        whole = model.complete(QUESTION)
    assert "42" in whole.text
    assert told.reasons.count("cue") == whole.raw["relay"]["handoffs"]["cue"] > 0
    *_, last = pieces = list(model.stream_complete(QUESTION))
    assert (last.text, last.raw["usage"]) == (whole.text, whole.raw["usage"])
    assert "".join(piece.delta or "" for piece in pieces) == whole.text
    assert len(pieces) > 5


def test_a_function_agent_calls_its_tools_and_answers_right(model: Relay) -> None:
    made = attempts(model, AGENT_PROBLEMS)
    assert sum(attempt.right for attempt in made) >= 0.9 * AGENT_PROBLEMS
    assert all(attempt.pieces > 1 for attempt in made)


def test_a_query_engine_is_right_as_often_as_with_the_large_model_alone(model: Relay) -> None:
    pairs = compare_query_engines(model, QUERIES)
    low, high = newcombe_paired(pairs)
    assert low <= 0 <= high, pairs
    assert pairs.both + pairs.first >= 0.5 * QUERIES, pairs


def calculator(expression: str) -> str:
    """Work out an arithmetic expression."""
    return expression


def test_its_template_takes_tools_calls_and_results(model: Relay) -> None:
    tools, question = [FunctionTool.from_defaults(calculator)], ChatMessage(role="user", content="What is 12+30?")
    call = model.chat_with_tools(tools, chat_history=[question])
    (made,) = model.get_tool_calls_from_response(call)
    assert (made.tool_name, made.tool_kwargs) == ("calculator", {"expression": "12+30"})
    result = ChatMessage(role="tool", content="42", additional_kwargs={"tool_call_id": made.tool_id})
    answer = model.chat_with_tools(tools, chat_history=[question, call.message, result])
    assert "42" in (answer.message.content or "")
    assert model.get_tool_calls_from_response(answer, error_on_no_tool_call=False) == []


class Person(BaseModel):
    """Person to return."""

    name: str = Field(max_length=12)
    age: int = Field(ge=2, le=99)
    mood: Literal["glad", "sad"]


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.2, "top_p": 1.0, "seed": 1}], ids=["greedy", "sampled"])
def test_a_class_is_always_filled_in(model: Relay, sampling: dict[str, Any]) -> None:
    # The budget: on a task that they do not know, the tiny models may reason without end.
    how = {"reasoning_budget": 60, **sampling}
    prompt = PromptTemplate("Mia is {age} years old.")
    assert isinstance(model.structured_predict(Person, prompt, llm_kwargs=dict(how), age=12), Person)
    assert isinstance(asyncio.run(model.astructured_predict(Person, prompt, llm_kwargs=dict(how), age=12)), Person)
    *_, last = model.stream_structured_predict(Person, prompt, llm_kwargs=dict(how), age=12)
    assert isinstance(last, Person)


def test_threads_share_the_models(model: Relay) -> None:
    questions = [QUESTION, "Tom has 55 pens. Tom loses 16. How many pens does Tom have?"] * 2
    alone = [model.complete(question).text for question in questions]
    with ThreadPoolExecutor(4) as threads:
        assert [response.text for response in threads.map(model.complete, questions)] == alone


def test_a_model_that_cannot_be_loaded_is_an_error_each_time_it_is_used() -> None:
    model = Relay(large="./nowhere", small=SMALL)
    for _ in range(2):
        with pytest.raises(ModelLoadError, match="nowhere"):
            model.complete("hi")
