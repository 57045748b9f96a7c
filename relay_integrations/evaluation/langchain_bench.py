"""What the LangChain chat model costs on top of the engine, for each chunk of a stream.

The same scripted pair writes the same text, once through the engine and once through the chat model, in turns; what is shown is the
difference.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from relay_integrations.engine import RelayEngine
from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.engine_bench import CUES, PROMPT, Forgetful, next_piece, relayed_text, scripted_pair
from relay_integrations.evaluation.report import Report
from relay_integrations.evaluation.statistics import spread

if TYPE_CHECKING:
    from langchain_relay import ChatRelay

CHUNK_AIM_MS = 0.2
"""What a chunk may cost."""

ROUNDS = 15

Read = Callable[[], int]
"""Reads one whole answer and says in how many pieces it came."""


@dataclass(slots=True)
class Case:
    """Two ways to the same answer.

    Attributes:
        name: In words.
        through: The answer through the chat model.
        without: The same from the engine.
        aim: What a chunk may cost more, in ms.
        milliseconds: How much more a chunk took in each round so far.
        chunks: Of one answer.
    """

    name: str
    through: Read
    without: Read
    aim: float | None = None
    milliseconds: list[float] = field(default_factory=list)
    chunks: int = 0

    def measure(self) -> None:
        """One round."""
        without, _ = _timed(self.without)
        through, self.chunks = _timed(self.through)
        self.milliseconds.append(1e3 * (through - without) / self.chunks)

    def row(self, handoffs: int) -> dict[str, Any]:
        """What was found."""
        cost = spread(self.milliseconds)
        row: dict[str, Any] = {"policy": "relaygen", "case": self.name, "n": len(self.milliseconds), "tokens": self.chunks}
        row |= {"handoffs": handoffs, "ms_per_token": cost.median, "ms_per_token_spread": [cost.low, cost.high]}
        return row if self.aim is None else {**row, "aim": self.aim}


def langchain_bench(n: int = 1000, progress: Callable[[str], None] = lambda text: None) -> Report:
    """Runs the bench.

    Args:
        n: About how many tokens an answer has; each is a chunk.
        progress: Told what is being measured.

    Raises:
        ConfigError: LangChain is not installed.
    """
    try:
        from langchain_core.callbacks import BaseCallbackHandler

        from langchain_relay import ChatRelay
    except ImportError as e:
        raise ConfigError(f"this bench needs {e.name or e}: pip install 'relay-integrations[langchain]'") from e

    text = relayed_text(n)
    backends = scripted_pair(lambda so_far, request: next_piece(text, so_far))
    for backend in backends:
        backend.requests = Forgetful()
    with RelayEngine(*backends, cue_profile=CUES) as engine:
        cases = _cases(engine, ChatRelay(engine=engine, seed=1), BaseCallbackHandler())
        handoffs = sum(engine.generate(PROMPT, seed=1).usage.handoffs.values())
        for case in cases:  # warms up
            case.through()
            case.without()
        for number in range(ROUNDS):
            progress(f"round {number + 1} of {ROUNDS}")
            for case in cases:
                case.measure()
    return Report(
        bench="langchain",
        pair={"large": "scripted-large", "small": "scripted-small"},
        backend="scripted",
        rows=[case.row(handoffs) for case in cases],
        notes=(
            "What a chunk (one token each) takes through ChatRelay more than from the engine, the two in turns: median and quartiles of "
            f"{ROUNDS} rounds. Most of it is LangChain's own: a message and a generation made for each chunk.",
        ),
    )


def _cases(engine: RelayEngine, model: ChatRelay, handler: Any) -> list[Case]:
    async def through() -> int:
        return sum([1 async for _ in model.astream(PROMPT)])

    async def without() -> int:
        return sum([1 async for _ in engine.astream(PROMPT, seed=1)])

    def streamed() -> int:
        return sum(1 for _ in engine.stream(PROMPT, seed=1))

    listened: Any = {"callbacks": [handler]}
    return [
        Case("stream, nobody listens", lambda: sum(1 for _ in model.stream(PROMPT)), streamed, CHUNK_AIM_MS),
        Case("astream, nobody listens", lambda: asyncio.run(through()), lambda: asyncio.run(without()), CHUNK_AIM_MS),
        Case("stream, a handler listens", lambda: sum(1 for _ in model.stream(PROMPT, listened)), streamed),
    ]


def _timed(read: Read) -> tuple[float, int]:
    gc.collect()
    began = time.perf_counter()
    pieces = read()
    return time.perf_counter() - began, pieces
