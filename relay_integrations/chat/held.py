"""Raw text that is not released yet, who wrote it, and the events that wait behind it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from relay_integrations.events import Event
from relay_integrations.roles import Role


@dataclass(slots=True)
class Writing:
    """Raw text by one writer."""

    text: str
    role: Role
    segment: int


class Held:
    """A queue of texts and events, released from the front.

    Args:
        emit: Takes an event once all text in front of it has been taken.

    Attributes:
        text: All held text.
        last: The latest text taken.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._queue: deque[Writing | Event] = deque()
        self.text = ""
        self.last = Writing("", "large", 0)

    def add(self, text: str, role: Role, segment: int) -> None:
        """Takes the next text."""
        self._queue.append(Writing(text, role, segment))
        self.text += text

    def mark(self, event: Event) -> None:
        """Emits an event behind the text that is held now."""
        if self._queue:
            self._queue.append(event)
        else:
            self._emit(event)

    def take(self, count: int, use: Callable[[str, Writing], None] | None = None) -> None:
        """Takes characters off the front, and emits the events behind them; `use` gets the texts, each by one writer."""
        self.text = self.text[count:]
        queue = self._queue
        while queue:
            head = queue[0]
            if isinstance(head, Event):
                queue.popleft()
                self._emit(head)
                continue
            if count == 0:
                return
            taken, head.text = head.text[:count], head.text[count:]
            count -= len(taken)
            self.last = head
            if not head.text:
                queue.popleft()
            if use is not None:
                use(taken, head)
