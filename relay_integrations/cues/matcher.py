"""Finds switch cues in streamed text.

Rules (`match: word`, the default): case-sensitive; on word boundaries at both sides; a comma in the cue must be there; the
leftmost match wins, of those the longest. `match: paper` takes a cue as a plain substring, as the paper's code did.
What is found, and the character at which it is certain, depend on the text alone, never on how it was cut into chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Self

MatchMode = Literal["word", "paper"]


@dataclass(frozen=True, slots=True)
class CueMatch:
    """A cue in a text. Offsets count characters from where the scan began.

    Attributes:
        cue: The cue as its profile spells it.
        start: Its first character.
        end: One past its last character.
        decided: One past the character that made it certain: `end`, or later where a boundary or a longer cue had to be ruled out.
    """

    cue: str
    start: int
    end: int
    decided: int


@dataclass(slots=True)
class _Node:
    children: dict[str, Self] = field(default_factory=dict)
    cue: str | None = None


@dataclass(slots=True)
class _Walker:
    """A place where a cue may have begun: how far the text has followed the trie, and the longest cue confirmed so far."""

    start: int
    node: _Node | None
    unconfirmed: tuple[str, int] | None = None
    confirmed: tuple[str, int] | None = None


class CueSet:
    """The cues of a profile, compiled once and shared by all scans."""

    def __init__(self, cues: Iterable[str], match: MatchMode = "word") -> None:
        """Compiles the cues.

        Args:
            cues: The texts. In `word` mode white space at either end only stands for a boundary and is dropped.
            match: See the module.
        """
        self.match = match
        self.cues = tuple(dict.fromkeys(cues))
        self.root = _Node()
        for cue in self.cues:
            text = cue.strip() if match == "word" else cue
            if text:
                self._add(text, cue)

    def __bool__(self) -> bool:
        return bool(self.root.children)

    def _add(self, text: str, cue: str) -> None:
        node = self.root
        for ch in text:
            node = node.children.setdefault(ch, _Node())
        node.cue = node.cue or cue

    def scanner(self, before: str = "") -> CueScanner:
        """A scan of new text. `before` is the character in front of it, which decides the first boundary."""
        return CueScanner(self, before)


class CueScanner:
    """One scan for the first cue, fed piece by piece."""

    def __init__(self, cues: CueSet, before: str = "") -> None:
        self._root = cues.root
        self._word = cues.match == "word"
        self._after_word = bool(before) and is_word(before[-1])
        self._walkers: list[_Walker] = []
        self._at = 0

    def feed(self, text: str) -> CueMatch | None:
        """Takes the next piece of text and returns the first cue as soon as it is certain."""
        children = self._root.children
        for ch in text:
            if self._walkers or ch in children:
                found = self._step(ch)
                if found:
                    return found
            self._after_word = is_word(ch)
            self._at += 1
        return None

    def _step(self, ch: str) -> CueMatch | None:
        word_char = is_word(ch)
        if ch in self._root.children and not (self._word and self._after_word and word_char):
            self._walkers.append(_Walker(self._at, self._root))
        for walker in self._walkers:
            self._advance(walker, ch, word_char)
        self._walkers = [w for w in self._walkers if w.node or w.confirmed]
        # Only the leftmost may be reported, and only when it can grow no longer; the paper's code takes what is complete first.
        for walker in self._walkers[:1] if self._word else self._walkers:
            if walker.confirmed and walker.node is None:
                cue, end = walker.confirmed
                return CueMatch(cue, walker.start, end, self._at + 1)
        return None

    def _advance(self, walker: _Walker, ch: str, word_char: bool) -> None:
        if walker.unconfirmed:
            if not word_char:
                walker.confirmed = walker.unconfirmed
            walker.unconfirmed = None
        walker.node = walker.node.children.get(ch) if walker.node else None
        if walker.node is None or walker.node.cue is None:
            return
        if self._word and word_char:
            walker.unconfirmed = (walker.node.cue, self._at + 1)
        else:
            walker.confirmed = (walker.node.cue, self._at + 1)
        if not self._word or (not walker.node.children and not walker.unconfirmed):
            walker.node = None


def is_word(ch: str) -> bool:
    """Whether a character continues a word."""
    return ch.isalnum() or ch == "_"
