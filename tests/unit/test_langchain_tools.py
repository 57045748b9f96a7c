"""Tools, forced calls, and answers in the form of a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.tools import tool
from pydantic import BaseModel
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import TypedDict

from langchain_relay import ChatRelay
from langchain_relay.schemas import read_response_format
from langchain_relay.tools import read_tool_choice, read_tools
from relay_integrations import ConfigError, NotSupported
from tests.unit.langchain_support import merged
from tests.unit.talking import TalkingEngine, talking_engine


class Person(BaseModel):
    """A person."""

    name: str
    age: int


class PersonV1(BaseModelV1):
    """A person."""

    name: str
    age: int


class PersonDict(TypedDict):
    """A person."""

    name: Annotated[str, ..., "Of the person."]
    age: int


SCHEMAS: dict[str, Any] = {
    "pydantic": Person,
    "pydantic v1": PersonV1,
    "TypedDict": PersonDict,
    "JSON schema": Person.model_json_schema(),
}
METHODS = ("function_calling", "json_schema")


@tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"Sunny in {city}."


@tool
def clock() -> str:
    """Tell the time."""
    return "noon"


@pytest.fixture
def model() -> Iterator[ChatRelay]:
    with talking_engine() as engine:
        yield ChatRelay(engine=engine, seed=1)


def asked(model: ChatRelay) -> dict[str, Any]:
    """What the model was last asked for that would have to constrain it, and the names of its tools."""
    assert isinstance(model.engine, TalkingEngine)
    _, tools, options = model.engine.backends["large"].rendered[-1]  # type: ignore[attr-defined]
    return {**options.template.get("asked", {}), "tools": [t["function"]["name"] for t in tools]}


def test_the_template_gets_the_tools_as_openai_writes_them(model: ChatRelay) -> None:
    bound = model.bind_tools([weather, Person])
    assert isinstance(bound, RunnableBinding)
    assert [t["function"]["name"] for t in bound.kwargs["tools"]] == ["weather", "Person"]
    bound.invoke("hi")
    assert asked(model) == {"tools": ["weather", "Person"]}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        (False, None),
        ("auto", "auto"),
        ("none", "none"),
        ("any", "required"),
        ("required", "required"),
        (True, "required"),
        ("weather", "weather"),
        ({"type": "function", "function": {"name": "weather"}}, "weather"),
        ({"type": "tool", "name": "weather"}, "weather"),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
    ],
)
@pytest.mark.parametrize("bound", [True, False])
def test_a_tool_choice_in_any_form_reaches_the_engine_in_its_own(model: ChatRelay, choice: Any, sent: str | None, bound: bool) -> None:
    if bound:
        model.bind_tools([weather, clock], tool_choice=choice).invoke("hi")
    else:
        model.invoke("hi", tools=[weather, clock], tool_choice=choice)
    assert asked(model).get("tool_choice") == sent


def test_a_forced_call_is_made_with_thinking_on_and_streams_the_same(model: ChatRelay) -> None:
    bound = model.bind_tools([clock, weather], tool_choice="weather")
    whole, streamed = bound.invoke("How is it in 'Rome'?"), merged(bound.stream("How is it in 'Rome'?"))  # type: ignore[arg-type]
    for message in (whole, streamed):
        assert [(call["name"], call["args"]) for call in message.tool_calls] == [("weather", {"city": "Rome"})]
        assert message.content == ""
        assert message.additional_kwargs["reasoning_content"]
        assert message.response_metadata["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("choice", ["nonesuch", {"type": "function", "function": {"name": "nonesuch"}}, 3])
def test_a_choice_that_names_no_tool_is_an_error_that_names_those_at_hand(model: ChatRelay, choice: Any) -> None:
    with pytest.raises(ConfigError, match=r"tool_choice=.*is unknown.*weather, clock"):
        model.bind_tools([weather, clock], tool_choice=choice)


def test_some_call_of_no_tools_is_an_error_and_no_tools_are_fine(model: ChatRelay) -> None:
    with pytest.raises(ConfigError, match="there are no tools"):
        model.bind_tools([], tool_choice="any")
    assert model.bind_tools([]).invoke("hi").content
    assert asked(model) == {"tools": []}


def test_calls_in_a_row_can_be_ruled_out(model: ChatRelay) -> None:
    model.bind_tools([weather], parallel_tool_calls=False).invoke("hi")
    assert asked(model)["parallel_tool_calls"] is False


def test_a_tool_whose_name_is_that_of_a_choice_can_be_chosen() -> None:
    tools = read_tools([{"type": "function", "function": {"name": "any", "parameters": {}}}])
    assert read_tool_choice("any", tools) == "any"
    assert read_tool_choice("required", tools) == "required"


def test_a_tool_message_may_come_last_and_a_history_of_calls_round_trips(model: ChatRelay) -> None:
    bound = model.bind_tools([weather])
    question = HumanMessage("How is it in 'Rome'?")
    call = bound.invoke([question])
    result = weather.invoke(call.tool_calls[0])
    assert isinstance(result, ToolMessage)
    answer = bound.invoke([question, call, result])
    assert answer.content == "You said: Sunny in Rome.. That is all there is to say about it."
    bound.invoke([question, call, result, answer, HumanMessage("And now?")])
    messages, _, _ = model.engine.backends["large"].rendered[-1]  # type: ignore[union-attr]
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[1].reasoning == call.additional_kwargs["reasoning_content"]
    assert messages[1].tool_calls[0].id == messages[2].tool_call_id


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("method", METHODS)
def test_answers_take_the_form_of_any_kind_of_schema(model: ChatRelay, schema: Any, method: Any) -> None:
    formed = model.with_structured_output(schema, method=method)
    wanted = {"name": "Ann", "age": 33}
    for made in (formed.invoke("'Ann' is 33."), list(formed.stream("'Ann' is 33."))[-1]):
        if schema in (Person, PersonV1):
            assert isinstance(made, schema)
            made = made.dict() if schema is PersonV1 else made.model_dump()
        assert made == wanted


@pytest.mark.parametrize("method", METHODS)
def test_what_is_asked_for_is_a_forced_call_or_a_schema(model: ChatRelay, method: Any) -> None:
    model.with_structured_output(Person, method=method, strict=True).invoke("hi")
    if method == "function_calling":
        assert asked(model) == {"tool_choice": "Person", "parallel_tool_calls": False, "tools": ["Person"]}
        return
    form = asked(model)["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["name"] == "Person"
    assert form["json_schema"]["strict"] is True
    assert form["json_schema"]["schema"]["properties"].keys() == {"name", "age"}


def test_json_mode_needs_no_schema(model: ChatRelay) -> None:
    assert set(model.with_structured_output(None, method="json_mode").invoke("Tell a joke as JSON.")) == {"setup", "punchline"}
    assert asked(model)["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("method", METHODS)
def test_the_raw_message_can_be_had_beside_what_was_read_from_it(model: ChatRelay, method: Any) -> None:
    made = model.with_structured_output(Person, method=method, include_raw=True).invoke("'Ann' is 33.")
    assert isinstance(made["raw"], AIMessage)
    assert (made["parsed"], made["parsing_error"]) == (Person(name="Ann", age=33), None)


class Sparse(BaseModel):
    """Even half of it would be valid."""

    name: str = ""
    age: int = 0


@pytest.mark.parametrize("schema", [Sparse, Sparse.model_json_schema()], ids=["class", "dict"])
@pytest.mark.parametrize("method", METHODS)
def test_an_answer_that_is_cut_off_is_an_error_wherever_it_is_cut(model: ChatRelay, method: Any, schema: Any) -> None:
    def made(max_tokens: int, **how: Any) -> Any:
        return model.with_structured_output(schema, method=method, max_tokens=max_tokens, **how)

    whole, cut = {"name": "Ann", "age": 33}, 0
    written = made(999, include_raw=True).invoke("'Ann' is 33.")["raw"].usage_metadata["output_tokens"]
    for tokens in range(1, written + 1):
        raw = made(tokens, include_raw=True).invoke("'Ann' is 33.")
        assert raw["raw"].usage_metadata["output_tokens"] == tokens
        if raw["parsed"] is not None:
            assert dict(raw["parsed"]) == dict(made(tokens).invoke("'Ann' is 33.")) == whole
            continue
        cut += 1
        assert "not whole" in str(raw["parsing_error"])
        for call in (made(tokens).invoke, lambda text: list(made(tokens).stream(text))):  # noqa: B023 - called at once
            with pytest.raises(OutputParserException, match=r"not whole: .* max_tokens"):
                call("'Ann' is 33.")
    assert cut >= written - 4, "at most the closing tag and the end of the turn may lack"


def test_json_that_a_stop_sequence_ends_is_an_error_that_names_it(model: ChatRelay) -> None:
    with pytest.raises(OutputParserException, match="stop sequence '33' ended it"):
        model.with_structured_output(Sparse, method="json_schema").invoke("'Ann' is 33.", stop=["33"])


@pytest.mark.parametrize(
    ("schema", "arguments", "said"),
    [
        (Person, {"method": "magic"}, "method='magic' is unknown; there are: function_calling, json_schema, json_mode"),
        (None, {}, "needs a schema"),
        (None, {"method": "json_schema"}, "needs a schema"),
        (Person, {"method": "json_mode", "strict": True}, "strict needs a schema"),
    ],
)
def test_arguments_that_do_not_go_together_are_errors(model: ChatRelay, schema: Any, arguments: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        model.with_structured_output(schema, **arguments)


def test_a_backend_that_cannot_be_constrained_says_so_itself() -> None:
    class Cannot(TalkingEngine):
        def generate(self, messages: Any, **options: Any) -> Any:
            raise NotSupported("big", "a forced tool call")

        def stream(self, messages: Any, **options: Any) -> Any:
            raise NotSupported("big", "a forced tool call")

    with talking_engine() as engine:
        model = ChatRelay(engine=Cannot(*engine.backends.values(), policy="large-only"))
        forced: Runnable[Any, Any] = model.with_structured_output(Person)
        for call in (forced.invoke, lambda text: list(forced.stream(text))):
            with pytest.raises(NotSupported, match="forced tool call"):
                call("hi")


@pytest.mark.parametrize("given", [{}, "", 0, 5, "x", b"x", {"type": "function"}, {1, 2}])
def test_what_is_no_list_of_tools_is_named(model: ChatRelay, given: Any) -> None:
    with pytest.raises(ConfigError, match=r"tools(\[0\])? "):
        model.invoke("hi", tools=given)


UNCALLABLE: list[Any] = [5, "x", None, {}, [], int, {"type": "function"}, {"type": "function", "function": 5}, {"type": "web_search"}]


@pytest.mark.parametrize("given", UNCALLABLE, ids=str)
def test_what_is_no_tool_is_named_with_what_is_taken(model: ChatRelay, given: Any) -> None:
    for call in (lambda: model.invoke("hi", tools=[weather, given]), lambda: model.bind_tools([weather, given], tool_choice="any")):
        with pytest.raises(ConfigError, match=r"tools\[1\] is no tool.*give a function, a Pydantic class"):
            call()


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    "given",
    [
        {"name": "look", "parameters": PARAMETERS},
        {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}},
        {"type": "function", "name": "look", "parameters": PARAMETERS},
        {"name": "look", "input_schema": PARAMETERS},
        {"title": "look", **PARAMETERS},
    ],
    ids=str,
)
def test_a_function_may_be_written_as_any_provider_does(given: dict[str, Any]) -> None:
    assert read_tools([given]) == [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
    form = read_response_format(given)
    assert form is not None
    assert form["json_schema"]["schema"].items() >= PARAMETERS.items()


@pytest.mark.parametrize("given", [{"name": "look"}, {"type": "function", "name": "look"}, {"title": "look"}], ids=str)
def test_a_function_without_arguments_stays_one(given: dict[str, Any]) -> None:
    assert read_tools([given]) == [{"type": "function", "function": {"name": "look"}}]


@pytest.mark.parametrize("choice", [{"foo": 1}, {}, [], 0, 1, b"any", {"type": "function", "function": {}}, {"name": ["weather"]}], ids=str)
def test_a_choice_that_is_none_is_shown_as_it_was_given(choice: Any) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"tool_choice={choice!r} is unknown")):
        read_tool_choice(choice, read_tools([weather]))


@pytest.mark.parametrize(
    ("method", "name"),
    [("function_calling", name) for name in ("tools", "tool_choice", "parallel_tool_calls", "response_format")]
    + [("json_schema", "response_format"), ("json_mode", "response_format")],
)
def test_what_a_form_sets_itself_cannot_be_set_beside_it(model: ChatRelay, method: Any, name: str) -> None:
    value = {"tools": [weather], "tool_choice": "any", "parallel_tool_calls": True, "response_format": {"type": "json_object"}}[name]
    schema = None if method == "json_mode" else Person
    with pytest.raises(ConfigError, match=f"no room for {name} with method='{method}'"):
        model.with_structured_output(schema, method=method, **{name: value})
    model.with_structured_output(schema, method=method, **{name: None}).invoke("'Ann' is 33.")


def test_json_may_be_asked_for_beside_tools(model: ChatRelay) -> None:
    model.with_structured_output(Person, method="json_schema", tools=[weather]).invoke("'Ann' is 33.")
    assert asked(model)["tools"] == ["weather"]
