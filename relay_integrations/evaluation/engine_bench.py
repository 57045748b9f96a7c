"""What the engine itself costs: a token, a handoff, a running request, and a thousand relays at once.

The scripted backend writes; its own time is taken off (see `backend_cost`).
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import Reply, Script, ScriptedBackend, Vocabulary
from relay_integrations.cues.profile import CueProfile
from relay_integrations.engine import RelayEngine
from relay_integrations.evaluation.backend_cost import Recording, RecordingBackend, TimedBackend, bare_seconds
from relay_integrations.evaluation.machine import max_rss_mb
from relay_integrations.evaluation.report import Report
from relay_integrations.evaluation.statistics import spread
from relay_integrations.policies import LargeOnly, Policy, RelayGen, Schedule
from relay_integrations.result import RelayResult

TOKEN_AIM_MS = 0.025
HANDOFF_AIM_MS = 0.3
"""What the engine may cost."""

ROUNDS = 9
CUES = CueProfile.of("So", "Thus", "Therefore", "Okay", name="bench")
MEMORY_TOKENS = 200
CROWD_TOKENS = 120
PROMPT = "How many coins are there in the bag? " * 20

_SENTENCE = " we add the three coins to the four, which makes seven."
_CUED = " So we now have seven coins in the bag."
_SENTENCE_TOKENS = 14
_CUED_TOKENS = 10


def plain_text(tokens: int) -> str:
    """Reasoning of about so many tokens that never hands off."""
    return f"<think>\n{_SENTENCE * (tokens // _SENTENCE_TOKENS)}\n</think>\n\nSeven."


def relayed_text(tokens: int) -> str:
    """Reasoning of about so many tokens that hands off twice in 24."""
    return f"<think>\n{(_SENTENCE + _CUED) * (tokens // (_SENTENCE_TOKENS + _CUED_TOKENS))}\n</think>\n\nSeven."


@dataclass(slots=True)
class Case:
    """One thing to measure.

    Attributes:
        name: In words.
        policy: The policy.
        text: What the backends say.
        salt: Vocabulary of the small model; the same as the large one's where it is "large".
        streamed: Whether events are read one by one, or the result at once.
        seconds: Engine's own share of each round, so far.
        tokens, handoffs: Of one run.
    """

    name: str
    policy: Policy
    text: str
    salt: str = "large"
    streamed: bool = False
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    handoffs: int = 0
    _engine: RelayEngine | None = None
    _backends: tuple[TimedBackend, ...] = ()

    def prepare(self) -> None:
        """Builds the engine; the first run warms up."""
        in_pieces = isinstance(self.policy, Schedule) or self.text.count(_CUED)
        scripted = scripted_pair((lambda so_far, request: next_piece(self.text, so_far)) if in_pieces else self.text, self.salt)
        for backend in scripted:
            backend.requests = Forgetful()
        self._backends = tuple(TimedBackend(backend) for backend in scripted)
        self._engine = RelayEngine(*self._backends, policy=self.policy, cue_profile=CUES)
        usage = self._engine.generate(PROMPT, seed=1).usage
        self.tokens, self.handoffs = usage.completion_tokens, sum(usage.handoffs.values())

    def measure(self) -> None:
        """One round."""
        assert self._engine is not None
        gc.collect()
        inside = sum(backend.seconds for backend in self._backends)
        began = time.perf_counter()
        if self.streamed:
            for _ in self._engine.stream(PROMPT, seed=1):
                pass
        else:
            self._engine.generate(PROMPT, seed=1)
        whole = time.perf_counter() - began
        self.seconds.append(whole - (sum(backend.seconds for backend in self._backends) - inside))

    def close(self) -> None:
        """Ends the engine."""
        if self._engine is not None:
            self._engine.close()


class Forgetful(list[GenerateRequest]):
    """Takes the place of the list in which a scripted backend keeps its requests: their memory would be charged to the engine."""

    def append(self, request: GenerateRequest) -> None:
        """Forgets it."""


def scripted_pair(text: Script | str, salt: str = "large") -> tuple[ScriptedBackend, ScriptedBackend]:
    """A large and a small backend that say the same."""
    vocabulary = Vocabulary(salt="large")
    other = vocabulary if salt == "large" else Vocabulary(salt=salt)
    return ScriptedBackend(text, name="scripted-large", vocabulary=vocabulary), ScriptedBackend(
        text, name="scripted-small", vocabulary=other
    )


def engine_bench(n: int = 1000, progress: Callable[[str], None] = lambda text: None) -> Report:
    """Runs the bench.

    Args:
        n: Relays at once, and running requests whose memory is taken; single relays have four times as many tokens.
        progress: Told what is being measured.
    """
    rows = list(_cost_rows(4 * n, progress))
    progress("relays at once")
    rows += crowd_rows(n)
    progress("memory")
    rows.append(memory_row(n))
    return Report(
        bench="engine",
        pair={"large": "scripted-large", "small": "scripted-small"},
        backend="scripted",
        rows=rows,
        notes=(
            "The engine alone: time spent inside the backends is taken off; median and quartiles of "
            f"{ROUNDS} rounds of {4 * n} tokens, one token a chunk.",
            f"Memory: {len(PROMPT.split())} words of prompt, two handoffs in 24 tokens.",
            "At once: wall time; the backends alone are a bare loop over the same calls.",
        ),
    )


def next_piece(whole: str, so_far: str) -> Reply:
    """What follows, no longer than any segment is: encoding all the rest at each hop would cost more than the engine does."""
    end = len(so_far) + 4 * len(_SENTENCE + _CUED)
    return Reply(whole[len(so_far) : end], eos=end >= len(whole))


def _cost_rows(tokens: int, progress: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    plain, relayed = plain_text(tokens), relayed_text(tokens)
    bare = Case("one model, result at once", LargeOnly(), plain)
    watched = Case("cues watched for, result at once", RelayGen(), plain)
    streamed = Case("cues watched for, events streamed", RelayGen(), plain, streamed=True)
    relays = Case("at cues and sentence ends, one vocabulary", RelayGen(), relayed)
    foreign = Case("at cues and sentence ends, two vocabularies", RelayGen(), relayed, salt="small")
    scheduled = Case("every ten tokens, one vocabulary", Schedule(segments=(("large", 10), ("small", 10))), plain)
    cases = [bare, watched, streamed, relays, foreign, scheduled]
    try:
        for case in cases:
            case.prepare()
        for number in range(ROUNDS):
            progress(f"cost of tokens and handoffs, round {number + 1} of {ROUNDS}")
            for case in cases:
                case.measure()
    finally:
        for case in cases:
            case.close()
    for case in (bare, watched, streamed):
        yield _row(case, "ms_per_token", [1e3 * s / case.tokens for s in case.seconds], TOKEN_AIM_MS)
    for case, base in ((relays, watched), (foreign, watched), (scheduled, bare)):
        share = case.tokens / base.tokens
        extra = [s - share * without for s, without in zip(case.seconds, base.seconds, strict=True)]
        yield _row(case, "ms_per_handoff", [1e3 * s / case.handoffs for s in extra], HANDOFF_AIM_MS)


def _row(case: Case, key: str, values: list[float], aim: float) -> dict[str, Any]:
    middle, low, high = spread(values)
    row: dict[str, Any] = {"policy": case.policy.name, "case": case.name, "tokens": case.tokens}
    if key == "ms_per_handoff":
        row["handoffs"] = case.handoffs
    return {**row, key: middle, f"{key}_spread": [low, high], "aim": aim}


def memory_row(n: int) -> dict[str, Any]:
    """Memory of one of `n` running requests, by tracemalloc; the backend's own share is taken off."""
    whole = relayed_text(2 * MEMORY_TOKENS)
    limit = len(_SENTENCE + _CUED) * MEMORY_TOKENS // (_SENTENCE_TOKENS + _CUED_TOKENS)
    stalled = 0

    def script(so_far: str, request: GenerateRequest) -> Reply:
        nonlocal stalled
        if len(so_far) < limit:
            return next_piece(whole, so_far)
        stalled += 1
        return Reply("…", stall_after=0)

    async def crowd(engine: RelayEngine) -> int:
        tasks = [asyncio.create_task(engine.agenerate(PROMPT)) for _ in range(n)]
        await until(lambda: stalled == n)
        request = max((r for backend in backends for r in backend.requests), key=lambda r: len(r.ids))
        for backend in backends:  # what it keeps for tests is not the engine's
            backend.requests.clear()
            backend.rendered.clear()
        used = await _settled_memory()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not any(backend.running for backend in backends))
        del tasks
        return used - await _stalled_memory(backends[0], request, n)

    tracemalloc.start()
    try:
        backends = scripted_pair(script)
        with RelayEngine(*backends, cue_profile=CUES) as engine:
            before = tracemalloc.get_traced_memory()[0]
            used = asyncio.run(crowd(engine)) - before
    finally:
        tracemalloc.stop()
    return {"policy": "relaygen", "case": f"running requests, {MEMORY_TOKENS} tokens written", "n": n, "kib_per_request": used / n / 1024}


async def _stalled_memory(backend: ScriptedBackend, request: GenerateRequest, n: int) -> int:
    """What `n` stalled requests take in the backend alone."""
    before = await _settled_memory()
    hops = [backend.generate(request) for _ in range(n)]
    for hop in hops:
        await anext(hop)
    backend.requests.clear()
    used = await _settled_memory() - before
    for hop in hops:
        await hop.aclose()
    return used


async def _settled_memory() -> int:
    """Traced memory, once finalizers have run on every loop and it falls no further."""
    before, now = 0, tracemalloc.get_traced_memory()[0]
    while not before or now < 0.99 * before:
        await asyncio.sleep(0.5)
        gc.collect()
        before, now = now, tracemalloc.get_traced_memory()[0]
    return now


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Waits for something that happens on another thread.

    Raises:
        TimeoutError: It did not.
    """
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nobody is there to set an event
            await asyncio.sleep(0.01)


def crowd_rows(n: int) -> Iterator[dict[str, Any]]:
    """`n` relays at once, each checked to be complete and the same as one alone; and their backends in a bare loop."""
    whole = relayed_text(CROWD_TOKENS)

    def script(so_far: str, request: GenerateRequest) -> Reply:
        reply = next_piece(whole, so_far)
        reply.delay = 1e-6  # lets the others have a turn before each token
        return reply

    recording = Recording()
    with RelayEngine(*(RecordingBackend(b, recording) for b in scripted_pair(script)), cue_profile=CUES) as engine:
        wanted = engine.generate(PROMPT)
    with RelayEngine(*scripted_pair(script), cue_profile=CUES) as engine:

        async def crowd() -> tuple[float, list[RelayResult]]:
            began = time.perf_counter()
            results = await asyncio.gather(*(engine.agenerate(PROMPT) for _ in range(n)))
            return time.perf_counter() - began, results

        seconds, results = asyncio.run(crowd())
    if any((r.text, r.reasoning, r.finish_reason) != (wanted.text, wanted.reasoning, "stop") for r in results):
        raise RuntimeError("a relay in the crowd differs from one alone")
    usage = wanted.usage
    row = {"n": n, "tokens": usage.completion_tokens, "handoffs": sum(usage.handoffs.values())}
    yield _crowd_row("at once, all complete", row, seconds)
    yield _crowd_row("at once, the backends alone", row, bare_seconds(recording, n))


def _crowd_row(case: str, row: dict[str, Any], seconds: float) -> dict[str, Any]:
    return {"policy": "relaygen", "case": case, **row, "seconds": seconds, "requests_per_s": row["n"] / seconds, "max_rss_mb": max_rss_mb()}
