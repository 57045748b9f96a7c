"""Finds texts of interest in streamed text, and how much of its end may still become one."""

from __future__ import annotations

from collections.abc import Sequence


class Patterns:
    """What counts in one part of the output.

    Args:
        tags: Texts with a meaning of their own: think tags, and what opens a tool call.
        stops: The user's stop sequences. In a tag, across one and in what may still become one they do not count.
    """

    __slots__ = ("_may_grow", "_stops", "tags")

    def __init__(self, tags: Sequence[str], stops: Sequence[str] = ()) -> None:
        self.tags = tuple(tags)
        self._stops = tuple(stops)
        self._may_grow = frozenset(ch for pattern in (*tags, *stops) for ch in pattern[:-1])

    def find(self, held: str) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """The first tag, and the first stop sequence in front of it or of what may become one; each with its place."""
        tag = _first(self.tags, held)
        return tag, _first(self._stops, held[: tag[1] if tag else len(held) - self._growing(self.tags, held)])

    def find_stop(self, text: str) -> tuple[str, int] | None:
        """The first stop sequence of a text in which no tag can begin any more."""
        return _first(self._stops, text)

    def hold_back(self, held: str) -> int:
        """How many characters at the end of a text without a tag may be part of a pattern."""
        unsure = self._growing(self.tags, held)
        growing = max(unsure, self._growing(self._stops, held))
        if not unsure:
            return growing
        stop = _first(self._stops, held)  # one that reaches into what may become a tag
        return growing if stop is None else max(growing, len(held) - stop[1])

    def fragment(self, held: str) -> int:
        """How many characters at the very end are the beginning of a tag. A single character is taken for text."""
        length = max((overlap(held, tag) for tag in self.tags), default=0)
        return length if length > 1 else 0

    def _growing(self, patterns: Sequence[str], held: str) -> int:
        if not patterns or not held or held[-1] not in self._may_grow:
            return 0
        return max(overlap(held, pattern) for pattern in patterns)


def overlap(text: str, pattern: str) -> int:
    """Length of the longest end of `text` that is a proper beginning of `pattern`."""
    for length in range(min(len(text), len(pattern) - 1), 0, -1):
        if text.endswith(pattern[:length]):
            return length
    return 0


def _first(patterns: Sequence[str], text: str) -> tuple[str, int] | None:
    """The pattern that is complete first (of those that end together, the longest), and where it begins."""
    best: tuple[int, int, str] | None = None
    for pattern in patterns:
        at = text.find(pattern)
        if at >= 0 and (best is None or (at + len(pattern), at) < best[:2]):
            best = (at + len(pattern), at, pattern)
    return (best[2], best[1]) if best else None
