"""The LLM on real models: an agent that really calls its calculator, a query engine over what it retrieves, forced structured output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel, Field

from llamaindex_relay import Relay
from relay_integrations.tiny import MAX_TOKENS
from tests.integration.llamaindex_tasks import agent_attempts, answers_from_context

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")  # LlamaIndex's agents' own

QUESTION = "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?"
PROBLEMS = 15  # tests/slow has more


class Person(BaseModel):
    """Person to return."""

    name: str = Field(max_length=12)
    age: int = Field(ge=2, le=99)
    mood: Literal["glad", "sad"]


@pytest.fixture(scope="module")
def llm() -> Iterator[Relay]:
    made = Relay.tiny(temperature=0, max_tokens=MAX_TOKENS)
    yield made
    made.close()


def test_it_answers_and_streams_the_same(llm: Relay) -> None:
    whole = llm.complete(QUESTION, seed=1)
    assert "42" in whole.text
    assert whole.raw["relay"]["handoffs"]["cue"] > 0
    *pieces, last = llm.stream_complete(QUESTION, seed=1)
    assert last.text == whole.text == "".join(piece.delta for piece in pieces)
    assert last.raw["usage"] == whole.raw["usage"]


def test_an_agent_calls_its_tools_and_answers_right(llm: Relay) -> None:
    made = agent_attempts(llm, PROBLEMS)
    assert sum(attempt.right for attempt in made) >= 0.9 * PROBLEMS
    for attempt in made:
        assert attempt.deltas.endswith(attempt.text)
        assert attempt.thoughts
        assert {"large", "small"} <= attempt.speakers


@pytest.mark.parametrize("streaming", [False, True])
def test_a_query_engine_answers_from_what_it_retrieves(llm: Relay, streaming: bool) -> None:
    assert sum(answers_from_context(llm, PROBLEMS, streaming=streaming)) >= 0.9 * PROBLEMS


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.2, "top_p": 1.0, "seed": 3}], ids=["greedy", "sampled"])
def test_a_class_is_always_filled_in(llm: Relay, sampling: dict[str, Any]) -> None:
    prompt = PromptTemplate("{name} is 12 years old.")
    asked = {**sampling, "reasoning_budget": 60}  # on a task that they do not know, the tiny models may reason without end
    assert isinstance(llm.structured_predict(Person, prompt, llm_kwargs=dict(asked), name="Mia"), Person)
    assert isinstance(asyncio.run(llm.astructured_predict(Person, prompt, llm_kwargs=dict(asked), name="Mia")), Person)
    *_, last = llm.stream_structured_predict(Person, prompt, llm_kwargs=dict(asked), name="Mia")
    assert isinstance(last, Person)


def test_two_requests_overlap_and_say_what_each_says_alone(llm: Relay) -> None:
    questions = [QUESTION, "Tom has 55 pens. Tom loses 16. How many pens does Tom have?"]
    alone = [llm.complete(question).text for question in questions]

    async def both() -> list[str]:
        asked = [llm.achat([ChatMessage(role="user", content=question)]) for question in questions]
        return [response.message.content for response in await asyncio.gather(*asked)]

    assert asyncio.run(both()) == alone
