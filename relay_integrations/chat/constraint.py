"""What a text has to be, described so that every kind of backend can hold its model to it: fixed texts and JSON by a schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from relay_integrations.chat.json_schema import closed
from relay_integrations.chat.response_format import ResponseFormat
from relay_integrations.chat.tool_choice import ToolChoice
from relay_integrations.chat.tool_formats import ToolFormat
from relay_integrations.errors import ConfigError

LINE_BREAKS = 2
"""Most line breaks in front: many models were trained to write an empty line behind their reasoning."""


@dataclass(frozen=True, slots=True)
class Piece:
    """JSON between two fixed texts.

    Attributes:
        before, behind: The fixed texts; either may be empty.
        schema: JSON text of the schema.
        about: Whose schema it is, for errors.
    """

    before: str
    schema: str
    behind: str
    about: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One of some pieces, or several of them in a row.

    Attributes:
        pieces: The alternatives; at least one.
        several: Whether more may follow, behind `separator`.
        opening, closing: The fixed texts around the row.
    """

    pieces: tuple[Piece, ...]
    several: bool = False
    separator: str = ""
    opening: str = ""
    closing: str = ""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One of the rows, behind at most `LINE_BREAKS` line breaks. At its end, and only there, the turn may end."""

    rows: tuple[Row, ...]


def constrain(
    tools: Sequence[dict[str, Any]],
    choice: ToolChoice,
    parallel: bool | None,
    response: ResponseFormat | None,
    form: ToolFormat,
) -> Constraint | None:
    """What an answer has to be; None where it is free.

    Args:
        tools: Those that may be called.
        choice: Whether one has to be.
        parallel: Whether several calls are welcome. None leaves it to the format; a tool that is named is then called once.
        response: The JSON that the answer has to be, where it is no call.
        form: How the model writes calls.
    """
    rows = []
    if tools and (choice.forced or response is not None):
        several = form.several and choice.name is None if parallel is None else parallel
        rows.append(_calls(tools, form, several))
    if response is not None:
        rows.append(Row((Piece("", _closed(json.loads(response.schema)), "", response.name),)))
    return Constraint(tuple(rows)) if rows else None


def _calls(tools: Sequence[dict[str, Any]], form: ToolFormat, several: bool) -> Row:
    """Calls as a model writes them: the schema is that of the arguments alone, so its references stay what they are."""
    pieces = []
    for tool in tools:
        name, parameters = tool["function"]["name"], tool["function"].get("parameters")
        schema = {"properties": {}} if parameters is None else parameters
        try:
            text = _closed({"type": "object", **schema})
        except (TypeError, ValueError, RecursionError) as e:
            raise ConfigError(f"the parameters of tool {name!r} are no JSON schema: {e}") from e
        pieces.append(Piece(form.before_arguments(name), text, form.behind, f"tool {name!r}"))
    return Row(tuple(pieces), several, form.separator, form.opening, form.closing)


def _closed(schema: Any) -> str:
    return json.dumps(closed(schema), ensure_ascii=False)
