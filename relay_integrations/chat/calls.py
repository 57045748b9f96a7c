"""The tool calls of one output: their numbers, their ids, and how many of them are welcome."""

from __future__ import annotations

from collections.abc import Callable

from relay_integrations.chat.held import Writing
from relay_integrations.chat.tool_calls import CallPiece
from relay_integrations.events import Event, ToolCallDelta


class Calls:
    """Turns pieces of calls into events.

    Args:
        emit: Takes each event.
        clock: Seconds since the start of the generation.
        id_of: Gives the id of the n-th call.
        most: Behind so many calls no other is taken; None for any number.

    Attributes:
        count: Calls so far.
        full: Whether the last one that is welcome is complete.
    """

    def __init__(
        self, emit: Callable[[Event], None], clock: Callable[[], float], id_of: Callable[[int], str], most: int | None = None
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._id_of = id_of
        self._most = most
        self.count = 0
        self.full = False

    def add(self, piece: CallPiece, writer: Writing) -> None:
        """Takes the next piece; one with a name begins a call."""
        if self.full:
            return
        if piece.name is not None:
            self.count += 1
        index = self.count - 1
        self._emit(
            ToolCallDelta(
                index=index,
                id=None if piece.name is None else self._id_of(index),
                name=piece.name,
                arguments=piece.arguments,
                valid=piece.valid,
                role=writer.role,
                segment=writer.segment,
                time=self._clock(),
            )
        )
        self.full = piece.valid is not None and self.count == self._most
