"""Leaving early: both models stop, no other segment starts, every span is closed, and the caller's loop is never blocked."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage

from llamaindex_relay import Relay
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import Reply, Vocabulary
from tests.unit.llamaindex_support import HI, Recorder, llm, recorded, stopped
from tests.unit.support import MATHS, backend, eventually, requests, running

IN_SEGMENT_2 = "<think>\nFirst we add 3.5 and 4. So, Mia"


def held(**settings: Any) -> Relay:
    """An LLM that says `MATHS` up to the middle of its second segment, and then nothing more."""

    def script(so_far: str, request: GenerateRequest) -> Reply:
        before = len(Vocabulary().pieces(IN_SEGMENT_2[len(so_far) :]))
        return Reply(MATHS[len(so_far) :], stall_after=before)

    return llm(script, **settings)


async def reached(model: Relay) -> None:
    """Waits until the second segment has begun."""
    engine = model.engine
    assert engine is not None
    assert await asyncio.to_thread(eventually, lambda: requests(engine) == 2 and running(engine) == 1)


def assert_left(model: Relay, told: Recorder, state: str) -> None:
    """Both models have stopped in segment 2, and all spans are closed, those of the relay in this state."""
    assert eventually(lambda: stopped(model))
    assert model.engine is not None
    assert requests(model.engine) == 2
    assert eventually(lambda: told.all_closed_once)
    states = {span.name: span.state for span in told.spans if span.name.startswith("relay")}
    assert states["relay"] == states["relay:small"] == state
    assert told.reasons == ["cue"]


@pytest.fixture(params=["summary", "all", "none"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


def _sync(model: Relay, way: str) -> Any:
    return model.stream_chat(HI) if way == "stream_chat" else model.stream_complete("hi")


async def _async(model: Relay, way: str) -> Any:
    return await (model.astream_chat(HI) if way == "astream_chat" else model.astream_complete("hi"))


def mia(piece: Any) -> bool:
    """Whether a piece is of the second segment."""
    return "Mia" in piece.additional_kwargs.get("thinking_delta", "")


SYNC, ASYNC = ("stream_chat", "stream_complete"), ("astream_chat", "astream_complete")


@pytest.mark.parametrize("way", SYNC)
def test_break_stops_both_models_and_closes_all_spans(way: str) -> None:
    model = held()
    with recorded() as told:
        for piece in _sync(model, way):
            if mia(piece):
                break
        assert_left(model, told, "exited")


@pytest.mark.parametrize("way", SYNC)
def test_when_a_stream_is_closed_the_models_have_stopped(way: str, mode: str) -> None:
    model = held(trace_segments=mode)
    with recorded() as told:
        with closing(_sync(model, way)) as stream:
            while not mia(next(stream)):
                pass
        assert stopped(model)
        assert told.all_closed_once
        assert not any(span.error for span in told.spans)


@pytest.mark.parametrize("way", SYNC)
def test_a_reader_that_raises_leaves_nothing_behind(way: str) -> None:
    model = held()

    def read() -> None:
        for piece in _sync(model, way):
            if mia(piece):
                raise RuntimeError("the reader's own")

    with recorded() as told:
        with pytest.raises(RuntimeError, match="own"):
            read()
        gc.collect()
        assert_left(model, told, "exited")


@pytest.mark.parametrize("way", ASYNC)
def test_when_an_async_stream_is_closed_the_models_have_stopped(way: str, mode: str) -> None:
    async def main() -> None:
        async with aclosing(await _async(model, way)) as stream:
            async for piece in stream:
                if mia(piece):
                    break
        assert stopped(model)
        assert told.all_closed_once

    model = held(trace_segments=mode)
    with recorded() as told:
        asyncio.run(main())
    assert not any(span.error for span in told.spans)


@pytest.mark.parametrize("way", ASYNC)
def test_an_async_stream_that_is_left_by_break_does_the_same(way: str) -> None:
    async def main() -> None:
        async for piece in await _async(model, way):
            if mia(piece):
                break
        await asyncio.to_thread(eventually, lambda: told.all_closed_once and stopped(model))

    model = held()
    with recorded() as told:
        asyncio.run(main())
        assert_left(model, told, "exited")


async def _read(model: Relay, way: str) -> None:
    async for _ in await _async(model, way):
        pass


CALLS: dict[str, Callable[[Relay], Any]] = {
    "achat": lambda model: model.achat(HI),
    "acomplete": lambda model: model.acomplete("hi"),
    "astream_chat": lambda model: _read(model, "astream_chat"),
    "astream_complete": lambda model: _read(model, "astream_complete"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_cancelling_a_task_stops_both_models_and_is_reported(call: Callable[[Relay], Any], mode: str) -> None:
    async def main() -> None:
        task = asyncio.create_task(call(model))
        await reached(model)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(eventually, lambda: told.all_closed_once)

    model = held(trace_segments=mode)
    with recorded() as told:
        asyncio.run(main())
        assert eventually(lambda: stopped(model))
        assert told.all_closed_once
    errors = {type(span.error) for span in told.spans if span.name.startswith("relay") and span.state == "dropped"}
    assert errors == {asyncio.CancelledError}


def test_a_timeout_around_a_call_is_a_cancellation() -> None:
    async def main() -> None:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as others:

            async def run_out() -> None:
                await reached(model)
                limit.reschedule(asyncio.get_running_loop().time())

            others.create_task(run_out())
            await model.achat(HI)

    model = held()
    with recorded() as told:
        with pytest.raises(TimeoutError):
            asyncio.run(main())
        assert eventually(lambda: stopped(model))
        assert told.all_closed_once


@pytest.mark.parametrize("call", [CALLS["achat"], CALLS["astream_chat"]], ids=["achat", "astream_chat"])
def test_the_loop_is_free_while_calls_are_held_open_and_calls_overlap(call: Callable[[Relay], Any]) -> None:
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async def main() -> None:
        tasks = [asyncio.create_task(heart()), *(asyncio.create_task(call(model)) for _ in range(2))]
        assert await asyncio.to_thread(eventually, lambda: running(engine) == 2 and requests(engine) == 4)
        so_far = beats
        for _ in range(50):
            await asyncio.sleep(0)
        assert beats >= so_far + 50
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    model = held()
    engine = model.engine
    assert engine is not None
    asyncio.run(main())
    assert eventually(lambda: stopped(model))
    assert max(backend(engine, role).most_running for role in ("large", "small")) == 2


def test_async_calls_use_no_thread_of_the_callers() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def no_thread(*args: Any) -> Any:
            raise AssertionError("a thread was asked for")

        loop.run_in_executor = no_thread  # type: ignore[method-assign]
        model = llm()
        assert (await model.achat(HI)).message.content == "The answer is 7.5."
        assert "".join([piece.delta async for piece in await model.astream_chat(HI)]) == "The answer is 7.5."

    asyncio.run(main())


def test_sync_methods_work_where_a_loop_is_running_as_in_notebooks() -> None:
    async def main() -> list[str | None]:
        model = llm()
        return [model.chat(HI).message.content, list(model.stream_chat(HI))[-1].message.content, model.complete("hi").text]

    assert asyncio.run(main()) == ["The answer is 7.5."] * 3


def test_one_llm_serves_several_loops_one_after_another_and_at_once() -> None:
    model = llm()

    def ask(_: int) -> str | None:
        async def main() -> str | None:
            return [piece async for piece in await model.astream_chat(HI)][-1].message.content

        return asyncio.run(main())

    with ThreadPoolExecutor(4) as threads:
        assert [ask(0), *threads.map(ask, range(4))] == ["The answer is 7.5."] * 5


@pytest.mark.parametrize("way", SYNC)
def test_a_stream_that_nobody_reads_asks_for_nothing_and_leaves_nothing_open(way: str) -> None:
    model = llm()
    with recorded() as told:
        stream = _sync(model, way)
        assert model.engine is not None
        assert requests(model.engine) == 0
        stream.close()
    assert told.all_closed_once
    assert requests(model.engine) == 0


def test_an_async_stream_that_nobody_reads_asks_for_nothing() -> None:
    async def main() -> None:
        await (await model.astream_chat(HI)).aclose()

    model = llm()
    with recorded() as told:
        asyncio.run(main())
    assert model.engine is not None
    assert requests(model.engine) == 0
    assert told.all_closed_once


def test_a_stream_that_is_left_at_the_end_of_its_loop_leaves_no_complaint_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        async for _ in await model.astream_chat([ChatMessage(role="user", content="hi")]):
            break

    model = llm([Reply("one two three", stall_after=1)] * 20, engine={"policy": "large-only"})
    for _ in range(20):
        asyncio.run(leave())
    gc.collect()
    assert eventually(lambda: stopped(model))
    assert not caplog.records


def test_a_call_after_one_that_was_left_is_whole() -> None:
    model = llm()
    for _ in model.stream_chat(HI):
        break
    assert model.chat(HI).message.content == "The answer is 7.5."
