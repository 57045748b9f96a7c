"""How a command ends: what goes wrong becomes one line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from relay_integrations.engine import RelayWarning
from relay_integrations.errors import BackendError, RelayError

FAILED = 1
BAD_USAGE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
"""Exit codes. The last two are what a shell reports for a program that SIGINT or SIGPIPE ended."""


class RelayGroup(TyperGroup):
    """The command group `relay`."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Runs a command and leaves with its exit code."""
        extra["standalone_mode"] = False
        try:
            with _plain_warnings():
                code = super().main(*args, **extra)
        except typer.TyperException as e:
            code = _refuse(e)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> None:  # Any: typer's own Context is not public
        """Runs the command; an error of ours, or one that nobody expected, ends it with one line."""
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError as e:
            raise typer.Exit(_leave_pipe()) from e
        except Exception as e:
            if ctx.params.get("debug"):
                traceback.print_exc()
            raise typer.Exit(_explain(e)) from e


def print_error(message: str) -> None:
    """One line on stderr."""
    _print_marked("error", "bold red", message)


def print_note(message: str) -> None:
    """One line on stderr that is no complaint."""
    Console(stderr=True).print(f"note: {message}", style="dim", markup=False, highlight=False, soft_wrap=True)


def _explain(error: Exception) -> int:
    """Says what went wrong, and gives the exit code for it."""
    if isinstance(error, RelayError):
        print_error(str(error))
        return FAILED if isinstance(error, BackendError) else BAD_USAGE
    print_error(f"{type(error).__name__}: {error} (not expected: `relay --debug …` shows where it comes from)")
    return FAILED


def _refuse(error: typer.TyperException) -> int:
    """A wrong option or argument: says so, and where the help is."""
    path = getattr(getattr(error, "ctx", None), "command_path", "relay")
    if not error.format_message():  # there was no command: the help has been shown
        return BAD_USAGE
    print_error(f"{error.format_message().rstrip('.')} (`{path} --help` explains)")
    return BAD_USAGE


def _leave_pipe() -> int:
    """The reader of our output has gone: whatever is still buffered goes nowhere, quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Shows each of our own warnings as one line, once; those of others as ever."""
    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.simplefilter("default", RelayWarning)

        def showwarning(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
            if issubclass(category, RelayWarning):
                _print_marked("warning", "yellow", str(message))
            else:
                show(message, category, *rest, **options)

        warnings.showwarning = showwarning
        yield


def _print_marked(mark: str, style: str, message: str) -> None:
    console = Console(stderr=True)
    console.print(f"{mark}:", style=style, end=" ", highlight=False)
    console.print(" ".join(message.split()), markup=False, highlight=False, soft_wrap=True)
