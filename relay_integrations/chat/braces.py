"""Finds where a JSON object or list ends in streamed text."""

from __future__ import annotations


class Braces:
    """Follows JSON text from its first brace or bracket to the one that closes it, whatever stands in its strings.

    Attributes:
        complete: Whether it has been closed.
    """

    __slots__ = ("_depth", "_escaped", "_in_string", "complete")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.complete = False

    def feed(self, text: str) -> int:
        """Takes the next text; how many of its characters belong to the object: all of them, until it is complete."""
        for at, ch in enumerate(text):
            if self.complete:
                return at
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
                self.complete = self._depth <= 0
        return len(text)

    def reach(self, text: str) -> tuple[int, bool]:
        """What `feed` would return, and whether the object would be complete then; nothing is taken."""
        ahead = Braces()
        ahead._depth, ahead._in_string, ahead._escaped, ahead.complete = self._depth, self._in_string, self._escaped, self.complete
        return ahead.feed(text), ahead.complete
