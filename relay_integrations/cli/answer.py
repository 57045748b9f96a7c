"""Shows answers: the text on stdout, the reasoning on stderr for those who watch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from relay_integrations.chat.messages import Message
from relay_integrations.cli.flow import TextFlow
from relay_integrations.cli.guard import print_note
from relay_integrations.cli.interrupt import Interrupts
from relay_integrations.cli.render import RelayPrinter
from relay_integrations.cli.terminal import Terminal, is_unicode
from relay_integrations.engine import RelayEngine
from relay_integrations.result import RelayChoice, RelayResult
from relay_integrations.roles import Channel
from relay_integrations.stream import RelayStream


def stream_answer(terminal: Terminal, engine: RelayEngine, stream: RelayStream, show_reasoning: bool | None = None) -> RelayResult:
    """Shows a stream as text. What there is of it stays on the screen, however it ends; then it is closed.

    Args:
        terminal: Where it goes.
        engine: Whose stream it is.
        stream: The stream.
        show_reasoning: Whether the reasoning is shown; None: if somebody is watching stderr.
    """
    shown = terminal.err.is_terminal if show_reasoning is None else show_reasoning
    reasoning = TextFlow(terminal.err) if shown else None

    def begin(channel: Channel) -> None:
        if channel == "answer" and reasoning is not None and reasoning.used and terminal.out.is_terminal:
            terminal.out.print()

    printer = RelayPrinter(engine, reasoning=reasoning, answer=TextFlow(terminal.out), begin=begin)
    show_stream(stream, printer)
    result = stream.result
    print_tool_calls(terminal.out, result.choices[0])
    if result.finish_reason == "length":
        print_note("it ended at the limit of tokens" + ("" if result.text else ", before an answer began"))
    elif result.stop_sequence is not None and not result.text:
        print_note(f"the stop sequence {result.stop_sequence!r} came before an answer began")
    return result


def show_stream(stream: RelayStream, printer: RelayPrinter) -> None:
    """Shows the events of a stream until it ends, fails or is interrupted, and closes it."""
    with Interrupts() as interrupts, stream:
        try:
            for event in stream:
                with interrupts.held():
                    printer.handle(event)
        finally:
            printer.finish()


def print_answers(
    terminal: Terminal, engine: RelayEngine, messages: Sequence[Message], request: Mapping[str, Any], show_reasoning: bool | None = None
) -> RelayResult:
    """Waits for several answers and prints one after the other, each under its number."""
    result = engine.generate(messages, **request)
    for choice in result.choices:
        terminal.out.print(f"--- {choice.index + 1} of {len(result.choices)} ---", style="dim")
        if show_reasoning and choice.reasoning:
            _print(terminal.err, choice.reasoning)
        _print(terminal.out, choice.text)
        print_tool_calls(terminal.out, choice)
    return result


def print_events(terminal: Terminal, engine: RelayEngine, messages: Sequence[Message], request: Mapping[str, Any]) -> RelayResult:
    """Writes every event as a line of JSON, as it happens."""
    out = terminal.out.file
    with engine.stream(messages, **request) as stream:
        for event in stream:
            out.write(json.dumps(event.to_dict(), ensure_ascii=not is_unicode(out)) + "\n")
            out.flush()
    return stream.result


def print_tool_calls(out: Console, choice: RelayChoice) -> None:
    """Writes each tool call as a line of JSON."""
    for call in choice.tool_calls:
        _print(out, json.dumps(call.model_dump(), ensure_ascii=not is_unicode(out.file)))


def _print(console: Console, text: str) -> None:
    flow = TextFlow(console)
    flow.write(text)
    flow.end_line()
