"""Tells, as early as can be, whether a JSON object in an answer is a tool call or text."""

from __future__ import annotations

from relay_integrations.chat.braces import Braces

BETWEEN_CALLS = " \t\r\n;"
"""What may stand between two calls of which nothing else tells where they begin."""

_KEYS = ("name", "arguments", "parameters", "type", "id")
_ARGUMENTS = ("arguments", "parameters")

_STEPS = {
    ("start", "{"): "before key",
    ("before key", '"'): "key",
    ("key", '"'): "colon",
    ("colon", ":"): "value",
    ("comma", ","): "before key",
}
"""What follows at the object's top level, from what was expected and the character that came."""


class MaybeCall:
    """A JSON object that is being written. It is a call if it has a name and arguments, and no keys of other things."""

    def __init__(self) -> None:
        self._at = 0
        self._place = "start"
        self._key = ""
        self._seen: set[str] = set()
        self._escaped = False
        self._braces = Braces()

    def look(self, text: str) -> bool | None:
        """Takes the whole text so far: True for a call, False for none, None while it may still become either."""
        verdict = None
        while verdict is None and self._at < len(text):
            verdict = self._step(text[self._at])
            self._at += 1
        return verdict

    def _step(self, ch: str) -> bool | None:
        if self._place == "key" and ch != '"':
            self._key += ch
            return None if any(key.startswith(self._key) for key in _KEYS) else False
        if self._place == "string":
            return self._step_in_string(ch)
        if self._place == "object":
            self._braces.feed(ch)
            self._place = "comma" if self._braces.complete else "object"
            return None
        if ch.isspace():
            return None
        if self._place == "value":
            return self._begin_value(ch)
        following = _STEPS.get((self._place, ch))
        if following is None or (following == "colon" and self._key not in _KEYS):
            return False
        self._key = "" if following == "key" else self._key
        self._place = following
        return None

    def _begin_value(self, ch: str) -> bool | None:
        if ch != ("{" if self._key in _ARGUMENTS else '"'):
            return False
        if ch == '"':
            self._place = "string"
            return None
        self._seen.add("arguments")
        self._place, self._braces = "object", Braces()
        self._braces.feed(ch)
        return self._verdict()

    def _step_in_string(self, ch: str) -> bool | None:
        if self._escaped or ch == "\\":
            self._escaped = not self._escaped
            return None
        if ch != '"':
            return None
        self._place = "comma"
        self._seen.add(self._key)
        return self._verdict()

    def _verdict(self) -> bool | None:
        return True if self._seen >= {"name", "arguments"} else None
