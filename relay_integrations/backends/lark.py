"""A constraint as a grammar that llguidance reads: its dialect of Lark, with JSON schemas inside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from relay_integrations.chat.constraint import LINE_BREAKS, Constraint, Piece, Row
from relay_integrations.chat.json_schema import change_all

_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""How JSON is laid out: as chat templates write it. Where white space is free, a weak model may fill it for ever."""

_LARGEST = 2**62  # within 64 bits, and exact in the floating point that llguidance computes ranges in
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid uri".split())
"""What llguidance knows; to JSON schema any other format is a remark."""


def grammar(constraint: Constraint, tokens: Mapping[str, int]) -> str:
    """The grammar of a constraint.

    Args:
        constraint: What the text has to be.
        tokens: Texts that only a token of their own can write, and its id. Each belongs to the fixed texts alone: none may stand in JSON.
    """
    rows = [_row(row, f"r{number}", tokens) for number, row in enumerate(constraint.rows)]
    names = " | ".join(f"r{number}" for number in range(len(rows)))
    lead = f"lead: /\\n{{1,{LINE_BREAKS}}}/"
    return "\n".join([f"start: lead? ({names})", lead, *rows]) + "\n"


def schema_grammar(schema: str) -> str:
    """The grammar of one schema's JSON."""
    return f"start: json\njson: {_json(schema)}\n"


def _row(row: Row, name: str, tokens: Mapping[str, int]) -> str:
    one = f"{name}_one"
    more = f" ({_text(row.separator, tokens)} {one})*" if row.several else ""
    lines = [f"{name}: {_text(row.opening, tokens)} {one}{more} {_text(row.closing, tokens)}"]
    lines.append(f"{one}: " + " | ".join(f"{one}_{number}" for number in range(len(row.pieces))))
    for number, piece in enumerate(row.pieces):
        lines += _piece(piece, f"{one}_{number}", tokens)
    return "\n".join(lines)


def _piece(piece: Piece, name: str, tokens: Mapping[str, int]) -> list[str]:
    whole = f"{name}: {_text(piece.before, tokens)} {name}_json {_text(piece.behind, tokens)}"
    return [whole, f"{name}_json: {_json(piece.schema)}"]


def _text(text: str, tokens: Mapping[str, int]) -> str:
    """A fixed text, cut at the tokens in it."""
    marks = sorted((mark for mark in tokens if mark and mark in text), key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, marks)) + ")", text) if marks else [text]
    return " ".join(f"<[{tokens[part]}]>" if part in tokens else json.dumps(part, ensure_ascii=False) for part in parts if part)


def _json(schema: str) -> str:
    read = change_all(json.loads(schema), _tidy)
    return "%json " + json.dumps({**read, "x-guidance": _STYLE} if isinstance(read, dict) else read, ensure_ascii=False)


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Without formats that are remarks, and with bounds for an integer of any size: a weak model would add digits for ever."""
    kept = {key: value for key, value in schema.items() if key != "format" or value in _FORMATS}
    kinds = schema.get("type")
    integer = kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds and "number" not in kinds)
    bounds = [schema[key] for key in _BOUNDS if key in schema]
    if not integer or not all(type(b) in (int, float) and abs(b) < _LARGEST for b in bounds):
        return kept
    low = {} if "exclusiveMinimum" in schema else {"minimum": schema.get("minimum", -_LARGEST)}
    high = {} if "exclusiveMaximum" in schema else {"maximum": schema.get("maximum", _LARGEST)}
    return {**kept, **low, **high}
