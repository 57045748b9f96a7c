"""`relay bench`: measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from relay_integrations.cli import options
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.progress import progress_bar
from relay_integrations.cli.terminal import Terminal
from relay_integrations.evaluation.accuracy import BASELINES, FAMILY_NAMES, TURNS, AccuracySettings, Interrupted, WorkerDied, accuracy_bench
from relay_integrations.evaluation.plot import check_plot, plot_accuracy
from relay_integrations.evaluation.report import Report, print_report
from relay_integrations.tiny import OTHER_SMALL

app = typer.Typer(no_args_is_help=True, help="Measure: what the engine costs, how often each policy is right.")

ENGINE_EXAMPLES = """Examples:

relay bench engine

relay bench engine --n 100 --json"""

LANGCHAIN_EXAMPLES = """Examples:

relay bench langchain

relay bench langchain --n 100 --json"""

ACCURACY_EXAMPLES = f"""A hundred problems take about seven minutes on a CPU core (--jobs 2: four).

Examples:

relay bench accuracy

relay bench accuracy --n 500 --temperature 0.6 --jobs 2 --json > accuracy.json

relay bench accuracy --family queues --cues tiny-queues --plot queues.png

relay bench accuracy --family calculator --family retrieval --policy large-only --policy relaygen

relay bench accuracy --family calculator --turns large --turns small --turns rule

relay bench accuracy --small {OTHER_SMALL}"""


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


@app.command(epilog=LANGCHAIN_EXAMPLES)
def langchain(
    ctx: typer.Context,
    n: Annotated[int, typer.Option("-n", "--n", metavar="N", min=10, help="Tokens of an answer; each is a chunk.")] = 1000,
    as_json: options.ReportJson = False,
) -> None:
    """What LangChain's chat model costs on top of the engine, a chunk. Needs the extra langchain, and no model."""
    from relay_integrations.evaluation.langchain_bench import langchain_bench

    terminal: Terminal = ctx.obj
    with _status(terminal.err) as say:
        report = langchain_bench(n, progress=say)
    _show(terminal, report, as_json)


@app.command(epilog=ACCURACY_EXAMPLES)
def accuracy(
    ctx: typer.Context,
    n: Annotated[int, typer.Option("-n", "--n", metavar="N", min=1, help="Problems of each family.")] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the problems; any seed's were never trained or chosen on.")] = 0,
    family: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"What to solve; may be repeated. One of: {', '.join(FAMILY_NAMES)}. Without it: amounts."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Who is to solve it; may be repeated. Without it: {', '.join(BASELINES)}."),
    ] = None,
    turns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Who writes relaygen's answers and tool calls; may be repeated. One of: {', '.join(TURNS)}. Without it: rule.",
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Without it, or with 0: greedy.", rich_help_panel="Generation")
    ] = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    large: options.Large = None,
    small: options.Small = None,
    cues: options.Cues = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    device_map: options.DeviceMap = None,
    max_tokens: options.MaxTokens = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that share the work; at most one a core.")] = 1,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw accuracy against utilisation: .png, .svg or .pdf.")] = None,
    as_json: options.ReportJson = False,
) -> None:
    """How often each policy is right on the tiny models' test problems, and at what cost.

    Other models (--large, --small) are told in a system prompt to box their answers. RelayGen stands beside each model alone, all
    candidate cues, and random delegation at the same share. Ctrl-C shows what there is.
    """
    terminal: Terminal = ctx.obj
    choice = ModelChoice(large=large, small=small, cues=cues, device=device, dtype=dtype, device_map=device_map)
    choice.check()
    settings = AccuracySettings(
        n=n,
        seed=seed,
        families=tuple(dict.fromkeys(family or ("amounts",))),
        policies=tuple(dict.fromkeys(policy or BASELINES)),
        turns=tuple(dict.fromkeys(turns or ())),
        options=options.request_options(temperature=temperature, top_p=top_p, top_k=top_k, max_tokens=max_tokens),
        jobs=jobs,
        tiny=choice.tiny,
    )
    settings.check()
    if plot is not None:
        check_plot(plot)
    try:
        with progress_bar(terminal.err) as show:
            report = accuracy_bench(partial(terminal.open, choice), settings, show)
    except (Interrupted, WorkerDied) as e:
        if e.report is not None:
            _show(terminal, e.report, as_json)
        raise
    _show(terminal, report, as_json)
    if plot is not None:
        plot_accuracy(report, plot)


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
