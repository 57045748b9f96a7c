"""Backends that misbehave and callers that do odd things: whatever they do, no call hangs and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from relay_integrations import BackendError, EngineClosed, Message, RelayFailed
from relay_integrations.backends.base import Chunk, GenerateRequest, Prompt, RenderOptions
from relay_integrations.backends.scripted import EOS, Reply, ScriptedBackend
from tests.unit.support import backend, eventually, reasons, relay

TEXT = "We think a while. So, it is four. Then we stop."


class Hostile(ScriptedBackend):
    """Does one thing wrong."""

    def __init__(self, does: str = "") -> None:
        super().__init__(TEXT, name="hostile")
        self.does = does
        self.released = 0

    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        if self.does == "renders a list":
            return [1, 2]  # type: ignore[return-value]
        if self.does == "never renders":
            await asyncio.Event().wait()
        return await super().render(messages, tools, options)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        match self.does:
            case "calls sys.exit":
                raise SystemExit(3)
            case "cancels itself":
                raise asyncio.CancelledError
            case "says too few texts":
                yield Chunk(ids=(65, 66), text="AB", texts=("A",))
            case "sends no token":
                while True:
                    yield Chunk(text="x")
            case "goes on after its end":
                yield Chunk(ids=(65, EOS), text="A", texts=("A", ""), finish="eos")
                await asyncio.Event().wait()
        async for chunk in super().generate(request):
            yield chunk

    async def release(self, session: str) -> None:
        if self.does == "releases slowly":
            await asyncio.sleep(0.05)
        self.released += 1

    async def aclose(self) -> None:
        await super().aclose()
        if self.does == "cannot close":
            raise OSError("still mounted")


@pytest.mark.parametrize("does", ["calls sys.exit", "cancels itself", "says too few texts", "renders a list"])
def test_a_helper_that_misbehaves_is_done_without(does: str) -> None:
    with relay(TEXT, Hostile(does)) as engine:
        for _ in range(2):  # the engine works afterwards
            result = engine.generate("hi")
            assert result.text == TEXT
            assert result.segments[-1].role == "large"
            assert "fallback" in [*reasons(result), result.segments[0].reason]


@pytest.mark.parametrize("does", ["calls sys.exit", "cancels itself", "says too few texts", "renders a list", "sends no token"])
def test_a_model_that_misbehaves_alone_is_an_error_with_its_name(does: str) -> None:
    with relay("a", Hostile(does), policy="small-only") as engine:
        for _ in range(2):
            with pytest.raises(BackendError, match="hostile"):
                engine.generate("hi")


def test_what_comes_after_the_end_of_a_stream_is_not_waited_for() -> None:
    with relay("a", Hostile("goes on after its end"), policy="small-only") as engine:
        assert engine.generate("hi").text == "A"


def test_a_second_cancellation_does_not_keep_a_backend_from_letting_go() -> None:
    pair = [Hostile("releases slowly"), Hostile("releases slowly")]
    for one in pair:
        one._script = lambda so_far, request: Reply(TEXT, stall_after=1)
    with relay(*pair) as engine:
        stream = engine.stream("hi")
        next(stream)
        closing = [threading.Thread(target=stream.close) for _ in range(3)]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(20)
        assert not any(thread.is_alive() for thread in closing)
    assert [one.released for one in pair] == [1, 1]


def test_a_stream_that_is_closed_while_the_prompt_is_rendered_says_cancelled() -> None:
    with relay(Hostile("never renders"), TEXT) as engine:
        stream = engine.stream("hi")
        stream.close()
        assert stream.result.finish_reason == "cancelled"


def test_an_engine_closed_while_the_prompt_is_rendered_ends_the_stream_by_its_rules() -> None:
    engine = relay(Hostile("never renders"), TEXT)
    stream = engine.stream("hi")
    engine.close()
    event = next(stream)
    assert isinstance(event, RelayFailed)
    assert event.finish_reason == "cancelled"


def test_one_backend_that_cannot_close_does_not_keep_the_other_open() -> None:
    small = ScriptedBackend(TEXT)
    engine = relay(Hostile("cannot close"), small, owns_backends=True)
    with pytest.raises(OSError, match="still mounted"):
        engine.close()
    assert small.closed
    engine.close()


def test_a_stream_may_be_closed_while_another_thread_reads_it() -> None:
    with relay([Reply(TEXT, stall_after=2)], policy="large-only") as engine:
        stream = engine.stream("hi")
        readers = [threading.Thread(target=lambda: list(stream), daemon=True) for _ in range(3)]
        for reader in readers:
            reader.start()
        assert eventually(lambda: backend(engine, "large").generated == 2)
        stream.close()
        for reader in readers:
            reader.join(20)
        assert not any(reader.is_alive() for reader in readers)


def test_an_async_stream_may_be_closed_by_several_while_another_task_reads_it() -> None:
    async def read_and_close() -> None:
        with relay([Reply(TEXT, stall_after=2)], policy="large-only") as engine:
            stream = engine.astream("hi")

            async def read() -> None:
                async for _ in stream:
                    pass

            reading = [asyncio.ensure_future(read()) for _ in range(2)]
            assert await asyncio.to_thread(eventually, lambda: backend(engine, "large").generated == 2)
            async with asyncio.timeout(20):
                await asyncio.gather(*(stream.aclose() for _ in range(3)), *reading)

    asyncio.run(read_and_close())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_is_told_that_the_engine_is_not_its_own() -> None:
    with relay("a") as engine:
        engine.generate("hi")
        child = os.fork()
        if child == 0:
            try:
                engine.generate("hi")
            except EngineClosed:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
