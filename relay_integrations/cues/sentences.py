"""Finds the end of a sentence in streamed text: the one function that runtime and calibration share.

A sentence ends with `.` `!` `?` (or their full-width forms) or at a blank line; not inside a number, a known abbreviation or a
dotted name. Only a full stop needs the character behind it to be sure; the answer depends on the text alone, never on its chunks.
"""

from __future__ import annotations

from relay_integrations.cues.matcher import is_word

ABBREVIATIONS = frozenset(
    "a.k.a a.m al approx ca cf corp dept dr e.g eq eqs fig figs hr i.e inc ltd m.sc mr mrs ms "
    "p.m ph.d prof resp s.t st u.k u.s u.s.a viz vol vs w.l.o.g w.r.t".split()
)
"""Lower-case, without the last dot. What ends sentences as often as not is left out: `etc.`, `No.`, a variable `p.`"""

CONTEXT_CHARS = 64
"""How much text in front of a scan can matter: the longest number, name or abbreviation that it may stand in."""

_ENDS = frozenset("!?。！？")
_OPENERS = frozenset("([{<“‘")
_CLOSERS = frozenset(")]}\"'”’»*`$%")
_MARKS = "\"'*_`~"  # quotes and emphasis that may stand in front of an abbreviation


class SentenceScanner:
    """One scan for sentence ends, fed piece by piece.

    Args:
        before: The text in front; an end inside it does not count, but a full stop that it ends with may.
        count: Which end to report: the first, second, … after the start.
        ended: The text in front ends with an end that has been reported already.
    """

    def __init__(self, before: str = "", count: int = 1, *, ended: bool = False) -> None:
        self._run = ""  # the characters since the last white space or opening bracket
        self._pending = False  # a full stop stands at the end, and the next character decides
        self._content = False  # something stands in the sentence that has begun
        self._just_ended = False  # nothing but white space and closing marks since the last end
        self._line_empty = False  # since the last line break there was only white space
        self._left = 1 << 62  # the text in front cannot use up the count
        self._at = 0
        self.feed(before[-CONTEXT_CHARS:])
        if ended:
            self._end(0)
            self._pending = False
        self._left = count
        self._at = 0

    @property
    def pending(self) -> bool:
        """Whether the text so far ends with a full stop that the next character decides."""
        return self._pending

    def feed(self, text: str) -> int | None:
        """Takes the next piece.

        Returns:
            One past the last character of the sentence, counted from the start of the scan (0: it had ended right before), as
            soon as that is certain; else None. After a result the scan is over.
        """
        for ch in text:
            end = self._step(ch)
            self._at += 1
            if end is not None:
                self._left -= 1
                if self._left <= 0:
                    return end
        return None

    def _step(self, ch: str) -> int | None:
        ended = self._resolve(ch)
        if ch in _ENDS:
            if ended is None and not self._just_ended:
                ended = self._end(self._at + 1)
        elif ch.isspace():
            self._run = ""
            if ch == "\n":
                if self._line_empty and self._content:
                    ended = self._end(self._at + 1)
                self._line_empty = True
            return ended
        elif ch == ".":
            if not (self._pending or self._just_ended):
                ended = self._full_stop()
        elif not (self._just_ended and ch in _CLOSERS):
            self._content, self._just_ended = True, False
            self._run = "" if ch in _OPENERS else (self._run + ch)[-CONTEXT_CHARS:]
        self._line_empty = False
        return ended

    def _resolve(self, ch: str) -> int | None:
        """Decides a pending full stop by the character behind it."""
        if not self._pending or ch == ".":
            return None
        self._pending = False
        return None if is_word(ch) else self._end(self._at)

    def _full_stop(self) -> int | None:
        run = self._run
        self._run += "."
        self._content = True
        if run.lstrip(_MARKS).lower() in ABBREVIATIONS:
            return None
        if run and run[-1] in _CLOSERS:
            return self._end(self._at + 1)
        self._pending = True
        return None

    def _end(self, at: int) -> int:
        self._content, self._just_ended, self._run = False, True, ""
        return at


def sentence_end(text: str, start: int = 0) -> int | None:
    """Offset one past the end of the first sentence of `text[start:]`, or None if it is not certain to end."""
    end = SentenceScanner(text[:start]).feed(text[start:])
    return None if end is None else start + end
