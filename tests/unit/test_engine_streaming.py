"""A stream and its fold; any thread, any event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from relay_integrations import RelayEngine, RelayResult, TextDelta, fold
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from relay_integrations.sink import QUEUE_LIMIT
from tests.unit.support import MATHS, WEATHER, backend, both_ways, continuing, eventually, relay, running, said, strangers, untimed

CALL = MATHS.partition("The answer")[0] + '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def async_result(engine: RelayEngine, text: str = "hi") -> RelayResult:
    return asyncio.run(engine.agenerate(text, seed=1))


# --- streamed and not streamed are one


@pytest.mark.parametrize(
    "options", [{}, {"n": 3}, {"max_tokens": 9}, {"stop": ["7.5"]}, {"reasoning_budget": 6}, {"large_token_budget": 9}]
)
def test_a_folded_stream_is_the_result_in_every_field(options: dict[str, object]) -> None:
    with relay(MATHS) as engine:
        both_ways(engine, "hi", **options)
    with relay(*strangers(MATHS)) as engine:
        both_ways(engine, "hi", **options)


def test_a_folded_stream_with_tool_calls_is_the_result_in_every_field() -> None:
    with relay(CALL) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    assert result.tool_calls[0].arguments == '{"city": "Oslo"}'


def test_the_four_ways_to_ask_give_one_result() -> None:
    async def streamed() -> RelayResult:
        stream = engine.astream("hi", seed=1)
        assert "".join([e.text async for e in stream if isinstance(e, TextDelta) and e.channel == "answer"]) == "The answer is 7.5."
        return stream.result

    with relay(MATHS) as engine:
        sync_stream = engine.stream("hi", seed=1)
        assert said(sync_stream) == "The answer is 7.5."
        results = [engine.generate("hi", seed=1), async_result(engine), sync_stream.result, asyncio.run(streamed())]
    assert len({str(untimed(result)) for result in results}) == 1


def test_choices_come_interleaved_and_fold_apart() -> None:
    with relay(continuing(MATHS, delay=0.001)) as engine:
        events = list(engine.stream("hi", n=3, seed=1))
        result = fold(events)
        assert running(engine) == 0
        assert backend(engine, "large").most_running > 1
    assert [choice.text for choice in result.choices] == ["The answer is 7.5."] * 3
    assert result.usage.prompt_tokens == result.choices[0].usage.prompt_tokens
    assert result.usage.completion_tokens == sum(choice.usage.completion_tokens for choice in result.choices)


def test_the_result_of_a_stream_can_be_read_at_any_time() -> None:
    with relay(MATHS) as engine, engine.stream("hi", seed=1) as stream:
        for event in stream:
            if isinstance(event, TextDelta) and event.channel == "answer":
                assert stream.result.text == "The"
                assert stream.result.finish_reason is None
                break


def test_a_stream_that_has_ended_stays_ended() -> None:
    with relay(MATHS) as engine:
        stream = engine.stream("hi", seed=1)
        assert list(stream)
        assert list(stream) == []
        stream.close()
        assert stream.result.finish_reason == "stop"


# --- threads and loops


def test_one_engine_serves_many_threads_at_once() -> None:
    with relay(continuing(MATHS, delay=0.001)) as engine:
        one = untimed(engine.generate("hi", seed=1))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda _: untimed(engine.generate("hi", seed=1)), range(8)))
        assert backend(engine, "large").most_running > 1
    assert results == [one] * 8


def test_one_engine_serves_several_event_loops() -> None:
    with relay(MATHS) as engine:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            results = list(pool.map(lambda _: async_result(engine).text, range(6)))
        assert async_result(engine).text == "The answer is 7.5."
    assert results == ["The answer is 7.5."] * 6


def test_a_sync_call_works_inside_a_running_loop_as_in_a_notebook() -> None:
    async def cell() -> str:
        return engine.generate("hi", seed=1).text

    with relay(MATHS) as engine:
        assert asyncio.run(cell()) == "The answer is 7.5."


def test_a_sync_call_on_the_engines_own_thread_says_what_to_use_instead() -> None:
    errors: list[str] = []

    def script(so_far: str, request: object) -> str:
        for call in (engine.generate, engine.stream):
            try:
                call("hi")
            except Exception as e:
                errors.append(str(e))
        return "a"

    with relay(script, policy="large-only") as engine:
        engine.generate("hi")
    assert "agenerate() there" in errors[0]
    assert "astream() there" in errors[1]


def test_the_callers_loop_beats_on_while_a_call_is_held_open() -> None:
    async def main() -> int:
        beats = 0
        stalled = engine.agenerate("stall", seed=1)
        stream = engine.astream("stall", seed=1)
        reading = asyncio.ensure_future(anext(aiter(stream)))
        task = asyncio.ensure_future(stalled)
        while running(engine) < 2 or beats < 50:
            await asyncio.sleep(0.001)
            beats += 1
        assert not task.done()
        task.cancel()
        await reading
        await stream.aclose()
        return beats

    with relay([Reply("a b", stall_after=1)], policy="large-only") as engine:
        assert asyncio.run(main()) >= 50
        assert eventually(lambda: running(engine) == 0)


def test_two_async_calls_overlap() -> None:
    async def main() -> None:
        both = [asyncio.ensure_future(engine.agenerate("hi", seed=1)) for _ in range(2)]
        assert await asyncio.to_thread(eventually, lambda: running(engine) == 2), "both are in the middle of their generation"
        for task in both:
            task.cancel()

    with relay([Reply("a b", stall_after=1)], policy="large-only") as engine:
        asyncio.run(main())


# --- a slow reader


def test_the_generation_waits_for_a_slow_reader() -> None:
    words = "a " * 5000
    with relay(words, policy="large-only") as engine:
        stream = engine.stream("hi", seed=1)
        next(stream)
        large = backend(engine, "large")
        assert eventually(lambda: large.generated > 100)
        last = -1
        while last != large.generated:  # until it stands still
            last = large.generated
            threading.Event().wait(0.05)
        assert last < 4 * QUEUE_LIMIT
        assert said(stream) == words
        assert large.generated == stream.result.usage.completion_tokens


def test_the_generation_waits_for_a_slow_async_reader_too() -> None:
    async def main() -> str:
        text = ""
        async for event in engine.astream("hi", n=2, seed=1):
            if isinstance(event, TextDelta):
                text += event.text
                if len(text) % 500 == 0:
                    await asyncio.sleep(0)
        return text

    with relay("a " * 2000, policy="large-only") as engine:
        assert len(asyncio.run(main())) == 2 * len("a " * 2000)


def test_a_result_that_is_not_streamed_waits_for_nobody() -> None:
    with relay("a " * 5000, policy="large-only") as engine:
        assert engine.generate("hi").text == "a " * 5000


# --- an engine's life


def test_an_engine_is_a_context_manager_of_either_kind() -> None:
    async def main() -> str:
        async with relay(MATHS) as engine:
            return (await engine.agenerate("hi")).text

    assert asyncio.run(main()) == "The answer is 7.5."


def test_an_engine_that_has_not_been_used_starts_no_thread() -> None:
    before = threading.active_count()
    with relay(MATHS):
        assert threading.active_count() == before


def test_an_engine_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with relay(MATHS) as engine:
        engine.generate("hi")
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


@pytest.mark.parametrize("owns", [True, False])
def test_an_engine_closes_what_it_opened_and_nothing_else(owns: bool) -> None:
    pair = [ScriptedBackend(MATHS, vocabulary=Vocabulary()) for _ in "LS"]
    with relay(*pair, owns_backends=owns) as engine:
        engine.generate("hi")
    engine.close()
    assert [b.closed for b in pair] == [owns, owns]
