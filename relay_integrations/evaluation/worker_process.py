"""The process of a `Worker`: it compares or searches, and is ended where that takes too long.

It is run by its path and imports nothing of this package, so that it starts fast; its argument says what it does. One line of JSON comes in
for each question: the seconds that it may take, and what is asked. One line goes out. Its first line says whether it can work at all.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, TextIO

MEMORY_BYTES = 4 << 30
"""More than any honest question takes: an absurd power must not take the machine's memory before its time is up."""

Answer = Callable[..., dict[str, Any]]


def main() -> None:
    """Answers until the input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        answer = {"math": mathematics, "search": search}[sys.argv[1]]()
    except Exception as e:
        _say(out, {"error": str(e)})
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    _say(out, {"ready": True})
    for line in sys.stdin:
        seconds, *question = json.loads(line)
        # The parent ends this process in time. Should the parent be gone, the kernel does: no Python code has to run for that.
        signal.setitimer(signal.ITIMER_REAL, 2 * seconds + 1)
        said = answer(*question)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _say(out, said)


def mathematics() -> Answer:
    """Gives what compares a reference and an answer as mathematics.

    Raises:
        ImportError: math-verify cannot be loaded; says what to do.
    """
    logging.disable(logging.CRITICAL)
    try:
        maths: Any = importlib.import_module("math_verify")
    except Exception as e:
        raise ImportError(f"math-verify cannot be loaded ({type(e).__name__}: {e}): pip install 'relay-integrations[evaluate]'") from e

    def compare(reference: str, found: str) -> dict[str, Any]:
        try:  # its own time limits are off: they would use the same alarm as ours
            gold, answer = (maths.parse(f"\\boxed{{{text}}}", parsing_timeout=None) for text in (reference, found))
            return {"equal": bool(maths.verify(gold, answer, timeout_seconds=None))}
        except Exception:  # what it cannot read equals nothing
            return {"equal": False}

    return compare


def search() -> Answer:
    """Gives what searches a text by a pattern."""

    def find(pattern: str, text: str, which: str) -> dict[str, Any]:
        if which == "first":
            match = re.search(pattern, text)
            return {"found": None if match is None else match[0]}
        last = None
        for match in re.finditer(pattern, text):
            last = match if match[0] else last  # an empty one says nothing: `\d*` finds it at every end
        if last is None:
            return {"found": None}
        return {"found": next((group for group in last.groups() if group is not None), last[0])}

    return find


def _say(out: TextIO, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
