"""`relay compare`: does the relay hurt the answers to your own questions?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_integrations.cli import options
from relay_integrations.cli.guard import print_note
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.progress import progress_bar
from relay_integrations.cli.terminal import Terminal
from relay_integrations.config import Prices, checked, read_options
from relay_integrations.cues.profile import CueProfile
from relay_integrations.engine import RelayEngine
from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.answers import AnswerFile
from relay_integrations.evaluation.compare import Comparison, Progress
from relay_integrations.evaluation.compare_report import compare_report
from relay_integrations.evaluation.data import find_data
from relay_integrations.evaluation.grading import ItemGraders
from relay_integrations.evaluation.named_data import NAMED
from relay_integrations.evaluation.report import print_report
from relay_integrations.policies import LargeOnly
from relay_integrations.roles import ROLES, Role

_DATA = "Data and grading"
_COST = "Prices"

_TERMINATED = 143
"""Exit code: what a shell reports for a program that SIGTERM ended."""

_DATA_HELP = f"""The data is a file with one JSON object a line: a "question" (or "prompt", or "messages", OpenAI-style) and an "answer" (or
"reference"); if you like, also "id", "family", "grader" and "tools". Or it is one of the named sets: {", ".join(NAMED)}. All but tiny
are fetched from the Hugging Face hub, once."""

_GRADER_HELP = r"""The graders: exact (the last \boxed{…}, or the whole answer, is the reference) · regex (the reference is a pattern, found
in the answer) · regex:PATTERN (what the pattern finds last is the reference) · math (the last \boxed{…} equals the reference, as
mathematics) · command:PROGRAM (gets question, answer and reference as JSON on stdin; exit code 0 is right, 1 is wrong, any other stops
the comparison, and so does an exception in Python)."""

EXAMPLES = f"""{" ".join(_DATA_HELP.split())}

{" ".join(_GRADER_HELP.split())}

Examples:

relay compare --data mine.jsonl --grader exact

relay compare --data mine.jsonl --grader "command:python judge.py" --out answers.jsonl --json > report.json

relay compare --large Qwen/Qwen3-8B --small Qwen/Qwen3-0.6B --device cuda --data math-500 --n 100 --samples 4

relay compare --data tiny --n 20 --policy random --set p=0.5

What --set can set, with its defaults:

{options.policy_settings()}"""


def compare(
    ctx: typer.Context,
    data: Annotated[
        str, typer.Option("--data", "-d", metavar="FILE|NAME", help="A JSONL file, or a named set (see below).", rich_help_panel=_DATA)
    ],
    grader: Annotated[
        str | None,
        typer.Option(
            "--grader", "-g", metavar="GRADER", help="Judges the items that name none themselves (see below).", rich_help_panel=_DATA
        ),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", "--n", metavar="N", min=1, help="So many items, drawn by --seed; else all.", rich_help_panel=_DATA)
    ] = None,
    samples: Annotated[
        int, typer.Option(metavar="K", min=1, help="Answers for each item; where they are sampled.", rich_help_panel=_DATA)
    ] = 1,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Draws the items, and repeats the generations.", rich_help_panel=_DATA)] = 0,
    concurrency: Annotated[int, typer.Option(metavar="N", min=1, help="Answers generated at once.", rich_help_panel=_DATA)] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep every answer here, one JSON object a line, as they come. The same command goes on where it was broken off; "
            "answers that failed are tried again.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    large: options.Large = None,
    small: options.Small = None,
    policy: options.PolicyName = "relaygen",
    settings: options.Settings = None,
    cues: options.Cues = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    device_map: options.DeviceMap = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    stop: options.Stop = None,
    reasoning: options.Reasoning = None,
    max_tokens: options.MaxTokens = None,
    large_token_budget: options.LargeBudget = None,
    reasoning_budget: options.ReasoningBudget = None,
    large_price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT[,CACHED]",
            help="The large model's prices per million tokens: input, output, cached input.",
            rich_help_panel=_COST,
        ),
    ] = None,
    small_price: Annotated[
        str | None, typer.Option(metavar="IN,OUT[,CACHED]", help="The small model's, alike.", rich_help_panel=_COST)
    ] = None,
    as_json: options.ReportJson = False,
) -> None:
    """The relay against the large model alone, on your own questions: how often each is right, and where they disagree.

    Where the relay alone is wrong, it says which model wrote the wrong step, as far as that can be told. Ctrl-C shows what there is.
    """
    terminal: Terminal = ctx.obj
    choice = ModelChoice(large, small, policy, settings or (), cues, device, dtype, device_map, _prices(large_price, small_price))
    choice.check()
    if isinstance(choice.make_policy(), LargeOnly):
        raise ConfigError("--policy large-only is what the relay is compared with: choose another, e.g. --policy relaygen")
    request = options.request_options(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        stop=stop or None,
        reasoning=reasoning,
        max_tokens=max_tokens,
        large_token_budget=large_token_budget,
        reasoning_budget=reasoning_budget,
    )
    read_options(**request)  # as the engine will: a mistake is found before the models are loaded
    items = find_data(data, seed, n)
    if choice.tiny:
        print_note("this is the tiny pair, which knows little more than word problems; --large and --small choose other models")
    # What can be wrong with the references and the file is found before the models are loaded.
    with ItemGraders(items, grader) as graders, _opened(out) as file, terminal.engine(choice) as engine:
        if file is not None:
            file.begin({"data": Path(data).name, "grader": grader, "seed": seed, **_describe(engine, choice), **request})
        comparison = Comparison(engine, items, graders, samples=samples, seed=seed, concurrency=concurrency, options=request, file=file)
        try:
            with progress_bar(terminal.err) as show:
                asyncio.run(_run(comparison, partial(show, "answers")))
        except asyncio.CancelledError:
            raise typer.Exit(_TERMINATED) from None
        finally:  # also where Ctrl-C or an error ends it: what there is took long to get
            _show(terminal, engine, comparison, as_json)


def _opened(out: Path | None) -> contextlib.AbstractContextManager[AnswerFile | None]:
    return contextlib.nullcontext() if out is None else AnswerFile(out)


async def _run(comparison: Comparison, progress: Progress) -> None:
    """Runs it. SIGTERM ends it as Ctrl-C does: what there is is shown, and no program of a grader is left behind."""
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await comparison.run(progress)


def _prices(large: str | None, small: str | None) -> dict[Role, Prices] | None:
    """Prices by role, if both are given."""
    given = dict(zip(ROLES, (large, small), strict=True))
    if large is None and small is None:
        return None
    read: dict[Role, Prices] = {}
    for role, text in given.items():
        if text is None:
            raise ConfigError(f"--{role}-price is missing: a cost needs the prices of both models")
        parts = text.split(",")
        if len(parts) not in (2, 3):
            raise ConfigError(f"--{role}-price {text!r} is not of the form INPUT,OUTPUT or INPUT,OUTPUT,CACHED, e.g. 0.5,1.5")
        read[role] = checked(Prices, dict(zip(("input", "output", "cached_input"), parts, strict=False)), f"--{role}-price")
    return read


def _describe(engine: RelayEngine, choice: ModelChoice) -> dict[str, Any]:
    """What the answers depend on besides the request: models, policy, cues, prices."""
    cues = getattr(engine.policy, "cues", None)
    prices = {role: price.model_dump() for role, price in engine.prices.items()}
    return {
        "large": choice.large or engine.backends["large"].capabilities.name,
        "small": choice.small or engine.backends["small"].capabilities.name,
        "policy": engine.policy.name,
        **{f"set {key}": value for key, value in engine.policy.model_dump(mode="json", exclude={"cues"}).items()},
        "cues": [cue.text for cue in cues.cues] if isinstance(cues, CueProfile) else None,
        "dtype": choice.dtype,
        "prices": prices or None,
    }


def _show(terminal: Terminal, engine: RelayEngine, comparison: Comparison, as_json: bool) -> None:
    report = compare_report(engine, comparison)
    if report is None:
        print_note("no item has been answered by both yet")
    elif as_json:
        terminal.out.file.write(json.dumps(report.to_dict()) + "\n")
    else:
        print_report(terminal.out, report)
