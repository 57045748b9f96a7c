"""The part of an answer that holds tool calls: where it ends, and the calls in it; one class for each way to write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from relay_integrations.chat.braces import Braces
from relay_integrations.chat.patterns import overlap
from relay_integrations.chat.tool_calls import CallPiece, JsonCall, NamedCall


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a section reaches into the text behind what it was fed.

    Attributes:
        inside: Characters that belong to it; what stands behind them is not known yet, unless the section is over.
        over: Whether it ends there.
        mark: Characters of the text that closes it.
    """

    inside: int
    over: bool = False
    mark: int = 0


class Section(Protocol):
    """Reads the calls behind the text that opened a section."""

    def measure(self, text: str) -> Extent:
        """How far it reaches into the next text; nothing is taken."""

    def feed(self, text: str) -> list[CallPiece]:
        """Takes text that is inside. A piece with a name begins a call."""

    def finish(self) -> list[CallPiece]:
        """The section is over, or the output has ended in it: the rest of its last call. Nothing the model wrote is lost."""


class TaggedSection:
    """One call between tags: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

    def __init__(self, close: str = "</tool_call>") -> None:
        self._close = close
        self._call = JsonCall()

    def measure(self, text: str) -> Extent:
        """Up to the closing tag."""
        at = text.find(self._close)
        return Extent(len(text) - overlap(text, self._close)) if at < 0 else Extent(at, True, len(self._close))

    def feed(self, text: str) -> list[CallPiece]:
        """Passes the call on."""
        return self._call.feed(text)

    def finish(self) -> list[CallPiece]:
        """Closes the call."""
        return self._call.finish()


class ObjectSection:
    """One call that is a JSON object and nothing around it; without a brace at its start it never ends."""

    def __init__(self) -> None:
        self._braces = Braces()
        self._begun: bool | None = None
        self._call = JsonCall()

    def measure(self, text: str) -> Extent:
        """Up to the brace that closes the object."""
        begun = self._begins(text)
        return Extent(*self._braces.reach(text)) if begun else Extent(len(text))

    def feed(self, text: str) -> list[CallPiece]:
        """Passes the call on."""
        self._begun = self._begins(text)
        if self._begun:
            self._braces.feed(text)
        return self._call.feed(text)

    def finish(self) -> list[CallPiece]:
        """Closes the call."""
        return self._call.finish()

    def _begins(self, text: str) -> bool | None:
        """Whether it begins with a brace; None where all is blank so far."""
        return self._begun if self._begun is not None or not text.strip() else text.lstrip().startswith("{")


class ListSection:
    """Several calls in a JSON list: `[{"name": …, "arguments": {…}}, …]`."""

    def __init__(self) -> None:
        self._list = Braces()
        self._raw = ""
        self._item = Braces()
        self._call: JsonCall | None = None
        self._any = False

    def measure(self, text: str) -> Extent:
        """Up to the bracket that closes the list."""
        return Extent(*self._list.reach(text))

    def feed(self, text: str) -> list[CallPiece]:
        """Passes the calls on, one behind the other."""
        self._list.feed(text)
        self._raw += "" if self._any else text
        pieces: list[CallPiece] = []
        while text:
            if self._call is None:
                _, brace, text = text.partition("{")
                if not brace:
                    break
                text, self._any = brace + text, True
                self._call, self._item = JsonCall(), Braces()
            length = self._item.feed(text)
            pieces += self._call.feed(text[:length])
            text = text[length:]
            if self._item.complete:
                pieces += self._call.finish()
                self._call = None
        return pieces

    def finish(self) -> list[CallPiece]:
        """Closes the call that is open; a list without any is one call that cannot be read."""
        if self._call is None and self._any:
            return []
        call = self._call or JsonCall()
        return [*([] if self._any else call.feed(self._raw)), *call.finish()]


class NamedSection:
    """One call that is a name with arguments behind it: `name[ARGS]{…}`.

    Args:
        mark: The text that opens the next call, where the arguments of this one never came.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._call = NamedCall()

    def measure(self, text: str) -> Extent:
        """Up to the brace that closes the arguments, or the mark of the next call."""
        start = text.find("{") if self._call.braces is None else 0
        if start < 0 or self._mark in text[:start]:
            at = text.find(self._mark)
            return Extent(at, True) if at >= 0 else Extent(len(text) - overlap(text, self._mark))
        length, complete = (self._call.braces or Braces()).reach(text[start:])
        return Extent(start + length, complete)

    def feed(self, text: str) -> list[CallPiece]:
        """Passes the call on."""
        return self._call.feed(text)

    def finish(self) -> list[CallPiece]:
        """Closes the call."""
        return self._call.finish()


class MistralSection:
    """What stands behind `[TOOL_CALLS]`: a list of calls, as older models write it, or a name with its arguments."""

    MARK = "[TOOL_CALLS]"

    def __init__(self) -> None:
        self._inner: Section | None = None

    def measure(self, text: str) -> Extent:
        """As the kind of section has it that its first character tells."""
        inner = self._choose(text)
        return Extent(len(text)) if inner is None else inner.measure(text)

    def feed(self, text: str) -> list[CallPiece]:
        """Passes the calls on."""
        self._inner = self._choose(text)
        return [] if self._inner is None else self._inner.feed(text)

    def finish(self) -> list[CallPiece]:
        """Closes the last call."""
        return (self._inner or JsonCall()).finish()

    def _choose(self, text: str) -> Section | None:
        begun = text.lstrip()
        if self._inner is not None or not begun:
            return self._inner
        kinds: dict[str, Section] = {"[": ListSection(), "{": ObjectSection()}
        return kinds.get(begun[0]) or NamedSection(self.MARK)
