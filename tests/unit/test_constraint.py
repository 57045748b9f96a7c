"""What an answer has to be: built from tools, a choice and a schema, for each way to write calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_integrations.chat.constraint import Constraint, Piece, Row, constrain
from relay_integrations.chat.json_schema import closed
from relay_integrations.chat.response_format import ResponseFormat
from relay_integrations.chat.tool_choice import ToolChoice
from relay_integrations.chat.tool_formats import HERMES, LLAMA, MISTRAL, MISTRAL_LIST, ToolFormat
from tests.unit.json_oracle import follows

REQUIRED = ToolChoice("required")
TEXT = {"type": "string"}


def tool(name: str = "f", **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **({"parameters": parameters} if parameters else {})}}


def rows(*tools: dict[str, Any], form: ToolFormat = HERMES, parallel: bool | None = None, **options: Any) -> tuple[Row, ...]:
    constraint = constrain(tools, options.get("choice", REQUIRED), parallel, options.get("response"), form)
    assert constraint is not None
    return constraint.rows


def schema_of(piece: Piece) -> Any:
    return json.loads(piece.schema)


# --- calls


@pytest.mark.parametrize(
    ("form", "before", "behind", "opening", "closing", "separator"),
    [
        (HERMES, '<tool_call>\n{"name": "f", "arguments": ', "}\n</tool_call>", "", "", "\n"),
        (LLAMA, '{"name": "f", "parameters": ', "}", "", "", "; "),
        (MISTRAL, "[TOOL_CALLS]f[ARGS]", "", "", "", ""),
        (MISTRAL_LIST, '{"name": "f", "arguments": ', "}", "[TOOL_CALLS][", "]", ", "),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_call_is_written_as_the_family_writes_it(
    form: ToolFormat, before: str, behind: str, opening: str, closing: str, separator: str
) -> None:
    (row,) = rows(tool(), form=form)
    assert [(piece.before, piece.behind) for piece in row.pieces] == [(before, behind)]
    assert (row.opening, row.closing, row.separator) == (opening, closing, separator)


def test_the_name_of_a_tool_is_json_where_it_stands_in_json() -> None:
    (row,) = rows(tool('say "é\\'))
    assert row.pieces[0].before == '<tool_call>\n{"name": "say \\"é\\\\", "arguments": '


def test_the_schema_is_that_of_the_arguments_so_that_references_stay_what_they_are() -> None:
    parameters = {"type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}, "$defs": {"P": {"properties": {"x": TEXT}}}}
    (row,) = rows(tool(**parameters))
    assert schema_of(row.pieces[0])["properties"] == {"p": {"$ref": "#/$defs/P"}}
    assert schema_of(row.pieces[0])["$defs"]["P"] == {"properties": {"x": TEXT}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        ({}, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({"type": "object"}, {"type": "object"}),
        ({"description": "anything"}, {"type": "object", "description": "anything"}),
        ({"properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}),
    ],
    ids=str,
)
def test_arguments_are_always_an_object(parameters: dict[str, Any], schema: dict[str, Any]) -> None:
    (row,) = rows(tool(**parameters))
    assert schema_of(row.pieces[0]) == schema


def test_properties_keep_their_order() -> None:
    (row,) = rows(tool(type="object", properties={"b": TEXT, "a": TEXT}))
    assert list(schema_of(row.pieces[0])["properties"]) == ["b", "a"]


def test_equal_demands_are_equal_and_can_be_looked_up() -> None:
    made = [constrain([tool(properties={"a": TEXT})], REQUIRED, None, None, HERMES) for _ in "ab"]
    assert made[0] == made[1]
    assert len(set(made)) == 1
    other = constrain([tool(properties={"a": TEXT})], REQUIRED, None, None, LLAMA)
    assert other != made[0]
    assert Constraint((Row((Piece("", "{}", "", "a"),)),)) == Constraint((Row((Piece("", "{}", "", "b"),)),)), (
        "what it is about is for errors"
    )


# --- the whole


def test_a_free_answer_has_no_constraint() -> None:
    assert constrain([tool()], ToolChoice(), None, None, HERMES) is None
    assert constrain([], ToolChoice(), None, None, HERMES) is None


def test_json_beside_tools_is_the_last_alternative() -> None:
    response = ResponseFormat.read({"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "array"}}})
    calls, answer = rows(tool("f"), tool("g"), choice=ToolChoice(), response=response)
    assert [piece.about for piece in calls.pieces] == ["tool 'f'", "tool 'g'"]
    assert answer == Row((Piece("", '{"type": "array"}', ""),))
    assert answer.pieces[0].about == "response_format r"


# --- objects that are closed


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT}, "additionalProperties": False}),
        ({"type": "object"}, None),
        ({"properties": {"a": TEXT}, "additionalProperties": True}, None),
        ({"properties": {"a": TEXT}, "additionalProperties": {"type": "integer"}}, None),
        ({"properties": {"a": TEXT}, "patternProperties": {"^x": TEXT}}, None),
        (
            {"items": {"properties": {}}, "$defs": {"P": {"properties": {}}}},
            {
                "items": {"properties": {}, "additionalProperties": False},
                "$defs": {"P": {"properties": {}, "additionalProperties": False}},
            },
        ),
        ({"anyOf": [{"properties": {}}, TEXT]}, {"anyOf": [{"properties": {}, "additionalProperties": False}, TEXT]}),
        ({"enum": [{"properties": {}}], "default": {"properties": {}}, "examples": [{"properties": {}}]}, None),
        ({"allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]}, None),
        ({"properties": {"a": TEXT}, "anyOf": [{"properties": {"b": TEXT}}]}, None),
        ({"properties": {"a": {"properties": {}, "$ref": "#/$defs/B"}}, "$defs": {"B": {"properties": {}}}}, None),
        ({"additionalProperties": {"properties": {}}}, {"additionalProperties": {"properties": {}, "additionalProperties": False}}),
        (True, None),
    ],
    ids=str,
)
def test_objects_are_closed_where_that_leaves_what_is_valid(schema: Any, wanted: Any) -> None:
    before = json.dumps(schema)
    assert closed(schema) == (schema if wanted is None else wanted)
    assert json.dumps(schema) == before, "the caller's schema stays as it is"


def test_a_property_may_be_called_as_a_keyword_is() -> None:
    schema = {"properties": {"properties": TEXT, "allOf": TEXT, "items": {"properties": {"enum": TEXT}}}}
    assert closed(schema) == {
        "properties": {"properties": TEXT, "allOf": TEXT, "items": {"properties": {"enum": TEXT}, "additionalProperties": False}},
        "additionalProperties": False,
    }


@pytest.mark.parametrize("value", [{}, {"a": "x"}, {"a": 1}, {"a": "x", "b": 1}, {"b": {"c": "x"}}, {"b": {"c": "x", "d": 1}}], ids=str)
def test_what_a_closed_schema_allows_the_schema_allows(value: Any) -> None:
    schema = {"type": "object", "properties": {"a": TEXT, "b": {"type": "object", "properties": {"c": TEXT}}}}
    assert not follows(value, closed(schema)) or follows(value, schema)
