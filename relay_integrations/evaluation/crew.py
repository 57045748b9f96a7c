"""Solves many problems by several policies, in this process or in several."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, Self

from relay_integrations.engine import RelayEngine, RelayWarning
from relay_integrations.evaluation.solving import Outcome, solve
from relay_integrations.policies import Policy
from relay_integrations.tiny.tasks import Problem

OpenEngine = Callable[[], RelayEngine]
"""Opens the pair; a plain function or a `partial` of one, so that another process can call it."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One problem for all policies; they take turns in being first, so that a machine that slows down slows all of them.

    Attributes:
        number: Which problem.
        problem: The problem.
        policies: Who is to solve it.
        options: Options of the requests.
    """

    number: int
    problem: Problem
    policies: tuple[Policy, ...]
    options: Mapping[str, Any]

    def work(self, engine: RelayEngine) -> list[Outcome]:
        """One outcome a policy."""
        start = self.number % len(self.policies)
        order = [*range(start, len(self.policies)), *range(start)]
        solved = {i: solve(engine, self.problem, self.policies[i], self.number, self.options) for i in order}
        return [solved[i] for i in range(len(self.policies))]


class Crew:
    """Processes with an engine each; a context manager.

    Args:
        open_engine: Opens the pair.
        jobs: How many processes; 1 works in this one.
    """

    def __init__(self, open_engine: OpenEngine, jobs: int = 1) -> None:
        self._open = open_engine
        self._jobs = jobs
        self._closing = ExitStack()
        self.engine = self._closing.enter_context(open_engine())
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            self._pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_start, initargs=(open_engine,))

    def work(self, assignments: Sequence[Assignment]) -> Iterator[tuple[int, list[Outcome]]]:
        """Yields the place of each assignment with its outcomes, as they come."""
        if self._pool is None:
            for i, assignment in enumerate(assignments):
                yield i, assignment.work(self.engine)
            return
        waiting = {self._pool.submit(_work, assignment): i for i, assignment in enumerate(assignments)}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            for future in waiting:
                future.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._closing:  # also where a second Ctrl-C ends the wait
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)


_engine: RelayEngine | None = None  # of a worker process


def _start(open_engine: OpenEngine) -> None:
    global _engine
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C reaches the whole group; the parent decides what it means
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes share the cores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RelayWarning)  # the parent has shown them
        _engine = open_engine()
    atexit.register(_engine.close)


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(assignment: Assignment) -> list[Outcome]:
    if _engine is None:
        raise RuntimeError("the worker has no engine")
    return assignment.work(_engine)
