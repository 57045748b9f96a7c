"""Schemas and response formats, as the engine is asked for them: of anything, and with all that they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Optional, Union

import pytest
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, RootModel
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import TypedDict

from langchain_relay import ChatRelay
from langchain_relay.schemas import is_of_objects, is_recursive, read_response_format
from langchain_relay.tools import read_tools
from relay_integrations import ConfigError
from tests.unit.talking import talking_engine


@pytest.fixture
def model() -> Iterator[ChatRelay]:
    with talking_engine() as engine:
        yield ChatRelay(engine=engine, seed=1)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        ),
    ],
)
def test_response_formats_of_openais_are_taken_as_they_are(given: Any, read: Any) -> None:
    assert read_response_format(given) == read


class Person(BaseModel):
    """A person."""

    name: str
    age: int


class Node(BaseModel):
    """Refers to itself."""

    value: int
    next: Node | None = None


class Branch(BaseModel):
    """Refers to itself by way of another."""

    leaves: list[Leaf]


class Leaf(BaseModel):
    """Of a branch."""

    grown: Branch | None = None


class NodeV1(BaseModelV1):
    """Refers to itself."""

    value: int
    next: Optional[NodeV1] = None  # noqa: UP045 - version 1 knows no other way


NodeV1.update_forward_refs()


class Around(BaseModel):
    """Refers to one that refers to itself."""

    nodes: list[Node]


class Pair(BaseModel):
    """Refers to another class twice, and to itself never."""

    one: Person
    other: Person


RECURSIVE = (Node, Branch, NodeV1, Around, RootModel[Node])


def whole_schema(schema: Any) -> dict[str, Any]:
    return schema.schema() if schema is NodeV1 else schema.model_json_schema()  # type: ignore[no-any-return]


def definitions(schema: dict[str, Any]) -> dict[str, Any]:
    return schema.get("$defs") or schema["definitions"]  # type: ignore[no-any-return]


def only(tools: list[dict[str, Any]]) -> dict[str, Any]:
    (read,) = tools
    parameters = read["function"]["parameters"]
    assert isinstance(parameters, dict)
    return parameters


@pytest.mark.parametrize("schema", RECURSIVE)
def test_a_class_that_refers_to_itself_is_asked_for_as_it_is(schema: Any) -> None:
    whole = whole_schema(schema)
    assert is_recursive(whole)
    assert definitions(only(read_tools([schema]))) == definitions(whole)
    form = read_response_format(schema)
    assert form is not None
    assert form["json_schema"]["schema"] == whole


@pytest.mark.parametrize("schema", [Node, Branch, NodeV1, Around])
def test_so_are_the_arguments_of_a_tool(schema: Any) -> None:
    @tool(args_schema=schema)
    def keep(**fields: Any) -> str:
        """Keep it."""
        return ""

    assert definitions(only(read_tools([keep]))) == definitions(whole_schema(schema))


def test_so_are_the_parameters_of_a_function_and_a_tool_with_a_schema_of_its_own() -> None:
    def keep(node: Node) -> str:
        """Keep it.

        Args:
            node: To be kept.
        """
        return ""

    keep.__annotations__["node"] = Node
    written = tool(args_schema=Node.model_json_schema())(keep)
    for given in (keep, tool(keep), written, {"title": "keep", "description": "Keep it.", **Node.model_json_schema()}):
        assert definitions(only(read_tools([given]))) == definitions(whole_schema(Node))


@pytest.mark.parametrize("kind", ["class", "tool", "function", "dict"])
@pytest.mark.parametrize("strict", [None, True])
def test_what_does_not_is_written_out_as_langchain_does(kind: str, strict: bool | None) -> None:
    def take(one: int, other: str = "") -> str:
        """Take them.

        Args:
            one: The first.
        """
        return ""

    take.__annotations__ = {"one": int, "other": str, "return": str}
    given: Any = {"class": Pair, "tool": tool(take), "function": take, "dict": {"title": "Pair", **Person.model_json_schema()}}[kind]
    assert read_tools([given], strict) == [convert_to_openai_tool(given, strict=strict)]


def untitled(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}


ANYTHING: list[dict[str, Any]] = [
    {"title": "T", "description": "d", "type": "array", "items": {"enum": ["a", "b"]}},
    {"title": "T", "description": "d", "enum": ["a", "b"]},
    {"title": "T", "description": "d", "anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"title": "T", "description": "d", "type": ["integer", "null"]},
    {"title": "T", "description": "d", "type": ["object", "null"], "properties": {}},
    {"title": "T", "description": "d", "const": 3},
    {"title": "T", "description": "d", "pattern": "a+"},
    {"title": "T", "description": "d", "$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}},
]
OBJECTS: list[dict[str, Any]] = [
    {"title": "T", "type": "object", "additionalProperties": {"type": "integer"}},
    {"title": "T", "type": "object", "properties": {"x": {}}, "anyOf": [{"required": ["x"]}]},
    {"title": "T", "anyOf": [{"type": "object", "properties": {"x": {}}}, {"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "object"}}},
    {"title": "T", "$ref": "#/$defs/A", "$defs": {"A": {"properties": {"next": {"$ref": "#/$defs/A"}}}}},
    {"title": "T", "$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "object"}]}}},
    {"title": "T", "required": ["x"]},
]


@pytest.mark.parametrize("schema", [*ANYTHING, *OBJECTS, *(untitled(s) for s in (*ANYTHING, *OBJECTS))], ids=str)
def test_json_may_be_of_any_schema(schema: dict[str, Any]) -> None:
    form = read_response_format(schema)
    assert form is not None
    assert form["json_schema"] == {"name": schema.get("title", "answer"), "schema": schema}


def in_a_function(schema: Any) -> dict[str, Any]:
    return {"name": "f", "parameters": schema}


@pytest.mark.parametrize(
    "schema",
    [
        *ANYTHING,
        *(untitled(schema) for schema in ANYTHING),
        *(in_a_function(untitled(schema)) for schema in ANYTHING),
        RootModel[list[int]],
        RootModel[Union[Person, int]],  # noqa: UP007 - the name of the class
    ],
    ids=str,
)
def test_a_call_has_an_object_of_arguments_and_nothing_else(model: ChatRelay, schema: Any) -> None:
    for call in (model.with_structured_output, lambda schema: model.bind_tools([schema])):
        with pytest.raises(ConfigError, match=r"arguments of a tool are an object.* property of an object.* method='json_schema'"):
            call(schema)


@pytest.mark.parametrize("schema", OBJECTS, ids=str)
def test_an_object_however_described_is_asked_for_with_all_that_was_said(schema: dict[str, Any]) -> None:
    assert is_of_objects(schema)
    assert only(read_tools([schema])) == untitled(schema)
    assert only(read_tools([in_a_function(untitled(schema))])) == untitled(schema)


def test_a_schema_without_a_title_has_no_name_for_a_call(model: ChatRelay) -> None:
    with pytest.raises(ConfigError, match=r"without a title.* method='json_schema'"):
        model.with_structured_output(untitled(OBJECTS[0]))


class Uncertain(BaseModel):
    """Has no schema."""

    call: Callable[[int], int]


class Endless(TypedDict):
    """Has no end, and LangChain finds none."""

    next: Optional[Endless]  # noqa: UP045 - read by LangChain


@pytest.mark.parametrize("given", [{}, "json", "", [], 5, True, int, {"type": "xml"}, {"type": ["object", "xml"]}, {"title": "T"}], ids=str)
def test_what_is_no_response_format_is_named(model: ChatRelay, given: Any) -> None:
    for call in (lambda: model.invoke("hi", response_format=given), lambda: list(model.stream("hi", response_format=given))):
        with pytest.raises(ConfigError, match=r"response_format=.* is no .*(json_schema|JSON schema)"):
            call()


@pytest.mark.parametrize(
    "given",
    [Uncertain, Endless, {"name": "f"}, {"type": "function", "function": {"name": "f"}}, {"type": "function", "function": 5}],
    ids=str,
)
def test_what_has_no_schema_is_an_error_that_says_why(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"is no schema \(.+\): give"):
        read_response_format(given)


@pytest.mark.parametrize("title", ["My answer!", "RootModel[list[int]]"])
def test_the_name_of_a_format_has_no_signs_that_servers_refuse(title: str) -> None:
    form = read_response_format({"title": title, "type": "array"})
    assert form is not None
    assert form["json_schema"]["name"].replace("_", "").isalnum()
    assert form["json_schema"]["schema"]["title"] == title
