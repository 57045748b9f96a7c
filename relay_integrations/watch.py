"""Watches one segment for the place where its stop rule ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from relay_integrations.cues.matcher import CueMatch, CueScanner
from relay_integrations.cues.sentences import SentenceScanner
from relay_integrations.policies.base import StopRule

LOOP_SPAN = 24
"""A loop is at least this many tokens long, and at least four copies of the same tokens."""

LOOP_PERIOD = 64
"""The longest piece whose copies are looked for."""

LOOP_CHECK_EVERY = 16
"""Tokens between two looks for a loop."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the segment ends: the token that holds its `chars`-th character is the last one that stays."""

    cause: Literal["cue", "sentence_end", "repetition"]
    chars: int
    cue: str | None = None


class SegmentWatch:
    """Applies a stop rule to a segment, token by token.

    Args:
        rule: The rule.
        tail: The raw text in front of where the watch begins.
        offset: How many characters of the segment stand in front already (a segment may go on under a new rule).
        sentence_over: The text in front has ended a segment with its sentence end, which does not count again.
    """

    def __init__(self, rule: StopRule, tail: str, offset: int = 0, *, sentence_over: bool = False) -> None:
        self._rule = rule
        self._before = tail[-1:]
        self._chars = offset
        self._cue_scan: CueScanner | None = None
        self._cue_base = 0
        self._sentence_base = offset
        self._sentences = SentenceScanner(tail, rule.sentences, ended=sentence_over) if rule.sentences else None
        self._cues = rule.cues if rule.cues else None

    def feed(self, text: str, tokens: int) -> Cut | None:
        """Takes the text of one token, `tokens` of the segment standing before it."""
        cut = self._feed_cues(text) if self._cues and tokens >= self._rule.min_tokens else None
        if cut is None and self._sentences is not None:
            end = self._sentences.feed(text)
            if end is not None:
                cut = Cut("sentence_end", self._sentence_base + end)
        self._chars += len(text)
        self._before = text[-1:]
        return cut

    def loops(self, ids: Sequence[int]) -> bool:
        """Whether the segment's ids end in a loop, looked at now and then."""
        return self._rule.repetition and len(ids) % LOOP_CHECK_EVERY == 0 and in_loop(ids)

    def skip(self, text: str) -> None:
        """Takes text in which nothing counts (a tool call), and starts afresh behind it."""
        self._chars += len(text)
        self._before = text[-1:] or self._before
        self._cue_scan = None
        if self._sentences is not None:
            self._sentences = SentenceScanner("", self._rule.sentences)
            self._sentence_base = self._chars

    def _feed_cues(self, text: str) -> Cut | None:
        assert self._cues is not None
        if self._cue_scan is None:
            self._cue_scan, self._cue_base = self._cues.scanner(self._before), self._chars
        while True:
            # A scan stops in mid-text when it finds a cue; if that one does not count, the next scan takes up the rest.
            found = self._cue_scan.feed(text[max(0, self._cue_base - self._chars) :])
            if found is None:
                return None
            decided = self._cue_base + found.decided
            if not self._already_ended(found, text[max(0, self._cue_base + found.end - self._chars) :]):
                return Cut("cue", decided, found.cue)
            self._cue_scan, self._cue_base = self._cues.scanner(text[decided - self._chars - 1]), decided

    def _already_ended(self, found: CueMatch, behind: str) -> bool:
        """Whether the sentence ends, or may, within the cue's own token: then there is nothing left to delegate."""
        scan = SentenceScanner(found.cue)
        return scan.feed(behind) is not None or scan.pending


def in_loop(ids: Sequence[int]) -> bool:
    """Whether a sequence ends in at least four copies of the same tokens that span at least `LOOP_SPAN`."""
    for period in range(1, min(LOOP_PERIOD, len(ids) // 4) + 1):
        span = max(4, -(-LOOP_SPAN // period)) * period
        if span > len(ids):
            continue
        tail = list(ids[-span:])
        if tail[period:] == tail[:-period]:
            return True
    return False
