"""A program judges: it gets the answer as JSON on stdin, and its exit code is the verdict."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from typing import IO

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.graders import Grade, Grader, boxed_or_whole, plain_text

TIME_LIMIT_S = 60.0

RIGHT, WRONG = 0, 1
"""Exit codes. Any other is no verdict but an error."""

_SHOWN = 500
_KEPT_BYTES = 1 << 15  # of the beginning of what a program says, and of the end
_READ_BYTES = 1 << 20
_PAUSE_S = 0.05
_DIED = "Traceback (most recent call last):"


class CommandGrader(Grader):
    r"""Runs a program for each answer, without a shell: `{"question": …, "answer": …, "reference": …}` on stdin, exit code 0 or 1.

    What it prints first is the detail of the grade. A Python program that dies of an exception ends with 1 as well; that is known by the
    traceback that it prints, and no verdict. When it is done or has taken too long, all processes that it started are ended.

    Args:
        command: The program and its arguments, quoted as for a shell; for a shell's own syntax: `sh -c '…'`.
        time_limit: Seconds for one answer; one that takes longer is wrong.

    Raises:
        ConfigError: There is no such program.
    """

    def __init__(self, command: str, time_limit: float = TIME_LIMIT_S) -> None:
        self.name = f"command:{command}"
        self._time_limit = time_limit
        self._running: set[subprocess.Popen[bytes]] = set()
        try:
            self._arguments = shlex.split(command)
        except ValueError as e:
            raise ConfigError(f"the grader's command {command!r} is not quoted as for a shell: {e}") from e
        if not self._arguments or shutil.which(self._arguments[0]) is None:
            raise ConfigError(f"the grader's command {command!r} names no program that can be run; give its path, and make it executable")

    def grade(self, answer: str, reference: str, question: str = "") -> Grade:
        """As in `Grader`.

        Raises:
            ConfigError: The program fails: an exit code other than 0 and 1, a signal, or an exception in Python.
        """
        code, said = self._judged({"question": question, "answer": answer, "reference": reference})
        found = plain_text(boxed_or_whole(answer))
        if code is None:
            return Grade(False, found, f"took longer than {self._time_limit:g} s to judge")
        failure = _failure(code, said)
        if failure is not None:
            tail = f"; it said: {said[-_SHOWN:]}" if said else ""
            raise ConfigError(f"{self.name!r} {failure}, which is no verdict: 0 is right, 1 is wrong{tail}")
        return Grade(code == RIGHT, found, said.partition("\n")[0][:_SHOWN] or f"exit code {code}")

    def close(self) -> None:
        """Ends the programs that still run, so that a caller who has stopped waiting need not wait for them."""
        for process in tuple(self._running):
            _end(process)

    def _judged(self, given: dict[str, str]) -> tuple[int | None, str]:
        """The exit code, None where the time was up, and what the program said."""
        try:
            with tempfile.TemporaryFile() as stdin:  # no pipe: a program may ignore what it is given
                stdin.write(json.dumps(given).encode())
                stdin.seek(0)
                return self._run(stdin)
        except OSError as e:
            raise ConfigError(f"the answer cannot be handed to {self.name!r}, in a file in {tempfile.gettempdir()!r}: {e}") from e

    def _run(self, stdin: IO[bytes]) -> tuple[int | None, str]:
        process = self._started(stdin)
        self._running.add(process)
        try:
            said = _listen(process, self._time_limit)
            return process.poll(), said.decode(errors="replace").strip()
        finally:  # also where Ctrl-C comes: it does not reach the program, which has a session of its own
            _end(process)
            process.wait()
            self._running.discard(process)
            assert process.stdout is not None
            process.stdout.close()

    def _started(self, stdin: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._arguments, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, start_new_session=True
            )
        except OSError as e:
            scripts = e.errno in (errno.ENOEXEC, errno.ENOENT)
            hint = "; a script begins with a line that names what runs it, e.g. #!/bin/sh" if scripts else ""
            raise ConfigError(f"{self.name!r} cannot be run: {e.strerror}{hint}") from e


def _failure(code: int, said: str) -> str | None:
    """How a program that gave no verdict ended."""
    if code < 0:
        return f"was ended by signal {-code}"
    if code not in (RIGHT, WRONG):
        return f"ended with exit code {code}"
    return "died of an exception" if code == WRONG and _DIED in said else None


def _listen(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """What a program says, until it ends or the time is up. Of much, the middle is dropped: no program may fill a disk, or the memory."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    until = time.monotonic() + seconds
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        # What it has started may keep the pipe open: whether it has ended is asked for now and then.
        while process.poll() is None and (left := until - time.monotonic()) > 0:
            if not selector.get_map():  # it has closed its output
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(left)
            elif selector.select(min(left, _PAUSE_S)):
                data = process.stdout.read(_READ_BYTES)
                said = _shortened(said + (data or b""))
                if data == b"":
                    selector.unregister(process.stdout)
    return _shortened(said + (process.stdout.read(_READ_BYTES) or b""))


def _shortened(said: bytes) -> bytes:
    return said if len(said) <= 2 * _KEPT_BYTES else said[:_KEPT_BYTES] + said[-_KEPT_BYTES:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program and all that it has started, unless they have left its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
