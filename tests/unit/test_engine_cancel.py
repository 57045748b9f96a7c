"""Leaving a generation early, in every way there is: the running model stops, no other starts, nothing more is counted."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator

import pytest

from relay_integrations import (
    EngineClosed,
    GenerationError,
    RelayEngine,
    RelayFailed,
    RelayResult,
    RelayStream,
    SegmentFinished,
    SegmentStarted,
    TextDelta,
    fold,
)
from relay_integrations.backends.scripted import Reply
from tests.unit.support import backend, eventually, read_to_error, relay, requests, running, turns

LARGE = "<think>We think a while. So,"
SMALL = " it is done and"


@pytest.fixture
def held() -> Iterator[RelayEngine]:
    """A relay whose small model falls silent in the middle of segment 2."""
    with relay([LARGE], [Reply(SMALL + " done.", stall_after=4)]) as engine:
        yield engine


def read_to_the_silence(stream: RelayStream) -> None:
    while stream.result.reasoning != LARGE.removeprefix("<think>") + SMALL:
        next(stream)


def let_go(engine: RelayEngine) -> bool:
    """Whether both backends have been let go of, and stay so."""
    return eventually(lambda: running(engine) == 0 and not backend(engine, "large").sessions and not backend(engine, "small").sessions)


def check_partial(result: RelayResult) -> None:
    assert turns(result) == [("large", LARGE), ("small", SMALL)]
    assert [segment.cause for segment in result.segments] == ["cue", "cancelled"]
    assert result.finish_reason == "cancelled"
    assert result.usage.small_tokens == 4
    assert result.usage.completion_tokens == sum(segment.tokens for segment in result.segments)
    assert result.usage.requests == 2


def test_close_stops_the_running_model_and_starts_no_other(held: RelayEngine) -> None:
    stream = held.stream("hi", seed=1)
    read_to_the_silence(stream)
    stream.close()
    assert running(held) == 0
    assert let_go(held)
    assert requests(held) == 2
    check_partial(stream.result)


def test_usage_counts_nothing_after_a_cancel() -> None:
    with relay([LARGE], [Reply(" it" * 100_000)]) as engine:
        stream = engine.stream("hi", seed=1)
        for event in stream:
            if isinstance(event, SegmentStarted) and event.role == "small":
                break
        stream.close()
        generated = backend(engine, "small").generated
        assert generated < 100_000
        assert stream.result.usage.small_tokens <= generated
        threading.Event().wait(0.02)
        assert backend(engine, "small").generated == generated
        assert requests(engine) == 2


def test_leaving_a_context_manager_closes(held: RelayEngine) -> None:
    with held.stream("hi", seed=1) as stream:
        read_to_the_silence(stream)
    assert running(held) == 0
    check_partial(stream.result)


def test_a_break_that_drops_the_stream_closes(held: RelayEngine) -> None:
    for event in held.stream("hi", seed=1):
        if isinstance(event, TextDelta) and event.role == "small":
            break
    gc.collect()
    assert let_go(held)
    assert requests(held) == 2


def test_closing_twice_or_at_once_is_harmless(held: RelayEngine) -> None:
    stream = held.stream("hi", seed=1)
    stream.close()
    stream.close()
    assert list(stream) == []
    assert let_go(held)


def test_a_stream_can_be_closed_from_another_thread(held: RelayEngine) -> None:
    stream = held.stream("hi", seed=1)
    read_to_the_silence(stream)
    threading.Thread(target=stream.close).start()
    assert let_go(held)


def test_aclose_stops_the_running_model(held: RelayEngine) -> None:
    async def main() -> RelayResult:
        stream = held.astream("hi", seed=1)
        async for event in stream:
            if isinstance(event, TextDelta) and event.text == " and":
                break
        await stream.aclose()
        assert running(held) == 0
        await stream.aclose()
        return stream.result

    check_partial(asyncio.run(main()))
    assert let_go(held)


def test_leaving_an_async_context_manager_closes(held: RelayEngine) -> None:
    async def main() -> RelayResult:
        async with held.astream("hi", seed=1) as stream:
            async for event in stream:
                if isinstance(event, TextDelta) and event.text == " and":
                    break
        assert running(held) == 0
        return stream.result

    check_partial(asyncio.run(main()))


@pytest.mark.parametrize("how", ["stream", "agenerate"])
def test_cancelling_the_callers_task_stops_the_running_model(held: RelayEngine, how: str) -> None:
    async def consume() -> None:
        if how == "agenerate":
            await held.agenerate("hi", seed=1)
        async for _ in held.astream("hi", seed=1):
            pass

    async def main() -> None:
        task = asyncio.ensure_future(consume())
        await asyncio.to_thread(eventually, lambda: backend(held, "small").running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert let_go(held)
    assert requests(held) == 2


def test_a_timeout_stops_the_running_model(held: RelayEngine) -> None:
    async def main() -> None:
        async with asyncio.timeout(0.05):
            await held.agenerate("hi", seed=1)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert let_go(held)


def test_an_event_loop_that_ends_with_an_open_stream_stops_the_running_model(held: RelayEngine) -> None:
    async def main() -> None:
        stream = held.astream("hi", seed=1)
        await anext(stream)

    asyncio.run(main())
    gc.collect()
    assert let_go(held)


def test_all_choices_stop_together() -> None:
    with relay([Reply("a b c", stall_after=1)], policy="large-only") as engine:
        stream = engine.stream("hi", n=4, seed=1)
        assert eventually(lambda: running(engine) == 4)
        stream.close()
        assert running(engine) == 0
        assert let_go(engine)
    assert [choice.finish_reason for choice in stream.result.choices] == ["cancelled"] * 4


def test_every_segment_that_started_has_its_end(held: RelayEngine) -> None:
    stream = held.stream("hi", seed=1)
    events = []
    for event in stream:
        events.append(event)
        if isinstance(event, TextDelta) and event.text == " and":
            break
    held.close()
    events.extend(read_to_error(stream)[0])
    assert (
        [e.index for e in events if isinstance(e, SegmentStarted)] == [e.index for e in events if isinstance(e, SegmentFinished)] == [0, 1]
    )
    assert isinstance(events[-1], RelayFailed)
    check_partial(fold(events))


# --- closing the engine


def test_closing_the_engine_stops_what_runs(held: RelayEngine) -> None:
    stream = held.stream("hi", seed=1)
    read_to_the_silence(stream)
    held.close()
    assert let_go(held)
    assert requests(held) == 2
    with pytest.raises(GenerationError, match="engine was closed") as caught:
        list(stream)
    assert caught.value.partial is not None
    check_partial(caught.value.partial)


@pytest.mark.parametrize("call", [lambda engine: engine.generate("hi", seed=1), lambda engine: asyncio.run(engine.agenerate("hi", seed=1))])
def test_who_waits_for_a_closed_engine_gets_an_error_with_all_so_far(held: RelayEngine, call: Callable[[RelayEngine], object]) -> None:
    threading.Thread(target=lambda: eventually(lambda: backend(held, "small").generated == 4) and held.close()).start()
    with pytest.raises(GenerationError, match="engine was closed") as caught:
        call(held)
    assert caught.value.partial is not None
    check_partial(caught.value.partial)
    assert let_go(held)


def test_backends_are_closed_only_when_nothing_runs_on_them_any_more() -> None:
    with relay([Reply("a b c", stall_after=1)], policy="large-only", owns_backends=True) as engine:
        large = backend(engine, "large")
        still_running: list[int] = []

        async def aclose() -> None:
            still_running.append(large.running)

        large.aclose = aclose  # type: ignore[method-assign]
        stream = engine.stream("hi", seed=1)
        assert eventually(lambda: large.generated == 1)
    assert still_running == [0]
    with pytest.raises(GenerationError):
        list(stream)


def test_a_closed_engine_says_so() -> None:
    engine = relay("a")
    engine.close()
    engine.close()
    for call in (engine.generate, engine.stream, engine.astream):
        with pytest.raises(EngineClosed, match="build a new one"):
            call("hi")
    with pytest.raises(EngineClosed):
        asyncio.run(engine.agenerate("hi"))


def test_an_engine_can_be_closed_without_blocking_the_callers_loop(held: RelayEngine) -> None:
    async def main() -> None:
        stream = held.astream("hi", seed=1)
        await anext(stream)
        await held.aclose()
        with pytest.raises(GenerationError):
            async for _ in stream:
                pass

    asyncio.run(main())
    assert let_go(held)


def test_an_engine_that_is_dropped_stops_its_thread() -> None:
    before = threading.active_count()
    engine = relay("a b")
    engine.generate("hi")
    assert threading.active_count() == before + 1
    del engine
    gc.collect()
    assert eventually(lambda: threading.active_count() == before)
