"""Reads one tool call out of streamed text, piece by piece."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from relay_integrations.chat.braces import Braces

_HEADER = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)', re.DOTALL)

LONGEST_HEADER = 1024
"""Characters within which the arguments of a call must begin to be streamed."""


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a call: its name on the first piece, argument text on later ones, validity on the last."""

    name: str | None = None
    arguments: str = ""
    valid: bool | None = None


class JsonCall:
    """Reads a call that is one JSON object with `name` and `arguments` (or `parameters`), passed on as the model wrote them."""

    def __init__(self) -> None:
        self._raw = ""
        self._arguments_at: int | None = None  # where the arguments begin, once the header is complete
        self._sent = 0
        self._braces = Braces()

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
        rest = self._raw[self._sent :]
        arguments = rest[: self._braces.feed(rest)]
        self._sent += len(arguments)
        return [*pieces, CallPiece(arguments=arguments)] if arguments else pieces

    def finish(self) -> list[CallPiece]:
        """The call is closed: returns the rest, the last piece with `valid`. Nothing the model wrote is lost."""
        if self._arguments_at is not None:
            return [CallPiece(valid=self._braces.complete and is_object(self._raw[self._arguments_at : self._sent]))]
        name, arguments = _read_whole(self._raw)
        return [CallPiece(name=name), CallPiece(arguments=arguments), CallPiece(valid=bool(name) and is_object(arguments))]


class NamedCall:
    """Reads a call that is a name with its arguments behind it: `name[ARGS]{…}`; a call's id in between is dropped."""

    _ARGUMENTS = "[ARGS]"
    _ID = "[CALL_ID]"

    def __init__(self) -> None:
        self._head = ""
        self._named = False
        self._arguments: str | None = None
        self._braces = Braces()

    @property
    def braces(self) -> Braces | None:
        """How far the arguments are; None before they begin."""
        return None if self._arguments is None else self._braces

    def feed(self, text: str) -> list[CallPiece]:
        """As in `JsonCall`."""
        pieces: list[CallPiece] = []
        if self._arguments is None:
            head, brace, rest = text.partition("{")
            self._head += head
            if brace:
                self._arguments, text = "", brace + rest
            if not self._named and (brace or self._ARGUMENTS in self._head):
                self._named = True
                pieces.append(CallPiece(name=self._head.partition(self._ARGUMENTS)[0].partition(self._ID)[0].strip()))
        if self._arguments is not None:
            arguments = text[: self._braces.feed(text)]
            self._arguments += arguments
            if arguments:
                pieces.append(CallPiece(arguments=arguments))
        return pieces

    def finish(self) -> list[CallPiece]:
        """As in `JsonCall`."""
        if not self._named:
            return [CallPiece(name=""), CallPiece(arguments=self._head.strip()), CallPiece(valid=False)]
        return [CallPiece(valid=self._braces.complete and is_object(self._arguments or ""))]


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _read_whole(raw: str) -> tuple[str, str]:
    """Name and argument text of a call in unusual order or shape; no name and the raw text where it cannot be read."""
    try:
        call: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return "", raw.strip()
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return "", raw.strip()
    arguments = call.get("arguments", call.get("parameters", {}))
    return call["name"], arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
