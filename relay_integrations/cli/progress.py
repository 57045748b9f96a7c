"""A progress bar for long commands, on a terminal only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SPEED_OVER_S = 3600.0
"""An answer may take minutes: the time left is told from all that came in the last hour."""


@contextlib.contextmanager
def progress_bar(err: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function that is told what is being done, how much of it is done, and of how much."""
    if not err.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # Drawn seldom: it takes time from what is measured.
    with Progress(*columns, console=err, transient=True, refresh_per_second=2, speed_estimate_period=_SPEED_OVER_S) as progress:
        task = progress.add_task("starting", total=None)
        shown = ""

        def show(what: str, done: int, total: int) -> None:
            nonlocal shown
            if what != shown:
                progress.reset(task, description=what, completed=done, total=total)
                shown = what
            progress.update(task, completed=done, total=total)

        yield show
