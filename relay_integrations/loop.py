"""The background event loop of one engine, on a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from relay_integrations.errors import EngineClosed

T = TypeVar("T")


class LoopThread:
    """Starts on first use, so that an engine that only waits costs nothing; a daemon, so that it never keeps a process alive.

    Attributes:
        ended: Tasks that were cancelled because the loop was closed, and for no other reason.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self.ended: frozenset[asyncio.Task[Any]] = frozenset()
        self._ending: asyncio.Task[None] | None = None  # kept, or it might be collected before it has run

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop.

        Raises:
            EngineClosed: `close` was called.
        """
        with self._lock:
            return self._open()

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise EngineClosed("the engine is closed; build a new one")
        if self._loop is None:
            ready = threading.Event()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop, ready), name="relay-engine", daemon=True)
            self._thread.start()
            ready.wait()
        return self._loop

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Runs a coroutine on the loop, from any thread.

        Raises:
            EngineClosed: `close` was called.
        """
        try:
            with self._lock:  # what is scheduled before `close` is cancelled by it; nothing is scheduled after it
                return asyncio.run_coroutine_threadsafe(coroutine, self._open())
        except EngineClosed:
            coroutine.close()
            raise

    def start(self, coroutine: Coroutine[Any, Any, None], done: Callable[[BaseException | None], None]) -> Callable[[], None]:
        """Starts a coroutine on the loop, from any thread.

        Args:
            coroutine: What to run.
            done: Called on the loop when it has ended, however that was, with its error; None after a cancellation too.

        Returns:
            Cancels it, from any thread; harmless when it has ended.

        Raises:
            EngineClosed: `close` was called.
        """
        tasks: list[asyncio.Task[None]] = []

        def ended(task: asyncio.Task[None]) -> None:
            done(None if task.cancelled() else task.exception())

        def begin() -> None:
            tasks.append(asyncio.get_running_loop().create_task(coroutine))
            tasks[0].add_done_callback(ended)

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed, and has cancelled everything
                loop.call_soon_threadsafe(lambda: tasks[0].cancel())

        try:
            with self._lock:
                loop = self._open()
                loop.call_soon_threadsafe(begin)
        except EngineClosed:
            coroutine.close()
            raise
        return cancel

    @property
    def inside(self) -> bool:
        """Whether the caller runs on the loop's own thread, where waiting for it would never end."""
        return threading.current_thread() is self._thread

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancels what runs on the loop, waits for it to end, runs `last`, and stops the thread. May be called twice.

        Args:
            last: What must still happen on the loop, when nothing else runs there any more.
        """
        with self._lock:
            if self._closed:
                return
            loop = self._open() if last else self._loop
            self._closed = True
            thread, self._loop = self._thread, None
            if loop is None or thread is None:
                return
            loop.call_soon_threadsafe(self._stop, loop, last)
        if not self.inside:
            thread.join()

    def _stop(self, loop: asyncio.AbstractEventLoop, last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        async def end() -> None:
            others = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
            self.ended = frozenset(task for task in others if not task.cancelling())
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            try:
                if last is not None:
                    await last()
            finally:
                loop.stop()

        self._ending = loop.create_task(end())

    def __del__(self) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(ready.set)
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
