"""Reads the models' raw text into what a user sees: the two channels, tool calls, and the end at a stop sequence.

The reader lives as long as the generation, so tags and stop sequences are found across chunks and segments alike. Text that may
still turn into one of them is held back; events that happen behind held text wait for it, so their order is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from relay_integrations.chat.calls import Calls
from relay_integrations.chat.held import Held, Writing
from relay_integrations.chat.maybe_call import BETWEEN_CALLS, MaybeCall
from relay_integrations.chat.patterns import Patterns
from relay_integrations.chat.sections import Section
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.chat.tool_formats import ToolFormat
from relay_integrations.events import Event, ReasoningClosed, TextDelta
from relay_integrations.roles import Channel, Role

_Mode = Literal["lead", "reasoning", "bare", "answer", "call"]
"""Before the first visible text; in a channel; where a bare call may begin; in tool calls."""


class OutputReader:
    """Turns raw text into `TextDelta`, `ToolCallDelta` and `ReasoningClosed`.

    Args:
        emit: Takes each event in order.
        clock: Seconds since the start of the generation.
        tags: Think tags that the text may hold; each model may have its own.
        reasoning_open: The prompt has opened the reasoning already; an open tag that the model writes all the same is dropped.
        stops: The user's stop sequences. They count in the text of both channels, not inside tool calls, in a tag or across one.
        tools: How each role writes tool calls, or None if no tools are bound.
        most_calls: Behind so many calls the output is full.
        hold_answer: The answer may begin only with `open_answer`; until then none of its text is released.
        call_id: Gives the id of the n-th call.

    Attributes:
        closings: How often the reasoning was closed.
        stopped: The stop sequence that ended the output.
        holding: Whether the answer is held; `answering` says that text of it came all the same.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
        *,
        tags: Sequence[ThinkTags] = (),
        reasoning_open: bool = False,
        stops: Sequence[str] = (),
        tools: Mapping[Role, ToolFormat] | None = None,
        most_calls: int | None = None,
        hold_answer: bool = False,
        call_id: Callable[[int], str] = "call_{}".format,
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._opens = tuple(dict.fromkeys(t.open for t in tags))
        self._closes = tuple(dict.fromkeys(t.close for t in tags))
        self._stops = tuple(stops)
        self._formats = tools or {}
        self._format: ToolFormat | None = next(iter(self._formats.values()), None)
        self._calls = Calls(emit, clock, call_id, most_calls)
        self._calls_only = False
        self.holding = hold_answer
        self._begun = False  # whether text of the answer stands where a bare call may begin
        self._held = Held(emit)
        self._behind_lead: Channel = "reasoning" if reasoning_open and tags else "answer"
        self._skip_newlines = False
        self._section: Section | None = None
        self._maybe: MaybeCall | None = None
        self._opens_in_answer = self.closings = 0
        self.stopped: str | None = None
        self.answering = False
        self._enter("lead" if tags or hold_answer else self._answer)

    @property
    def channel(self) -> Channel:
        """The channel that new text belongs to, as far as is known."""
        return "reasoning" if self._mode == "reasoning" or (self._mode == "lead" and self._behind_lead == "reasoning") else "answer"

    @property
    def calls(self) -> int:
        """Tool calls so far."""
        return self._calls.count

    @property
    def in_call(self) -> bool:
        """Whether a tool call is open, or what may still be one."""
        return self._mode == "call" or (self._mode == "bare" and self._held.text.lstrip(BETWEEN_CALLS).startswith("{"))

    @property
    def leading(self) -> bool:
        """Whether the answer is held and all that was written is what may still open the reasoning."""
        return self._mode == "lead" and self.holding and self._behind_lead == "answer" and not self.closings

    @property
    def over(self) -> bool:
        """Whether nothing more is read: behind a stop sequence, or behind `most_calls`."""
        return self.stopped is not None or self._calls.full

    def mark(self, event: Event) -> None:
        """Emits an event of the engine's in its place between the texts."""
        self._held.mark(event)

    def feed(self, text: str, role: Role, segment: int, position: int = 0) -> None:
        """Takes the next raw text. `position` is the number of output tokens so far, for the events."""
        if not text or self.over:
            return
        self._held.add(text, role, segment)
        form = self._formats.get(role)
        if form != self._format:
            self._format = form
            self._enter(self._mode if self._mode not in ("answer", "bare") else self._answer, self._skip_newlines)
        while self._scan(role, position):
            pass

    def close_reasoning(self, position: int, by: Literal["budget", "constraint"] = "budget") -> None:
        """The reasoning is closed by force: what is held belongs to it."""
        self._release()
        if self.stopped is None:
            self._end_reasoning(ReasoningClosed(by=by, position=position, time=self._clock()))

    def drop_lead(self) -> None:
        """What may have opened the reasoning does not: it is dropped."""
        self._drop()
        self.answering = False

    def open_answer(self, *, calls_only: bool = False) -> None:
        """The answer begins where it was held: what is held is dropped, and in what comes think tags are text like any other.

        Args:
            calls_only: Whether it is nothing but tool calls.
        """
        self.drop_lead()
        self.holding = False
        self._calls_only = calls_only
        self._opens = self._closes = ()
        self._enter(self._answer, skip_newlines=True)

    def finish(self) -> None:
        """The generation has ended: releases what is held, except a fragment of a tag, and closes an open tool call."""
        self._release()
        if self._section is not None:
            self._end_section()

    def _release(self) -> None:
        """Nothing more comes: passes on what is held, but no stop sequence and no beginning of a tag."""
        held = self._held
        if self._mode == "lead" and self.holding and self._behind_lead == "answer":
            self._drop()
            return
        if self._mode == "lead" and (held.text.strip() or not self.closings):
            self._enter(self._behind_lead)
        if self._mode == "bare" and self.calls and not held.text.strip(BETWEEN_CALLS):
            self._drop()
        stop = self._patterns.find_stop(held.text)
        if stop is not None:
            self._stop(*stop)
        fragment = len(held.text) if self._mode == "call" and len(held.text) > 1 else self._patterns.fragment(held.text)
        held.take(len(held.text) - fragment, None if self._mode == "lead" else self._pass_on)
        self._drop()

    def _scan(self, role: Role, position: int) -> bool:
        """Does one step on the held text; False when more text is needed."""
        held = self._held
        if self._skip_newlines:
            held.take(len(held.text) - len(held.text.lstrip("\r\n")))
            if not held.text:
                return False
            self._skip_newlines = False
        scan = {"lead": self._scan_lead, "bare": self._scan_bare, "call": self._scan_section}.get(self._mode)
        if scan is not None:
            return scan()
        tag, stop = self._patterns.find(held.text)
        if stop is not None:
            return self._stop(*stop)
        if tag is None:
            held.take(len(held.text) - self._patterns.hold_back(held.text), self._pass_on)
            return False
        pattern, at = tag
        held.take(at, self._pass_on)
        if self._mode == "answer":
            self._take_tag_in_answer(pattern)
        else:
            held.take(len(pattern))
            self._end_reasoning(ReasoningClosed(by=role, position=position, time=self._clock()))
        return bool(held.text)

    def _scan_lead(self) -> bool:
        """Before the first visible text: is it the open tag?"""
        held = self._held
        begun = held.text.lstrip()
        tag = next((t for t in self._opens if begun.startswith(t)), None)
        if tag is not None:
            held.take(len(held.text) - len(begun) + len(tag))
            self._enter("reasoning", skip_newlines=True)
        elif any(t.startswith(begun) for t in self._opens):
            return False
        elif self.holding and self._behind_lead == "answer":
            self.answering = True
            return False
        else:
            self._enter(self._answer if self._behind_lead == "answer" else "reasoning")
        return bool(held.text)

    def _scan_bare(self) -> bool:
        """Where a bare call may begin: is it one?"""
        held = self._held
        begun = held.text.lstrip(BETWEEN_CALLS if self.calls else None)
        if not begun:
            return False
        verdict: bool | None = False
        if begun.startswith("{"):
            self._maybe = self._maybe or MaybeCall()
            verdict = self._calls_only or self._maybe.look(begun)
        if verdict is None:
            return False
        if verdict:
            held.take(len(held.text) - len(begun))
            self._begin_section()
        else:
            self._enter("answer")
        return True

    def _scan_section(self) -> bool:
        """Within tool calls."""
        assert self._section is not None
        extent = self._section.measure(self._held.text)
        self._held.take(extent.inside, self._pass_on)
        if extent.over and not self.over:
            self._held.take(extent.mark)
            self._end_section()
        if self.over:
            self._drop()
        return extent.over and bool(self._held.text)

    def _take_tag_in_answer(self, pattern: str) -> None:
        """A call begins; or a think tag stands in the answer: a pair of them is text, a closing one alone is the model's slip."""
        if self._format is not None and pattern in self._format.marks:
            self._held.take(len(pattern))
            self._begin_section()
            return
        stray = pattern in self._closes and not self._opens_in_answer
        self._opens_in_answer += (pattern in self._opens) - (pattern in self._closes and not stray)
        self._held.take(len(pattern), None if stray else self._pass_on)
        self._skip_newlines = stray

    def _stop(self, pattern: str, at: int) -> bool:
        self._held.take(at, self._pass_on)
        self.stopped = pattern
        self._drop()
        return False

    def _drop(self) -> None:
        self._held.take(len(self._held.text))

    @property
    def _answer(self) -> _Mode:
        """How an answer begins, or goes on behind a call."""
        return "bare" if self._format is not None and self._format.bare and not self._begun else "answer"

    def _enter(self, mode: _Mode, skip_newlines: bool = False) -> None:
        self._mode: _Mode = mode
        self._skip_newlines = skip_newlines
        self._maybe = None
        marks = self._format.marks if self._format is not None else ()
        tags = {"lead": self._opens, "reasoning": self._closes, "answer": (*marks, *self._opens, *self._closes)}.get(mode, ())
        self._patterns = Patterns(tags, () if mode in ("lead", "call") else self._stops)

    def _end_reasoning(self, event: ReasoningClosed) -> None:
        self.closings += 1
        self._emit(event)  # all in front of it has been passed on
        self._behind_lead = "answer"
        self._enter("lead", skip_newlines=True)

    def _begin_section(self) -> None:
        assert self._format is not None
        self._section = self._format.section()
        self._enter("call")

    def _end_section(self) -> None:
        section, self._section = self._section, None
        for piece in section.finish() if section else ():
            self._calls.add(piece, self._held.last)
        self._begun = False
        self._enter(self._answer, skip_newlines=True)

    def _pass_on(self, text: str, writer: Writing) -> None:
        if self._section is not None:
            for piece in self._section.feed(text):
                self._calls.add(piece, writer)
            return
        channel = self.channel
        self._begun = self._begun or channel == "answer"
        self._emit(TextDelta(text=text, channel=channel, role=writer.role, segment=writer.segment, time=self._clock()))
