"""What the commands share: where they print, and how they come by an engine."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TextIO

from rich.console import Console

from relay_integrations.cli.models import ModelChoice, open_engine
from relay_integrations.engine import RelayEngine


class PipeConsole(Console):
    """A console that leaves a broken pipe to the caller; rich would end the program here."""

    def on_broken_pipe(self) -> None:
        """Passes the error on."""
        raise  # rich calls this while it handles the error


def is_unicode(stream: IO[str]) -> bool:
    """Whether a stream takes every character."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _console(stderr: bool = False) -> Callable[[], Console]:
    return lambda: PipeConsole(stderr=stderr, highlight=False)


@dataclass
class Terminal:
    """The surroundings of a command; the commands find it as their context's `obj`, and tests put their own there.

    Attributes:
        out: What was asked for: answers, events, tables of benches.
        err: All the rest.
        open: Opens the engine of a choice of models.
    """

    out: Console = field(default_factory=_console())
    err: Console = field(default_factory=_console(stderr=True))
    open: Callable[[ModelChoice], RelayEngine] = open_engine

    def engine(self, choice: ModelChoice) -> RelayEngine:
        """Opens an engine, and shows that this takes a moment if somebody is watching."""
        if not self.err.is_terminal:
            return self.open(choice)
        with warnings.catch_warnings(record=True) as caught, self.err.status(f"loading {choice.describe()} …"):
            engine = self.open(choice)
        for warning in caught:  # shown now: the spinner would have swallowed them
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
        return engine

    @property
    def input(self) -> TextIO:
        """Where text is read from."""
        return sys.stdin

    @property
    def interactive(self) -> bool:
        """Whether a person is typing."""
        return self.input.isatty()

    def read_line(self, prompt: str) -> str | None:
        """The next line of input, None at its end. Only a person sees the prompt, and gets line editing."""
        if self.interactive and self.out.is_terminal:
            importlib.import_module("readline")
            try:
                return input(f"\n{prompt}")
            except EOFError:
                return None
        if self.interactive:
            self.err.print(f"\n{prompt}", end="")
        return self.input.readline() or None
