"""Leaving early: both models stop, no other segment starts, every run ends with an error, and the caller's loop is never blocked."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler

from langchain_relay import ChatRelay
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from tests.unit.langchain_support import Recorder, chat
from tests.unit.support import MATHS, backend, eventually, relay, requests, running

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")  # protocol v3 is beta

IN_SEGMENT_2 = "<think>\nFirst we add 3.5 and 4. So, Mia"


def held(**settings: Any) -> ChatRelay:
    """A model that says `MATHS` up to the middle of its second segment, and then nothing more."""

    def script(so_far: str, request: GenerateRequest) -> Reply:
        before = len(Vocabulary().pieces(IN_SEGMENT_2[len(so_far) :]))
        return Reply(MATHS[len(so_far) :], stall_after=before)

    return chat(script, **settings)


def stopped(model: ChatRelay) -> bool:
    """Whether neither backend works any more, and none keeps anything."""
    assert model.engine is not None
    return running(model.engine) == 0 and not any(backend(model.engine, role).sessions for role in ("large", "small"))


async def reached(model: ChatRelay, recorder: Recorder | None = None) -> None:
    """Waits until the second segment has begun, and the recorder has heard of it."""
    engine = model.engine
    assert engine is not None
    assert await asyncio.to_thread(eventually, lambda: requests(engine) == 2 and running(engine) == 1)
    assert recorder is None or await asyncio.to_thread(eventually, lambda: bool(recorder.reasons))


def assert_left(model: ChatRelay, recorder: Recorder, error: type[BaseException]) -> None:
    """Both models have stopped in segment 2, and all runs have ended with the error, inner ones first."""
    assert eventually(lambda: stopped(model))
    assert model.engine is not None
    assert requests(model.engine) == 2
    assert eventually(lambda: recorder.all_ended)
    llm, run = recorder.llm
    assert isinstance(run.error, error)
    inner = recorder.segments(llm)
    assert {type(child.error) for child in inner if child.error is not None} == {type(run.error)}
    assert recorder.order[-1] == "llm fails"
    assert recorder.reasons == ["cue"]


@pytest.fixture(params=["summary", "all"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_break_stops_both_models_and_ends_all_runs(mode: Any) -> None:
    recorder, model = Recorder(), held(trace_segments=mode)
    for chunk in model.stream("hi", {"callbacks": [recorder]}):
        if "Mia" in chunk.additional_kwargs["reasoning_content"]:
            break
    assert_left(model, recorder, GeneratorExit)


def test_closing_a_stream_does_the_same(mode: Any) -> None:
    recorder, model = Recorder(), held(trace_segments=mode)
    stream: Any = model.stream("hi", {"callbacks": [recorder]})
    while "Mia" not in next(stream).additional_kwargs["reasoning_content"]:
        pass
    stream.close()
    assert stopped(model)
    assert_left(model, recorder, GeneratorExit)


def test_a_reader_that_raises_leaves_nothing_behind() -> None:
    recorder, model = Recorder(), held()

    def read() -> None:
        for chunk in model.stream("hi", {"callbacks": [recorder]}):
            if "Mia" in chunk.additional_kwargs["reasoning_content"]:
                raise RuntimeError("the reader's own")

    with pytest.raises(RuntimeError, match="own"):
        read()
    assert_left(model, recorder, GeneratorExit)


def test_an_async_stream_that_is_closed_does_the_same(mode: Any) -> None:
    async def main() -> None:
        chunks: Any = model.astream("hi", {"callbacks": [recorder]})
        async with aclosing(chunks):
            async for chunk in chunks:
                if "Mia" in chunk.additional_kwargs["reasoning_content"]:
                    break
        assert stopped(model)

    recorder, model = Recorder(), held(trace_segments=mode)
    asyncio.run(main())
    assert_left(model, recorder, GeneratorExit)


def test_an_async_stream_that_is_left_by_break_does_the_same(mode: Any) -> None:
    async def main() -> None:
        async for chunk in model.astream("hi", {"callbacks": [recorder]}):
            if "Mia" in chunk.additional_kwargs["reasoning_content"]:
                break
        await asyncio.to_thread(eventually, lambda: recorder.all_ended)

    recorder, model = Recorder(), held(trace_segments=mode)
    asyncio.run(main())
    assert_left(model, recorder, GeneratorExit)


async def _v2(model: ChatRelay, config: Any) -> None:
    async for _ in model.astream_events("hi", config, version="v2"):
        pass


async def _chunks(model: ChatRelay, config: Any) -> None:
    async for _ in model.astream("hi", config):
        pass


async def _invoke(model: ChatRelay, config: Any) -> None:
    await model.ainvoke("hi", config)


async def _batch(model: ChatRelay, config: Any) -> None:
    await model.abatch(["hi"], config)


async def _chain(model: ChatRelay, config: Any) -> None:
    await (model | (lambda message: message)).ainvoke("hi", config)


@pytest.mark.parametrize("run", [_invoke, _batch, _chunks, _v2, _chain])
def test_cancelling_a_task_stops_both_models_and_is_reported(run: Callable[[ChatRelay, Any], Any], mode: Any) -> None:
    async def main() -> None:
        task = asyncio.create_task(run(model, {"callbacks": [recorder]}))
        await reached(model)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(eventually, lambda: recorder.all_ended)

    recorder, model = Recorder(), held(trace_segments=mode)
    asyncio.run(main())
    assert eventually(lambda: stopped(model))
    assert recorder.all_ended
    assert isinstance(recorder.llm[1].error, asyncio.CancelledError)


class _Slow(AsyncCallbackHandler):
    """Takes its time over what it hears of segments, until it is let go on."""

    def __init__(self, slow: str) -> None:
        self.slow, self.busy, self.on = slow, asyncio.Event(), asyncio.Event()

    async def on_chain_start(self, *_: Any, **more: Any) -> None:
        await self._wait("start")

    async def on_chain_end(self, *_: Any, **more: Any) -> None:
        await self._wait("end")

    async def _wait(self, what: str) -> None:
        if what == self.slow:
            self.busy.set()
            await self.on.wait()


@pytest.mark.parametrize("slow", ["start", "end"])
@pytest.mark.parametrize("run", [_invoke, _chunks])
def test_a_run_that_a_handler_is_just_hearing_of_ends_too(run: Callable[[ChatRelay, Any], Any], slow: str) -> None:
    async def main() -> None:
        handler = _Slow(slow)
        task = asyncio.create_task(run(model, {"callbacks": [handler, recorder]}))
        await handler.busy.wait()
        task.cancel()
        await asyncio.sleep(0)
        handler.on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    recorder, model = Recorder(), held(trace_segments="all")
    asyncio.run(main())
    assert eventually(lambda: stopped(model))
    assert recorder.all_ended


class _Refusing(BaseCallbackHandler):
    raise_error = True

    def on_chain_start(self, *_: Any, **more: Any) -> None:
        raise RuntimeError("not this run")


def test_a_handler_that_raises_at_the_beginning_of_a_segment_is_what_the_caller_sees() -> None:
    model = held()
    with pytest.raises(RuntimeError, match="not this run"):
        model.invoke("hi", {"callbacks": [_Refusing()]})
    with pytest.raises(RuntimeError, match="not this run"):
        asyncio.run(model.ainvoke("hi", {"callbacks": [_Refusing()]}))
    assert eventually(lambda: stopped(model))


def test_cancelling_what_nobody_listens_to_stops_both_models() -> None:
    async def main() -> None:
        task = asyncio.create_task(model.ainvoke("hi"))
        await reached(model)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    model = held()
    asyncio.run(main())
    assert eventually(lambda: stopped(model))


def test_a_timeout_around_a_call_is_a_cancellation() -> None:
    async def main() -> None:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as others:

            async def run_out() -> None:
                await reached(model, recorder)
                limit.reschedule(asyncio.get_running_loop().time())

            others.create_task(run_out())
            await model.ainvoke("hi", {"callbacks": [recorder]})

    recorder, model = Recorder(), held()
    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert_left(model, recorder, asyncio.CancelledError)


def test_an_async_stream_of_protocol_v3_that_is_closed_is_reported() -> None:
    async def main() -> None:
        async with await model.astream_events("hi", {"callbacks": [recorder]}, version="v3") as stream:
            events: AsyncIterator[Any] = aiter(stream)
            await anext(events)
            await reached(model, recorder)

    recorder, model = Recorder(), held()
    asyncio.run(main())
    assert_left(model, recorder, asyncio.CancelledError)


def test_a_stream_of_protocol_v3_that_is_dropped_is_reported() -> None:
    recorder, model = Recorder(), held()
    events = iter(model.stream_events("hi", {"callbacks": [recorder]}, version="v3"))
    while "Mia" not in str(next(events)):
        pass
    del events
    gc.collect()
    assert_left(model, recorder, GeneratorExit)


@pytest.mark.parametrize("way", ["stream", "invoke"])
def test_a_handler_that_raises_ends_the_call_and_all_runs(way: str) -> None:
    class Fails(BaseCallbackHandler):
        raise_error = True

        def on_custom_event(self, name: str, data: Any, **more: Any) -> None:
            raise ValueError("the handler's own")

    recorder, model = Recorder(), held()
    with pytest.raises(ValueError, match="own"):
        list(getattr(model, way)("hi", {"callbacks": [recorder, Fails()]}))
    assert eventually(lambda: stopped(model))
    assert isinstance(recorder.llm[1].error, ValueError)
    assert recorder.all_ended


def test_a_handler_that_raises_does_not_hide_a_cancellation() -> None:
    class Fails(BaseCallbackHandler):
        raise_error = True
        run_inline = True

        def on_chain_error(self, error: BaseException, **more: Any) -> None:
            raise ValueError("the handler's own")

    async def main() -> None:
        task = asyncio.create_task(model.ainvoke("hi", {"callbacks": [Fails()]}))
        await reached(model)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    model = held()
    asyncio.run(main())
    assert eventually(lambda: stopped(model))


def test_the_loop_is_free_while_a_call_is_held_open_and_calls_overlap() -> None:
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async def main() -> None:
        beating = asyncio.create_task(heart())
        calls = [asyncio.create_task(model.ainvoke("hi")) for _ in range(2)]
        assert await asyncio.to_thread(eventually, lambda: running(engine) == 2)
        so_far = beats
        for _ in range(50):
            await asyncio.sleep(0)
        assert beats >= so_far + 50
        assert not any(call.done() for call in calls)
        for task in (*calls, beating):
            task.cancel()
        await asyncio.gather(*calls, beating, return_exceptions=True)

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
        model = chat(seed=1)
        assert (await model.ainvoke("hi")).content == "The answer is 7.5."
        assert "".join([chunk.text async for chunk in model.astream("hi")]) == "The answer is 7.5."

    asyncio.run(main())


def test_a_stream_that_is_left_at_the_end_of_its_loop_leaves_no_complaint_behind(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(ScriptedBackend):
        async def release(self, session: str) -> None:
            await asyncio.sleep(0.05)
            await super().release(session)

    async def leave(model: ChatRelay) -> None:
        async for _ in model.astream("hi"):
            break

    with relay(Slow([Reply("one two three", stall_after=1)] * 20, name="L"), "x", policy="large-only") as engine:
        for _ in range(20):
            asyncio.run(leave(ChatRelay(engine=engine)))
        gc.collect()
        assert eventually(lambda: running(engine) == 0)
    gc.collect()
    assert not caplog.records
