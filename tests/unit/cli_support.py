"""What the tests of the terminal share: a terminal whose models are scripted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner, Result

from relay_integrations import CueProfile, RelayEngine
from relay_integrations.backends.scripted import ScriptedBackend, Vocabulary
from relay_integrations.cli.main import app
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.terminal import Terminal
from tests.unit.support import CUES, MATHS, eventually

ANSWER = "The answer is 7.5."
REASONING = "First we add 3.5 and 4. So, Mia now has 7.5 coins. Then we go on with it. Thus we know it."
ESCAPE = "\x1b"


class Bench:
    """A terminal whose models are scripted; remembers what was asked of it."""

    def __init__(self, script: Any = MATHS, small: Any = None, *, constraints: bool = False) -> None:
        self._constraints = constraints
        self.choices: list[ModelChoice] = []
        self.engines: list[RelayEngine] = []
        self._scripts = (script, script if small is None else small)

    def open(self, choice: ModelChoice) -> RelayEngine:
        self.choices.append(choice)
        vocabulary = Vocabulary()
        pair = [
            ScriptedBackend(script, name=name, vocabulary=vocabulary, constraints=self._constraints)
            for script, name in zip(self._scripts, ("big", "tiny"), strict=True)
        ]
        self.engines.append(RelayEngine(*pair, policy=choice.make_policy(), cue_profile=choice.cues or CueProfile.of(*CUES)))
        return self.engines[-1]

    def run(self, *args: str, input: str | None = None, terminal: Terminal | None = None) -> Result:
        return CliRunner().invoke(app, args, input=input, obj=terminal or Terminal(open=self.open))

    @property
    def asked(self) -> list[list[tuple[str, str]]]:
        """The conversations that the large model was given."""
        large = self.engines[0].backends["large"]
        assert isinstance(large, ScriptedBackend)
        return [[(m.role, m.content) for m in messages] for messages, _, _ in large.rendered]


def failing(error: Exception) -> Callable[[ModelChoice], RelayEngine]:
    def fail(choice: ModelChoice) -> RelayEngine:
        raise error

    return fail


def interrupt_when_shown(text: str) -> None:
    """Presses Ctrl-C as soon as a text is on stdout, as a person does."""
    main = threading.main_thread().ident
    assert main is not None

    def press() -> None:
        if eventually(lambda: text.encode() in getattr(sys.stdout.buffer, "getvalue", bytes)()):  # the runner's, once it has begun
            signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
