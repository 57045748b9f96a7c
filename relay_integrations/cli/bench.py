"""`relay bench`: measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from relay_integrations.cli import options
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.terminal import Terminal
from relay_integrations.evaluation.report import Report, print_report
from relay_integrations.tiny.task import HELD_OUT_SEED

app = typer.Typer(no_args_is_help=True, help="Measure: what the engine costs, how often each policy is right.")

ENGINE_EXAMPLES = """Examples:

relay bench engine

relay bench engine --n 100 --json"""

ACCURACY_EXAMPLES = """A hundred problems take five to ten minutes on two CPU cores.

Examples:

relay bench accuracy

relay bench accuracy --n 20 --json > accuracy.json"""


@app.command(epilog=ENGINE_EXAMPLES)
def engine(
    ctx: typer.Context,
    n: Annotated[
        int, typer.Option("-n", "--n", metavar="N", min=10, help="Requests at once; single relays have four times as many tokens.")
    ] = 1000,
    as_json: options.ReportJson = False,
) -> None:
    """What the engine costs a token, a handoff and a running request, and a thousand relays at once.

    Needs no model: scripted backends write, and their own cost is subtracted.
    """
    from relay_integrations.evaluation.engine_bench import engine_bench

    terminal: Terminal = ctx.obj
    with _status(terminal.err) as say:
        report = engine_bench(n, progress=say)
    _show(terminal, report, as_json)


@app.command(epilog=ACCURACY_EXAMPLES)
def accuracy(
    ctx: typer.Context,
    n: Annotated[int, typer.Option("-n", "--n", metavar="N", min=1, help="Number of problems.")] = 100,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of the problems; the default's were never trained or chosen on.")
    ] = HELD_OUT_SEED,
    as_json: options.ReportJson = False,
) -> None:
    """How often each policy of the tiny pair is right on held-out problems, and at what cost.

    RelayGen stands beside each model alone, all candidate cues, and random delegation at the same share.
    """
    from relay_integrations.evaluation.accuracy import accuracy_bench

    terminal: Terminal = ctx.obj
    with terminal.engine(ModelChoice()) as relay, _status(terminal.err) as say:
        report = accuracy_bench(relay, n, seed, progress=lambda what, share: say(f"{what} ({100 * share:.0f} %)"))
    _show(terminal, report, as_json)


@contextmanager
def _status(err: Console) -> Iterator[Callable[[str], None]]:
    """Says on a terminal what is going on."""
    if not err.is_terminal:
        yield lambda text: None
        return
    with err.status("starting …", speed=0.5, refresh_per_second=2) as status:  # seldom: it takes time from what is measured
        yield lambda text: status.update(text)


def _show(terminal: Terminal, report: Report, as_json: bool) -> None:
    if as_json:
        terminal.out.file.write(json.dumps(report.to_dict()) + "\n")
    else:
        print_report(terminal.out, report)
