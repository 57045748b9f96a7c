"""Streams of events, for synchronous and for asynchronous callers. Closing one stops the generation behind it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Self

from relay_integrations.errors import GenerationError
from relay_integrations.events import Event
from relay_integrations.result import Fold, RelayResult
from relay_integrations.sink import EventQueue


class _Reader:
    """What both kinds of stream share: the queue's reading end."""

    def __init__(self, queue: EventQueue, cancel: Callable[[], object]) -> None:
        self._queue = queue
        self._cancel = cancel
        self._ready: deque[Event] = deque()
        self._fold = Fold()
        self._over = False

    @property
    def result(self) -> RelayResult:
        """The fold of all events read so far; complete when the stream has ended, partial after it was closed early."""
        return self._fold.result()

    def _pop(self) -> Event:
        event = self._ready.popleft()
        self._fold.add(event)
        return event

    def _end(self) -> None:
        """Marks the stream as over and raises the error it ended with, once."""
        self._over = True
        error = self._queue.error
        if isinstance(error, GenerationError):
            error.partial = self._fold.result()
        if error is not None:
            raise error

    def _drain(self) -> None:
        """Folds what was not read, so that `result` holds all that was generated."""
        self._ready.extend(self._queue.take())
        while self._ready:
            self._pop()
        self._over = True

    def __del__(self) -> None:
        # A loop that was left by `break` drops its stream without closing it: the models must not go on for nobody.
        if not self._queue.closed:
            self._cancel()


class RelayStream(_Reader, Iterator[Event]):
    """The events of a generation, one by one.

    Leave it by its end, by `close`, as a context manager, or by dropping it: the running model stops and no other starts. Where the
    generation fails, the last event is `RelayFailed` and the next step raises.
    """

    def __next__(self) -> Event:
        while not self._ready:
            if self._over:
                raise StopIteration
            woken = threading.Event()
            self._ready.extend(self._queue.take(woken.set))
            if not self._ready:
                if self._queue.closed:
                    self._end()
                    raise StopIteration
                _wait(woken)
        return self._pop()

    def close(self) -> None:
        """Stops the generation and waits until the backend has let go of it. May be called twice."""
        self._cancel()
        while not self._queue.closed:
            woken = threading.Event()
            self._ready.extend(self._queue.take(woken.set))
            if not self._ready and not self._queue.closed:
                _wait(woken)
            while self._ready:
                self._pop()
        self._drain()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _wait(woken: threading.Event) -> None:
    """Waits in short turns: a Ctrl-C that comes just before a wait begins takes effect only when the wait returns."""
    while not woken.wait(0.5):
        pass


def _nobody_waits() -> bool:
    """Whether a generator that held the stream was dropped and its loop closes it by itself.

    `asyncio.run` does not wait for that either: to wait here would be a task that is pending when the loop is gone.
    """
    task = asyncio.current_task()
    return task is not None and type(task.get_coro()).__name__ == "async_generator_athrow"


class AsyncRelayStream(_Reader, AsyncIterator[Event]):
    """As `RelayStream`, for any event loop; the caller's loop is never blocked.

    Cancelling the task that reads it stops the generation too.
    """

    async def __anext__(self) -> Event:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            await self._refill()
            if not self._ready and self._queue.closed:
                self._end()
                raise StopAsyncIteration
        return self._pop()

    async def aclose(self) -> None:
        """Stops the generation and waits until the backend has let go of it. May be called twice."""
        self._cancel()
        while not self._queue.closed and not _nobody_waits():
            await self._refill()
            while self._ready:
                self._pop()
        self._drain()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def _refill(self) -> None:
        """Waits until there are events or there will be none."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the reader's loop has ended
                loop.call_soon_threadsafe(woken.set)

        self._ready.extend(self._queue.take(wake))
        if self._ready or self._queue.closed:
            return
        try:
            await woken.wait()
        except asyncio.CancelledError:
            self._cancel()
            raise
        self._ready.extend(self._queue.take())
