"""A constraint as a grammar: fixed texts cut at their tokens, and schemas that say how JSON is laid out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from relay_integrations.backends.lark import grammar, schema_grammar
from relay_integrations.chat.constraint import Constraint, Piece, Row

LAID_OUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def schema_in(text: str) -> Any:
    """The only schema of a grammar."""
    (found,) = re.findall(r"%json (.*)$", text, re.MULTILINE)
    return json.loads(found)


def test_a_row_of_several_pieces() -> None:
    row = Row((Piece("<c>\n{", "true", "}</c>"), Piece('"', "true", "")), several=True, separator="; ", opening="[", closing="]")
    lines = grammar(Constraint((row,)), {"<c>": 7, "</c>": 8}).splitlines()
    assert lines == [
        "start: lead? (r0)",
        r"lead: /\n{1,2}/",
        'r0: "[" r0_one ("; " r0_one)* "]"',
        "r0_one: r0_one_0 | r0_one_1",
        r'r0_one_0: <[7]> "\n{" r0_one_0_json "}" <[8]>',
        "r0_one_0_json: %json true",
        r'r0_one_1: "\"" r0_one_1_json ',
        "r0_one_1_json: %json true",
    ]


def test_rows_are_alternatives() -> None:
    rows = tuple(Row((Piece(text, "true", ""),)) for text in "ab")
    assert grammar(Constraint(rows), {}).startswith("start: lead? (r0 | r1)\n")


def test_the_longest_token_of_a_text_counts() -> None:
    row = Row((Piece("a<<b>>c", "true", ""),))
    assert '"a" <[2]> "c"' in grammar(Constraint((row,)), {"<b>": 1, "<<b>>": 2, "x": 3, "": 4})


def test_json_has_no_free_white_space() -> None:
    assert schema_in(schema_grammar('{"type": "string"}')) == {"type": "string", "x-guidance": LAID_OUT}
    assert schema_in(schema_grammar('{"x-guidance": {"whitespace_flexible": true}}')) == {"x-guidance": LAID_OUT}


def test_a_format_that_nobody_knows_is_a_remark() -> None:
    schema = {"properties": {"a": {"type": "string", "format": "path"}, "format": {"type": "string", "format": "date"}}}
    read = schema_in(schema_grammar(json.dumps(schema)))
    assert read["properties"] == {"a": {"type": "string"}, "format": {"type": "string", "format": "date"}}


@pytest.mark.parametrize(
    ("schema", "bounds"),
    [
        ({"type": "integer"}, {"minimum": -(2**62), "maximum": 2**62}),
        ({"type": ["integer", "null"]}, {"minimum": -(2**62), "maximum": 2**62}),
        ({"type": "integer", "minimum": 0}, {"minimum": 0, "maximum": 2**62}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"exclusiveMinimum": 0, "maximum": 2**62}),
        ({"type": "integer", "minimum": 2**70}, {"minimum": 2**70}),
        ({"type": "integer", "exclusiveMaximum": True}, {"exclusiveMaximum": True}),
        ({"type": "integer", "multipleOf": 3}, {"multipleOf": 3, "minimum": -(2**62), "maximum": 2**62}),
        ({"type": "number"}, {}),
        ({"type": ["integer", "number"]}, {}),
        ({}, {}),
    ],
    ids=str,
)
def test_an_integer_does_not_go_on_for_ever(schema: dict[str, Any], bounds: dict[str, Any]) -> None:
    read = schema_in(schema_grammar(json.dumps(schema)))
    assert {key: value for key, value in read.items() if key not in ("type", "x-guidance")} == bounds
