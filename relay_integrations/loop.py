"""The background event loop of one engine, on a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from relay_integrations.errors import EngineClosed

T = TypeVar("T")
Make = Callable[[], Coroutine[Any, Any, T]]

EXIT_WAIT_S = 5.0
"""How long a process that ends waits for what still runs: a thread inside a model then would abort it."""


class LoopThread:
    """Starts on first use, so that an engine that only waits costs nothing; a daemon, so that it never keeps a process alive.

    Attributes:
        ended: Tasks that were cancelled because the loop was closed, and for no other reason.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_error: BaseException | None = None
        self.ended: frozenset[asyncio.Task[Any]] = frozenset()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop.

        Raises:
            EngineClosed: `close` was called, or the loop belongs to a process that this one was forked from.
        """
        with self._lock:
            return self._open()

    def submit(self, make: Make[T]) -> concurrent.futures.Future[T]:
        """Runs a coroutine on the loop, from any thread.

        Raises:
            EngineClosed: See `loop`.
        """
        with self._lock:  # what is scheduled before `close` is cancelled by it; nothing is scheduled after it
            loop = self._open()
            return asyncio.run_coroutine_threadsafe(self._tracked(make), loop)

    def start(self, make: Make[None], done: Callable[[BaseException | None], None]) -> Callable[[], None]:
        """Starts a coroutine on the loop, from any thread.

        Args:
            make: Makes the coroutine.
            done: Called on the loop when it has ended, however that was, with its error; None after a cancellation too.

        Returns:
            Cancels it, from any thread; harmless when it has ended.

        Raises:
            EngineClosed: See `loop`.
        """
        tasks: list[asyncio.Task[None]] = []

        def ended(task: asyncio.Task[None]) -> None:
            done(None if task.cancelled() else task.exception())

        def begin() -> None:
            tasks.append(asyncio.get_running_loop().create_task(self._tracked(make)))
            tasks[0].add_done_callback(ended)

        def end() -> None:
            if tasks[0] in self._tasks or tasks[0].done():
                tasks[0].cancel()
            else:
                loop.call_soon(tasks[0].cancel)  # it has begun by then, and says itself how it ended

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed, and has cancelled everything
                loop.call_soon_threadsafe(end)

        with self._lock:
            loop = self._open()
            loop.call_soon_threadsafe(begin)
        return cancel

    @property
    def inside(self) -> bool:
        """Whether the caller runs on the loop's own thread, where waiting for it would never end."""
        return threading.current_thread() is self._thread

    def close(self, last: Make[None] | None = None, *, wait_s: float | None = None) -> None:
        """Cancels what runs on the loop, waits for it to end, runs `last`, and stops the thread. May be called twice.

        Args:
            last: What must still happen on the loop, when nothing else runs there any more.
            wait_s: How long to wait at most.
        """
        with self._lock:
            if self._closed:
                return
            loop = self._open() if last else self._loop
            self._closed = True
            thread, self._loop = self._thread, None
            if loop is None or thread is None or self._process != os.getpid():
                return
            loop.call_soon_threadsafe(lambda: self._tasks.add(loop.create_task(self._end(loop, last))))
        if not self.inside:
            thread.join(wait_s)
        if self._last_error is not None:
            raise self._last_error

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise EngineClosed("the engine is closed; build a new one")
        if self._loop is None:
            ready = threading.Event()
            self._loop, self._process = asyncio.new_event_loop(), os.getpid()
            self._thread = threading.Thread(target=_run, args=(self._loop, ready), name="relay-engine", daemon=True)
            self._thread.start()
            ready.wait()
            _open_loops.add(self)
        if self._process != os.getpid():
            raise EngineClosed(
                "the engine was used before this process was forked, and its thread is not here; build a new one after the fork"
            )
        return self._loop

    async def _tracked(self, make: Make[T]) -> T:
        """Holds a reference to what runs: a loop alone does not keep its tasks."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await make()
        finally:
            self._tasks.discard(task)

    async def _end(self, loop: asyncio.AbstractEventLoop, last: Make[None] | None) -> None:
        running = {task for task in self._tasks if task is not asyncio.current_task()}
        self.ended = frozenset(task for task in running if not task.cancelling())
        for task in self.ended:  # the others are ending already
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        try:
            if last is not None:
                await last()
        except Exception as e:
            self._last_error = e
        finally:
            loop.stop()

    def __del__(self) -> None:
        loop = getattr(self, "_loop", None)  # it may have been made only in part
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)


_open_loops: weakref.WeakSet[LoopThread] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for thread in list(_open_loops):
        thread.close(wait_s=EXIT_WAIT_S)


def _run(loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(ready.set)
    loop.run_forever()
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
