"""`relay chat`: a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from relay_integrations.chat.messages import Message
from relay_integrations.cli import options
from relay_integrations.cli.answer import stream_answer
from relay_integrations.cli.guard import FAILED, print_error, print_note
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.stats import print_stats, relay_stats, stats_line
from relay_integrations.cli.terminal import Terminal
from relay_integrations.engine import RelayEngine
from relay_integrations.errors import PromptTooLong, RelayError
from relay_integrations.result import RelayResult
from relay_integrations.stream import RelayStream

HELP = "/reset forgets the conversation · /stats shows who wrote the last answer · /quit (or Ctrl-D) leaves · Ctrl-C stops an answer"

EXAMPLES = f"""In the conversation: {HELP}

Examples:

relay chat

relay chat --large Qwen/Qwen3-8B --small Qwen/Qwen3-0.6B --device cuda --system "Answer briefly."

printf 'Mia has 55 coins. Mia loses 16. How many coins does Mia have?\\n' | relay chat --hide-reasoning"""


def chat(
    ctx: typer.Context,
    system: options.System = None,
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
    seed: options.Seed = None,
    reasoning: options.Reasoning = None,
    max_tokens: options.MaxTokens = None,
    large_token_budget: options.LargeBudget = None,
    reasoning_budget: options.ReasoningBudget = None,
    show_reasoning: options.ShowReasoning = None,
) -> None:
    """Have a conversation.

    Every line is a message; with text piped in, each line is answered in turn, and only answers go to stdout.
    """
    terminal: Terminal = ctx.obj
    choice = ModelChoice(large, small, policy, settings or (), cues, device, dtype, device_map)
    choice.check()
    request = options.request_options(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=seed,
        reasoning=reasoning,
        max_tokens=max_tokens,
        large_token_budget=large_token_budget,
        reasoning_budget=reasoning_budget,
    )
    if choice.tiny:
        print_note("the tiny pair answers one word problem at a time (/reset between); --large and --small choose others")
    with terminal.engine(choice) as engine:
        conversation = Conversation(terminal, engine, request, system=system, show_reasoning=show_reasoning)
        conversation.run()
    if conversation.failed and not terminal.interactive:
        raise typer.Exit(FAILED)


class Conversation:
    """Reads lines and answers them until there are no more.

    Attributes:
        messages: The conversation so far.
        failed: Whether any answer failed.
    """

    def __init__(
        self,
        terminal: Terminal,
        engine: RelayEngine,
        request: Mapping[str, Any],
        *,
        system: str | None = None,
        show_reasoning: bool | None = None,
    ) -> None:
        self._terminal = terminal
        self._engine = engine
        self._request = request
        self._system = [] if system is None else [Message(role="system", content=system)]
        self._show_reasoning = show_reasoning
        self._last: RelayResult | None = None
        self.messages = list(self._system)
        self.failed = False

    def run(self) -> None:
        """Goes on until the end of the input or /quit."""
        if self._terminal.interactive:
            print_note(HELP)
        while (line := self._next_line()) is not None:
            match line.strip():
                case "":
                    pass
                case "/quit" | "/exit":
                    return
                case "/reset":
                    self.messages = list(self._system)
                    print_note("the conversation begins anew")
                case "/stats":
                    self._print_stats()
                case text if text.startswith("/"):
                    print_note(HELP)
                case _:
                    self._answer(line.rstrip("\n"))

    def _next_line(self) -> str | None:
        """The next line, None at the end. Ctrl-C at the prompt gives up what was typed, as in a shell."""
        while True:
            try:
                return self._terminal.read_line("you: ")
            except KeyboardInterrupt:
                if not self._terminal.interactive:
                    raise
                self._terminal.err.print()

    def _answer(self, text: str) -> None:
        """Answers a message. One that comes to nothing is taken back, so that it can be sent again."""
        asked = [*self.messages, Message(role="user", content=text)]
        try:
            stream = self._engine.stream(asked, **self._request)
            self._show(stream)
        except RelayError as e:
            self.failed = True
            print_error(f"{e} (/reset forgets the conversation)" if isinstance(e, PromptTooLong) else str(e))
            return
        self._last = stream.result
        if self._last.text:
            self.messages = [*asked, self._last.choices[0].to_message()]

    def _show(self, stream: RelayStream) -> None:
        try:
            result = stream_answer(self._terminal, self._engine, stream, self._show_reasoning)
        except KeyboardInterrupt:
            if not self._terminal.interactive:
                raise
            print_note("stopped")
        else:
            if self._terminal.interactive:
                print_note(stats_line(relay_stats(result)))

    def _print_stats(self) -> None:
        if self._last is None:
            print_note("there is no answer yet")
        else:
            print_stats(self._terminal.err, relay_stats(self._last))
