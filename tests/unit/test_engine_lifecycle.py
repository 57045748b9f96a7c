"""An engine's life: what runs when it is closed, and what its readers learn of that."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import sys
import threading
from collections.abc import Iterator

import pytest

from relay_integrations import EngineClosed, GenerationError, PromptTooLong, RelayError, RelayFailed, SegmentStarted, fold
from relay_integrations.backends.scripted import Reply, ScriptedBackend
from tests.unit.support import backend, eventually, kinds, relay, running


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can, which brings races out."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_no_reader_waits_for_ever_when_the_engine_is_closed_meanwhile() -> None:
    for _ in range(60):
        engine = relay("a b c", policy="large-only")
        engine.generate("hi")
        ends: list[str] = []

        def read(engine=engine, ends=ends) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
            try:
                list(engine.stream("hi"))
                ends.append("ok")
            except RelayError as e:
                ends.append(type(e).__name__)

        threads = [threading.Thread(target=read, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        engine.close()
        for thread in threads:
            thread.join(20)
        assert len(ends) == 3, "a reader hangs"
        assert set(ends) <= {"ok", "EngineClosed", "GenerationError"}


def test_a_reader_learns_that_its_engine_was_closed_and_keeps_what_there_was() -> None:
    engine = relay([Reply("one two three", stall_after=2)], policy="large-only")
    stream = engine.stream("hi")
    assert eventually(lambda: backend(engine, "large").generated == 2)
    engine.close()
    with pytest.raises(GenerationError, match="engine was closed") as caught:
        list(stream)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "one two"
    with pytest.raises(EngineClosed):
        engine.generate("hi")


def test_abandoned_tasks_leave_no_complaint_behind(caplog: pytest.LogCaptureFixture) -> None:
    with relay([Reply("one two", stall_after=1)], policy="large-only") as engine:

        async def abandon() -> None:
            tasks = [asyncio.ensure_future(engine.agenerate("hi")) for _ in range(20)]
            await asyncio.to_thread(eventually, lambda: running(engine) == 20)
            assert not any(task.done() for task in tasks)

        asyncio.run(abandon())
    gc.collect()
    assert not caplog.records


def test_a_copy_of_what_holds_an_engine_shares_it_and_none_can_be_pickled() -> None:
    with relay("a") as engine:
        assert copy.copy(engine) is copy.deepcopy({"engine": engine})["engine"] is engine
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(engine)


def test_an_engine_that_is_dropped_ends_its_thread() -> None:
    before = threading.active_count()
    engine = relay("a")
    engine.generate("hi")
    assert threading.active_count() == before + 1
    del engine
    gc.collect()
    assert eventually(lambda: threading.active_count() == before)


def test_a_generation_that_cannot_begin_says_so_as_an_event_too() -> None:
    small_window = ScriptedBackend("a", context_window=3)
    with relay(small_window, ScriptedBackend("a", vocabulary=small_window.vocabulary)) as engine:
        stream = engine.stream("a prompt of several words", n=2)
        events = [next(stream), next(stream)]
        with pytest.raises(PromptTooLong) as caught:
            next(stream)
        assert kinds(events) == ["relay_failed", "relay_failed"]
        assert isinstance(events[0], RelayFailed)
        assert "no room" in events[0].error
        assert [choice.finish_reason for choice in fold(events).choices] == ["error", "error"]
        assert caught.value.partial is not None


def test_why_a_model_goes_on_alone_is_said() -> None:
    text = "We think about it for a while. So, it is four. Then we stop."
    broken = [Reply("x", fail_after=0, error=ConnectionError("no route"))]
    with relay(text, broken) as engine:
        started = [e for e in engine.stream("hi") if isinstance(e, SegmentStarted) and e.reason == "fallback"]
        assert [e.detail for e in started] == ["the small model failed: ConnectionError: no route"]
    narrow = ScriptedBackend(text, context_window=3)
    with relay(ScriptedBackend(text, vocabulary=narrow.vocabulary), narrow) as engine:
        first = next(e for e in engine.stream("a prompt of several words") if isinstance(e, SegmentStarted))
        assert (first.role, first.reason, first.detail) == ("large", "fallback", "the prompt does not fit the small model's window")
