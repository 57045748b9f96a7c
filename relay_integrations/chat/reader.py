"""Reads the models' raw text into what a user sees: the two channels, tool calls, and the end at a stop sequence.

The reader lives as long as the generation, so tags and stop sequences are found across chunks and segments alike. Text that may
still turn into one of them is held back; events that happen behind held text wait for it, so their order is true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from relay_integrations.chat.tags import ThinkTags
from relay_integrations.chat.tool_calls import HERMES, CallPiece, HermesCallParser, ToolFormat
from relay_integrations.events import Event, ReasoningClosed, TextDelta, ToolCallDelta
from relay_integrations.roles import Channel, Role

_Mode = Literal["lead", "reasoning", "answer", "call"]


@dataclass(slots=True)
class _Piece:
    """Raw text by one writer, not yet released."""

    text: str
    role: Role
    segment: int


class OutputReader:
    """Turns raw text into `TextDelta`, `ToolCallDelta` and `ReasoningClosed`.

    Args:
        emit: Takes each event in order.
        clock: Seconds since the start of the generation.
        tags: Think tags that the text may hold; each model may have its own.
        reasoning_open: The prompt has opened the reasoning already; an open tag that the model writes all the same is dropped.
        stops: The user's stop sequences. They count in the text of both channels, not inside tool calls, in a tag or across one.
        tools: Format of tool calls, or None if no tools are bound.
        call_id: Gives the id of the n-th call.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
        *,
        tags: Sequence[ThinkTags] = (),
        reasoning_open: bool = False,
        stops: Sequence[str] = (),
        tools: ToolFormat | None = None,
        call_id: Callable[[int], str] = "call_{}".format,
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._opens = tuple(dict.fromkeys(t.open for t in tags))
        self._closes = tuple(dict.fromkeys(t.close for t in tags))
        self._stops = tuple(stops)
        self._format = tools or HERMES
        self._tools = tools is not None
        self._call_id = call_id
        self._queue: deque[_Piece | Event] = deque()
        self._held = ""
        self._mode: _Mode = "lead" if tags else "answer"
        self._behind_lead: Channel = "reasoning" if reasoning_open and tags else "answer"
        self._skip_newlines = False
        self._parser: HermesCallParser | None = None
        self._last_writer = _Piece("", "large", 0)
        self._set_patterns()
        self._opens_in_answer = 0
        self.calls = 0
        self.stopped: str | None = None
        self.closings = 0

    @property
    def channel(self) -> Channel:
        """The channel that new text belongs to, as far as is known."""
        return "reasoning" if self._mode == "reasoning" or (self._mode == "lead" and self._behind_lead == "reasoning") else "answer"

    @property
    def in_call(self) -> bool:
        """Whether a tool call is open."""
        return self._mode == "call"

    def mark(self, event: Event) -> None:
        """Emits an event of the engine's in its place between the texts."""
        if self._queue:
            self._queue.append(event)
        else:
            self._emit(event)

    def feed(self, text: str, role: Role, segment: int, position: int = 0) -> None:
        """Takes the next raw text. `position` is the number of output tokens so far, for the events."""
        if not text or self.stopped is not None:
            return
        self._queue.append(_Piece(text, role, segment))
        self._held += text
        while self._scan(role, position):
            pass

    def close_reasoning(self, position: int) -> None:
        """The reasoning is closed by force: what is held belongs to it."""
        self._release()
        if self.stopped is None:
            self._begin_answer(ReasoningClosed(by="budget", position=position, time=self._clock()))

    def finish(self) -> None:
        """The generation has ended: releases what is held, except a fragment of a tag, and closes an open tool call."""
        self._release()
        if self._parser is not None:
            self._end_call()

    def _release(self) -> None:
        """Nothing more comes: passes on what is held, but no stop sequence and no beginning of a tag."""
        tags = self._tags
        if self._mode == "lead" and (self._held.strip() or not self.closings):
            self._enter(self._behind_lead)
        stop = self._find(self._stops_here, self._held)
        if stop is not None:
            self._stop(*stop)
            return
        # A single character is taken for text.
        fragment = max((_overlap(self._held, tag) for tag in tags), default=0)
        self._consume(len(self._held) - (fragment if fragment > 1 else 0), keep=self._mode != "lead")
        self._consume(len(self._held), keep=False)

    def _scan(self, role: Role, position: int) -> bool:
        """Does one step on the held text; False when more text is needed."""
        if self._skip_newlines:
            newlines = len(self._held) - len(self._held.lstrip("\r\n"))
            self._consume(newlines, keep=False)
            if not self._held:
                return False
            self._skip_newlines = False
        if self._mode == "lead":
            return self._scan_lead()
        tag = self._find(self._tags, self._held)
        # In what may still become a tag no stop sequence is found.
        unsure = 0 if tag else self._overlaps(self._tags)
        stop = self._find(self._stops_here, self._held[: tag[1] if tag else len(self._held) - unsure])
        if stop is not None:
            self._stop(*stop)
            return False
        if tag is None:
            self._consume(len(self._held) - self._hold_back(unsure), keep=True)
            return False
        pattern, at = tag
        self._consume(at, keep=True)
        if self._mode == "answer":
            self._take_tag_in_answer(pattern)
        else:
            self._consume(len(pattern), keep=False)
            if self._mode == "call":
                self._end_call()
            else:
                self._begin_answer(ReasoningClosed(by=role, position=position, time=self._clock()))
        return bool(self._held)

    def _take_tag_in_answer(self, pattern: str) -> None:
        """A call begins; or a think tag stands in the answer: a pair of them is text, a closing one alone is the model's slip."""
        if self._tools and pattern == self._format.open:
            self._begin_call(len(pattern))
            return
        stray = pattern in self._closes and not self._opens_in_answer
        self._opens_in_answer += (pattern in self._opens) - (pattern in self._closes and not stray)
        self._consume(len(pattern), keep=not stray)
        self._skip_newlines = stray

    def _stop(self, pattern: str, at: int) -> None:
        self._consume(at, keep=True)
        self.stopped = pattern
        self._consume(len(self._held), keep=False)

    def _scan_lead(self) -> bool:
        """Before the first visible text: is it the open tag?"""
        begun = self._held.lstrip()
        tag = next((t for t in self._opens if begun.startswith(t)), None)
        if tag is not None:
            self._consume(len(self._held) - len(begun) + len(tag), keep=False)
            self._enter("reasoning", skip_newlines=True)
        elif any(t.startswith(begun) for t in self._opens):
            return False
        else:
            self._enter(self._behind_lead)
        return bool(self._held)

    def _enter(self, mode: _Mode, skip_newlines: bool = False) -> None:
        self._mode = mode
        self._skip_newlines = skip_newlines
        self._set_patterns()

    def _begin_answer(self, event: ReasoningClosed) -> None:
        self.closings += 1
        self._emit(event)  # all in front of it has been passed on
        self._behind_lead = "answer"
        self._enter("lead", skip_newlines=True)

    def _begin_call(self, length: int) -> None:
        self._enter("call")
        self._parser = HermesCallParser()
        self.calls += 1
        self._consume(length, keep=False)

    def _end_call(self) -> None:
        last = self._last_writer
        for piece in self._parser.finish() if self._parser else ():
            self._emit_call(piece, last)
        self._parser = None
        self._enter("answer", skip_newlines=True)

    def _emit_call(self, piece: CallPiece, writer: _Piece) -> None:
        index = self.calls - 1
        self._emit(
            ToolCallDelta(
                index=index,
                id=None if piece.name is None else self._call_id(index),
                name=piece.name,
                arguments=piece.arguments,
                valid=piece.valid,
                role=writer.role,
                segment=writer.segment,
                time=self._clock(),
            )
        )

    def _consume(self, count: int, *, keep: bool) -> None:
        """Takes `count` held characters off the front, passing them on if they are kept, and the events behind them."""
        self._held = self._held[count:]
        queue = self._queue
        while queue:
            head = queue[0]
            if isinstance(head, Event):
                self._emit(queue.popleft())  # type: ignore[arg-type]
                continue
            if count == 0:
                return
            taken, head.text = head.text[:count], head.text[count:]
            count -= len(taken)
            self._last_writer = head
            if not head.text:
                queue.popleft()
            if keep:
                self._pass_on(taken, head)

    def _pass_on(self, text: str, writer: _Piece) -> None:
        if self._mode == "call" and self._parser is not None:
            for piece in self._parser.feed(text):
                self._emit_call(piece, writer)
            return
        channel = self.channel
        self._emit(TextDelta(text=text, channel=channel, role=writer.role, segment=writer.segment, time=self._clock()))

    def _set_patterns(self) -> None:
        self._tags: tuple[str, ...] = {
            "lead": self._opens,
            "reasoning": self._closes,
            "answer": (*((self._format.open,) if self._tools else ()), *self._opens, *self._closes),
            "call": (self._format.close,),
        }[self._mode]
        self._stops_here = self._stops if self._mode in ("reasoning", "answer") else ()
        self._may_grow = frozenset(ch for pattern in (*self._tags, *self._stops_here) for ch in pattern[:-1])

    def _find(self, patterns: Sequence[str], text: str) -> tuple[str, int] | None:
        """The pattern that is complete first (of those that end together, the longest), and where it begins."""
        best: tuple[int, int, str] | None = None
        for pattern in patterns:
            at = text.find(pattern)
            if at >= 0 and (best is None or (at + len(pattern), at) < best[:2]):
                best = (at + len(pattern), at, pattern)
        return (best[2], best[1]) if best else None

    def _hold_back(self, unsure: int) -> int:
        """How many characters at the end may be part of a pattern; `unsure` of them the beginning of a tag."""
        growing = max(unsure, self._overlaps(self._stops_here))
        if not unsure:
            return growing
        stop = self._find(self._stops_here, self._held)  # one that reaches into what may become a tag
        return growing if stop is None else max(growing, len(self._held) - stop[1])

    def _overlaps(self, patterns: Sequence[str]) -> int:
        """How many characters at the end are the beginning of one of the patterns."""
        if not patterns or not self._held or self._held[-1] not in self._may_grow:
            return 0
        return max(_overlap(self._held, pattern) for pattern in patterns)


def _overlap(text: str, pattern: str) -> int:
    """Length of the longest end of `text` that is a proper beginning of `pattern`."""
    for length in range(min(len(text), len(pattern) - 1), 0, -1):
        if text.endswith(pattern[:length]):
            return length
    return 0
