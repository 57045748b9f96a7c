"""Work that may never end, done in a process of its own, which is ended where it takes too long.

Some formulas and some patterns take longer than the universe has. Nothing in Python stops them: a signal reaches only a program's main
thread, and a search by a pattern lets no other thread run. A process can be ended, from any thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any, Literal

from relay_integrations.errors import ConfigError

Kind = Literal["math", "search"]
"""What a process can do; `worker_process` says how."""

_START_LIMIT_S = 120.0  # it may import sympy, which takes long on a busy machine
_PROGRAM = Path(__file__).with_name("worker_process.py")


class Worker:
    """Answers questions, one at a time; may be asked from several threads. Its process is started when it is first needed.

    Args:
        kind: What it does.
        grader: For whom, as errors name it.
    """

    def __init__(self, kind: Kind, grader: str) -> None:
        self._kind = kind
        self._grader = grader
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._closing = False

    def ask(self, *question: str, seconds: float) -> dict[str, Any]:
        """Waits for the answer to a question.

        Args:
            question: As the kind of process takes it.
            seconds: How long it may take, once the process has started.

        Raises:
            TimeoutError: It took longer.
            EOFError: The question ended the process, or the worker was closed.
            ConfigError: The process cannot be started.
        """
        with self._lock:
            for _ in range(2):  # a process that has died meanwhile is no answer; one that dies again is
                try:
                    return self._living_process().ask(question, seconds)
                except TimeoutError:
                    self._drop()
                    raise
                except (EOFError, OSError):
                    self._drop()
                except BaseException:  # Ctrl-C: what it still owes must not be taken for the answer to the next question
                    self._drop()
                    raise
        raise EOFError("the process has ended")

    def close(self) -> None:
        """Ends the process, whatever it does; a later question starts another."""
        self._closing = True
        process = self._process
        if process is not None:
            process.kill()  # who waits for its answer lets go of the lock
        with self._lock:
            self._drop()
            self._closing = False

    def _living_process(self) -> _Process:
        if self._process is not None and self._process.parent_id != os.getpid():  # after a fork it is the parent's
            self._process = None
        if self._closing:
            raise EOFError("the worker is being closed")
        if self._process is None:
            self._process = _Process(self._kind)
            try:
                self._process.begin()
            except Exception as e:
                raise ConfigError(f"the grader {self._grader!r} cannot start: {e}") from e
        return self._process

    def _drop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None


class _Process:
    """The process, and the two pipes to it. It is ended when this is dropped, and when the program ends.

    Attributes:
        parent_id: Of the process that started it.
    """

    def __init__(self, kind: Kind) -> None:
        self.parent_id = os.getpid()
        self._command = [sys.executable, "-P", str(_PROGRAM), kind]  # -P: the modules beside it must not hide those it imports
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is the caller's alone
        )
        self._read = b""
        self.stop = weakref.finalize(self, _end, self._process)

    def begin(self) -> None:
        """Waits until it can be asked.

        Raises:
            TimeoutError, EOFError: It cannot.
            ConfigError: It says why not.
        """
        try:
            started = self._answer(_START_LIMIT_S)
        except (TimeoutError, EOFError) as e:
            raise type(e)(f"{e} (its process: {shlex.join(self._command)})") from e
        if "error" in started:
            raise ConfigError(started["error"])

    def ask(self, question: tuple[str, ...], seconds: float) -> dict[str, Any]:
        """Sends a line and waits for the one that answers it.

        Raises:
            TimeoutError: None came in time.
            EOFError, OSError: The process has ended.
        """
        assert self._process.stdin is not None
        line = memoryview(json.dumps([seconds, *question]).encode() + b"\n")
        while line:
            line = line[self._process.stdin.write(line) :]
        return self._answer(seconds)

    def kill(self) -> None:
        """Ends it; who waits for its answer is told, and cleans up."""
        self._process.kill()

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise TimeoutError(f"no answer within {seconds:g} s")
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise EOFError("the process has ended")
                self._read += data
        line, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
