"""`relay demo`: two real models take turns on a problem that neither has seen."""

from __future__ import annotations

import random
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from relay_integrations.cli import options
from relay_integrations.cli.answer import show_stream
from relay_integrations.cli.flow import TextFlow
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.render import CLOSE, CUE_STYLE, OPEN, ROLE_STYLES, RelayPrinter
from relay_integrations.cli.stats import print_stats, relay_stats
from relay_integrations.cli.terminal import Terminal
from relay_integrations.engine import RelayEngine
from relay_integrations.result import RelayResult
from relay_integrations.roles import ROLES, Channel
from relay_integrations.tiny import MAX_TOKENS
from relay_integrations.tiny.tasks import Problem, is_right, problems

SEEDS = 1000
"""Problems to choose from when no seed is given."""

EXAMPLES = """Examples:

relay demo

relay demo --seed 3 --steps 5

relay demo --policy random --set p=0.5

relay demo --problem "Mia has 55 coins. Mia loses 16. How many coins does Mia have?\""""


def demo(
    ctx: typer.Context,
    problem: Annotated[str | None, typer.Option(metavar="TEXT", help="A problem of your own, in the style of those it draws.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Which problem to draw. Without it: any.")] = None,
    steps: Annotated[int, typer.Option(metavar="N", min=1, max=6, help="How many operations the problem takes.")] = 3,
    policy: options.PolicyName = "relaygen",
    settings: options.Settings = None,
    cues: options.Cues = None,
) -> None:
    """Watch the tiny pair solve a problem, and see who wrote what.

    Two small trained models that ship with relay take turns on a word problem that they have never seen.
    The large one reasons; behind a switch cue the small one goes on to the end of the sentence.
    """
    terminal: Terminal = ctx.obj
    seed = random.randrange(SEEDS) if seed is None else seed
    drawn = None if problem else problems(1, seed, (steps,))[0]
    choice = ModelChoice(policy=policy, settings=settings or (), cues=cues)
    with terminal.engine(choice) as engine:
        result = show(terminal.out, engine, drawn.question if drawn else str(problem), seed)
        print_stats(terminal.out, relay_stats(result), *_verdict(drawn, result))
        if drawn:
            terminal.out.print(Text(f"\nThis problem again: relay demo --seed {seed} --steps {steps}", style="dim"))
        else:
            terminal.out.print(Text(f"\nThe pair knows word problems like this one: {problems(1, seed)[0].question}", style="dim"))


def show(out: Console, engine: RelayEngine, question: str, seed: int) -> RelayResult:
    """Streams the answer to a question."""
    marks = out.color_system is None or out.no_color
    flow = TextFlow(out)
    out.print(_head(engine, marks))
    _heading(out, "problem")
    flow.write(question)
    flow.end_line()
    printer = RelayPrinter(
        engine, reasoning=flow, answer=flow, dim_reasoning=False, marks=marks, begin=lambda channel: _heading(out, channel)
    )
    stream = engine.stream(question, seed=seed, max_tokens=MAX_TOKENS)
    show_stream(stream, printer)
    out.print()
    return stream.result


def _head(engine: RelayEngine, marks: bool) -> Text:
    """The models and the policy, each written as its text will be: the legend."""
    head = Text()
    for role in ROLES:
        capabilities = engine.backends[role].capabilities
        marked = marks and role != engine.policy.leader
        head.append(f"{role}    ").append(f"{OPEN}{capabilities.name}{CLOSE}" if marked else capabilities.name, style=ROLE_STYLES[role])
        if capabilities.parameters is not None:
            head.append(f" ({_count(capabilities.parameters)} parameters)")
        head.append("\n")
    head.append("policy   ").append(engine.policy.name)
    if getattr(engine.policy, "cues", None):
        head.append(", switch cues look like ").append("*this*" if marks else "this", style=f"{ROLE_STYLES['large']} {CUE_STYLE}")
    return head


def _heading(out: Console, name: Channel | str) -> None:
    out.print()
    out.print(Text(name, style="dim underline" if out.is_terminal else ""), end="\n" if out.is_terminal else ":\n")


def _verdict(drawn: Problem | None, result: RelayResult) -> list[tuple[str, Text]]:
    """Right or wrong, where the answer is known."""
    if drawn is None:
        return []
    verdict = Text("right", style="bold green") if is_right(drawn, result.text) else Text("wrong", style="bold red")
    return [("answer", verdict.append(f" (it is {drawn.answer})", style="not bold default"))]


def _count(parameters: int) -> str:
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if parameters >= size:
            return f"{parameters / size:.1f}{unit}" if parameters < 10 * size else f"{parameters / size:.0f}{unit}"
    return str(parameters)
