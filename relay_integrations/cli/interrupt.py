"""Ctrl-C while an answer streams: it takes effect between two events, so that none is written by half or twice."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Holds back Ctrl-C at will. A context manager; does nothing where Ctrl-C is not Python's to handle."""

    def __init__(self) -> None:
        self._holding = False
        self._pending = False
        self._mine = False

    def __enter__(self) -> Interrupts:
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._mine = usual and threading.current_thread() is threading.main_thread()
        if self._mine:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it Ctrl-C waits.

        Raises:
            KeyboardInterrupt: At its end, if it was pressed meanwhile.
        """
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._holding:
            raise KeyboardInterrupt
        self._pending = True
