"""Thousands of relays with random ends: nothing piles up."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from relay_integrations import CueProfile, GenerationError, RelayEngine
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary

pytestmark = pytest.mark.slow

TEXT = "<think>\n" + "First we add three and four to it. So, we have seven of them now. " * 12 + "\n</think>\n\nThe answer is 7."
ROUNDS, AT_ONCE = 40, 50


def faulty(chance: random.Random) -> ScriptedBackend:
    def script(so_far: str, request: GenerateRequest) -> Reply:
        fails = chance.randrange(30) if chance.random() < 0.02 else None
        del backend.requests[:], backend.rendered[:]  # a backend that remembers every request would be what piles up
        return Reply(TEXT[len(so_far) :] if TEXT.startswith(so_far) else "", chunk=chance.choice((1, 1, 3)), fail_after=fails)

    backend = ScriptedBackend(script, vocabulary=VOCABULARY)
    return backend


VOCABULARY = Vocabulary()


async def one(engine: RelayEngine, chance: random.Random) -> None:
    how, after = chance.choice(("read", "break", "cancel", "close", "result")), chance.randrange(1, 200)
    try:
        if how == "result":
            await engine.agenerate("go", seed=1)
            return
        if how == "cancel":
            task = asyncio.ensure_future(engine.agenerate("go", seed=1))
            await asyncio.sleep(chance.random() / 20)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return
        stream = engine.astream("go", seed=1)
        seen = 0
        async for _ in stream:
            seen += 1
            if how != "read" and seen >= after:
                break
        if how == "close":
            await stream.aclose()
    except GenerationError:
        pass


@pytest.fixture
def _no_log() -> Iterator[None]:
    """The test runner keeps every log record, which would be what piles up."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("_no_log")
def test_memory_tasks_threads_and_sessions_stay_flat_under_random_faults_and_cancels() -> None:
    chance = random.Random(5)
    large, small = faulty(chance), faulty(chance)
    rules = {"cool_down_after": 1000}  # a cool-down would spare the engine the work
    with RelayEngine(large, small, cue_profile=CueProfile.of("So"), on_failure=rules) as engine:

        async def crowd() -> None:
            await asyncio.gather(*(one(engine, chance) for _ in range(AT_ONCE)))
            for _ in range(1000):
                if not (large.running or small.running or large.sessions or small.sessions):
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("a relay that nobody reads goes on")

        sizes = []
        tracemalloc.start()
        for _ in range(ROUNDS):
            asyncio.run(crowd())
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert threading.active_count() <= 3
    early, late = max(sizes[5:10]), max(sizes[-5:])
    assert late < early + 100_000, f"memory grew: {[s // 1000 for s in sizes]} kB"
