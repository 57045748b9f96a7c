"""Where a running generation puts its events."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from relay_integrations.events import Event
from relay_integrations.result import Fold

QUEUE_LIMIT = 256
"""Events that may wait for a slow reader before the generation pauses."""


class Sink(Protocol):
    """Takes events on the engine's loop."""

    @property
    def full(self) -> bool:
        """Whether the generation should wait for `drained`."""

    def put(self, event: Event) -> None:
        """Takes the next event, whether full or not."""

    async def drained(self) -> None:
        """Waits until there is room."""


class Collector:
    """Folds events at once: for a result that is not streamed."""

    full = False

    def __init__(self) -> None:
        self.fold = Fold()

    def put(self, event: Event) -> None:
        """Folds the event."""
        self.fold.add(event)

    async def drained(self) -> None:
        """There is always room."""


class EventQueue:
    """Hands events from the engine's loop to one reader on any thread or loop, with bounded waiting.

    Args:
        loop: The engine's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], object]] = []
        self._room = asyncio.Event()
        self._blocked = False
        self.closed = False
        self.error: BaseException | None = None

    @property
    def full(self) -> bool:
        """Whether the reader is far behind."""
        return len(self._events) >= QUEUE_LIMIT and not self.closed

    def put(self, event: Event) -> None:
        """Adds an event and wakes a waiting reader."""
        with self._lock:
            self._events.append(event)
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    async def drained(self) -> None:
        """Waits for the reader to catch up."""
        with self._lock:
            if len(self._events) < QUEUE_LIMIT:
                return
            self._room.clear()
            self._blocked = True
        await self._room.wait()

    def close(self, error: BaseException | None = None) -> None:
        """No more events will come; `error` is for the reader to raise."""
        with self._lock:
            self.error = error
            self.closed = True
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def take(self, wake: Callable[[], object] | None = None) -> list[Event]:
        """All waiting events. If there are none and more may come, `wake` is called (on any thread) when that changes."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
            if wake and not events and not self.closed:
                self._wakers.append(wake)  # several may wait: a reader, and whoever closes the stream
            blocked, self._blocked = self._blocked, False
        if blocked:
            with contextlib.suppress(RuntimeError):  # the engine was closed meanwhile
                self._loop.call_soon_threadsafe(self._room.set)
        return events
