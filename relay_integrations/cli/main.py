"""`relay`: the terminal commands."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from relay_integrations import __version__
from relay_integrations.cli.bench import app as bench_app
from relay_integrations.cli.chat import EXAMPLES as CHAT_EXAMPLES
from relay_integrations.cli.chat import chat
from relay_integrations.cli.compare import EXAMPLES as COMPARE_EXAMPLES
from relay_integrations.cli.compare import compare
from relay_integrations.cli.demo import EXAMPLES as DEMO_EXAMPLES
from relay_integrations.cli.demo import demo
from relay_integrations.cli.guard import RelayGroup
from relay_integrations.cli.run import EXAMPLES as RUN_EXAMPLES
from relay_integrations.cli.run import run
from relay_integrations.cli.terminal import Terminal, is_unicode

EXAMPLES = """Examples:

relay demo

relay run "Mia has 55 coins. Mia loses 16. How many coins does Mia have?" --stats

relay run --large Qwen/Qwen3-8B --small Qwen/Qwen3-0.6B --device cuda "Why is the sky blue?"

echo "Hello" | relay run --json > events.jsonl

relay chat

relay compare --data mine.jsonl --grader exact

relay bench accuracy --n 20"""

app = typer.Typer(
    name="relay",
    cls=RelayGroup,
    help="A large and a small language model take turns inside one generation, and look like one model.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(show: bool) -> None:
    if show:
        typer.echo(f"relay {__version__}")
        raise typer.Exit


@app.callback()
def _relay(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", metavar="", help="Show where an error comes from.")] = False,
) -> None:
    ctx.obj = ctx.obj or Terminal()


app.command(epilog=DEMO_EXAMPLES)(demo)
app.command(epilog=RUN_EXAMPLES)(run)
app.command(epilog=CHAT_EXAMPLES)(chat)
app.command(epilog=COMPARE_EXAMPLES)(compare)
app.add_typer(bench_app, name="bench")


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not is_unicode(stream):
            stream.reconfigure(errors="replace")  # a mark that this terminal lacks is no reason to fail
    app()
