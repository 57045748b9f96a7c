"""Structured output: a class filled in by a forced call, or by text that is parsed; whole or in partial objects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel, ValidationError

from llamaindex_relay import Relay
from relay_integrations import NotSupported
from tests.unit.llamaindex_support import answering, core_warns, llm, recorded, talker
from tests.unit.support import backend
from tests.unit.talking import fill

pytestmark = core_warns  # core's structured LLM writes objects by a method of pydantic 1


class Item(BaseModel):
    """A thing."""

    label: str
    count: int


class Person(BaseModel):
    """A person."""

    name: str
    age: int


class Household(BaseModel):
    """People and things."""

    owner: Person
    items: list[Item]
    note: str | None = None


ANN = Person(name="Ann", age=33)
PROMPT = PromptTemplate("'Ann' is 33, {what}.")
ASKED = [ChatMessage(role="user", content="'Ann' is 33.")]
LEAKY = "<think>\nFields like {name: …} are asked for. So, { and } it is. Thus we write it.\n</think>\n\n"
"""Reasoning with braces, which would break the parser if any of it leaked."""


def by_text(**settings: Any) -> Relay:
    return answering(_text_answer, LEAKY, pydantic_program_mode=PydanticProgramMode.LLM, **settings)


def _text_answer(prompt: str) -> str:
    """Fills in the schema that text mode writes into the prompt, with its braces doubled."""
    (written,) = re.findall(r"JSON schema to follow:\n(.*)\n", prompt)
    return json.dumps(fill(json.loads(written.replace("{{", "{").replace("}}", "}")), "'Ann' is 33."))


MODES: dict[str, Callable[[], Relay]] = {
    "function": talker,
    "text": by_text,
    "text, as it has no functions": lambda: answering(_text_answer, LEAKY, is_function_calling_model=False),
}
every_mode = pytest.mark.parametrize("make", MODES.values(), ids=MODES.keys())


async def _last(stream: Any) -> Any:
    return [item async for item in await stream][-1]


PREDICTS: dict[str, Callable[[Relay, type[BaseModel]], Any]] = {
    "structured_predict": lambda model, cls: model.structured_predict(cls, PROMPT, what="he says"),
    "astructured_predict": lambda model, cls: asyncio.run(model.astructured_predict(cls, PROMPT, what="he says")),
    "stream_structured_predict": lambda model, cls: list(model.stream_structured_predict(cls, PROMPT, what="he says"))[-1],
    "astream_structured_predict": lambda model, cls: asyncio.run(_last(model.astream_structured_predict(cls, PROMPT, what="he says"))),
}
AS_LLM: dict[str, Callable[[Any], Any]] = {
    "chat": lambda llm: llm.chat(ASKED).raw,
    "achat": lambda llm: asyncio.run(llm.achat(ASKED)).raw,
    "stream_chat": lambda llm: list(llm.stream_chat(ASKED))[-1].raw,
    "astream_chat": lambda llm: asyncio.run(_last(llm.astream_chat(ASKED))).raw,
    "complete": lambda llm: llm.complete("'Ann' is 33.").raw,
    "acomplete": lambda llm: asyncio.run(llm.acomplete("'Ann' is 33.")).raw,
}


@pytest.mark.parametrize("way", PREDICTS)
@every_mode
def test_a_class_is_filled_in(make: Callable[[], Relay], way: str) -> None:
    assert PREDICTS[way](make(), Person) == ANN


@pytest.mark.parametrize("way", AS_LLM)
@every_mode
def test_a_structured_llm_says_objects(make: Callable[[], Relay], way: str) -> None:
    assert AS_LLM[way](make().as_structured_llm(Person)) == ANN


@pytest.mark.parametrize("way", PREDICTS)
@every_mode
def test_classes_within_classes_lists_and_what_may_be_left_out(make: Callable[[], Relay], way: str) -> None:
    made = PREDICTS[way](make(), Household)
    assert made.owner == ANN
    assert made.items == []


@pytest.mark.parametrize("way", PREDICTS)
def test_function_mode_forces_a_call_of_the_class_streamed_or_not(way: str) -> None:
    model = talker()
    PREDICTS[way](model, Person)
    requests = [request for role in ("large", "small") for request in backend(model.engine, role).requests]  # type: ignore[arg-type]
    (constraint,) = {request.constraint for request in requests if request.constraint is not None}
    ((piece,),) = (row.pieces for row in constraint.rows)
    assert '"Person"' in piece.before


def test_a_stream_of_objects_grows() -> None:
    objects = list(talker().stream_structured_predict(Person, PROMPT, what="he says"))
    assert len(objects) > 3
    named = [made.name for made in objects if getattr(made, "name", None)]
    assert all("Ann".startswith(name) for name in named)
    assert objects[-1] == ANN


def test_an_object_that_is_never_finished_is_an_error_in_function_mode() -> None:
    model = talker()
    whole = model.chat(ASKED, tools=[_tool()], tool_choice="required").raw["usage"]["completion_tokens"]
    with pytest.raises(ValueError, match=r"call of 'Person' is not whole .* max_tokens"):
        model.structured_predict(Person, PROMPT, llm_kwargs={"max_tokens": whole - 6}, what="he says")


def _tool() -> dict[str, Any]:
    return {"type": "function", "function": {"name": "Person", "parameters": Person.model_json_schema()}}


def test_text_that_is_no_object_is_an_error_in_text_mode() -> None:
    with pytest.raises(ValueError, match=r"JSON|json"):
        llm(pydantic_program_mode=PydanticProgramMode.LLM).structured_predict(Person, PROMPT, what="he says")


def test_an_object_that_does_not_follow_the_class_is_an_error_in_text_mode() -> None:
    model = answering(lambda prompt: '{"name": "Ann"}', pydantic_program_mode=PydanticProgramMode.LLM)
    with pytest.raises(ValidationError, match="age"):
        model.structured_predict(Person, PROMPT, what="he says")


def test_a_backend_that_cannot_be_held_to_a_call_says_so_before_anything_is_generated() -> None:
    model = llm()
    with pytest.raises(NotSupported, match="constrained output"):
        model.structured_predict(Person, PROMPT, what="he says")
    assert backend(model.engine, "large").requests == []  # type: ignore[arg-type]


@pytest.mark.parametrize("way", PREDICTS)
def test_the_options_of_a_call_reach_the_models_in_function_mode(way: str) -> None:
    model = talker(temperature=0.2)
    how: dict[str, Any] = {"llm_kwargs": {"temperature": 0.7}, "what": "he says"}
    method = getattr(model, way)
    if way.startswith("astream"):
        asyncio.run(_last(method(Person, PROMPT, **how)))
    elif way.startswith("a"):
        asyncio.run(method(Person, PROMPT, **how))
    else:
        made = method(Person, PROMPT, **how)
        list(made) if isinstance(made, Iterator) else made
    assert model.engine is not None
    assert model.engine.backends["large"].requests[0].sampling.temperature == 0.7  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", PREDICTS)
@every_mode
def test_handoffs_are_told_on_the_way_to_an_object(make: Callable[[], Relay], way: str) -> None:
    with recorded() as told:
        PREDICTS[way](make(), Person)
    assert told.reasons[:2] == ["cue", "sentence_end"]
    assert told.all_closed_once
