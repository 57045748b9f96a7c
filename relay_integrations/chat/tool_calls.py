"""Reads tool calls out of streamed text.

One parser reads the inside of one call, fed piece by piece. The Hermes format (Qwen and others): `<tool_call>{"name": …,
"arguments": {…}}</tool_call>`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_HEADER = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)', re.DOTALL)


LONGEST_HEADER = 1024
"""Characters within which the arguments of a call must begin to be streamed."""


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """The texts around a call."""

    open: str = "<tool_call>"
    close: str = "</tool_call>"


HERMES = ToolFormat()


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a call: its name on the first piece, argument text on later ones, validity on the last."""

    name: str | None = None
    arguments: str = ""
    valid: bool | None = None


class HermesCallParser:
    """Reads the inside of one Hermes call; arguments are passed on as the model wrote them."""

    def __init__(self) -> None:
        self._raw = ""
        self._arguments_at: int | None = None  # where the arguments begin, once the header is complete
        self._sent = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._complete = False

    def feed(self, text: str) -> list[CallPiece]:
        """Takes the next text and returns what it adds to the call."""
        seen = len(self._raw)
        self._raw += text
        pieces = []
        if self._arguments_at is None:
            # What holds no header by then is read when the call is complete; to look again for each token would take for ever.
            header = _HEADER.match(self._raw[:LONGEST_HEADER]) if seen < LONGEST_HEADER else None
            if header is None:
                return []
            self._arguments_at = self._sent = header.end()
            pieces.append(CallPiece(name=str(json.loads(header[1], strict=False))))
        arguments = self._take_arguments()
        return [*pieces, CallPiece(arguments=arguments)] if arguments else pieces

    def finish(self) -> list[CallPiece]:
        """The call is closed: returns the rest, the last piece with `valid`. Nothing the model wrote is lost."""
        if self._arguments_at is not None:
            return [CallPiece(valid=self._complete and _is_object(self._raw[self._arguments_at : self._sent]))]
        name, arguments = _read_whole(self._raw)
        return [CallPiece(name=name), CallPiece(arguments=arguments), CallPiece(valid=bool(name) and _is_object(arguments))]

    def _take_arguments(self) -> str:
        start = self._sent
        while self._sent < len(self._raw) and not self._complete:
            ch = self._raw[self._sent]
            self._sent += 1
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = ch == "\\"
                self._in_string = ch != '"'
            elif ch == '"':
                self._in_string = True
            elif ch in "{[":
                self._depth += 1
            elif ch in "}]":
                self._depth -= 1
                self._complete = self._depth == 0
        return self._raw[start : self._sent]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _read_whole(raw: str) -> tuple[str, str]:
    """Name and argument text of a call in unusual order or shape; no name and the raw text where it cannot be read."""
    try:
        call: Any = json.loads(raw)
    except ValueError:
        return "", raw.strip()
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return "", raw.strip()
    arguments = call.get("arguments", call.get("parameters", {}))
    return call["name"], arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
