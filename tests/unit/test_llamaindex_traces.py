"""What handlers are told of a generation: handoffs and segments as events, and spans of our own within the span of the LLM's method."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import active_span_id

from llamaindex_relay import Relay
from relay_integrations import BackendError, ConfigError
from relay_integrations.backends.scripted import Reply
from tests.unit.llamaindex_support import HANDOFFS_IN_MATHS, HI, WAYS, Recorder, llm, recorded
from tests.unit.support import MATHS, MATHS_TURNS, continuing

every_way = pytest.mark.parametrize("way", WAYS)
MODES = {"summary": ["relay:large", "relay:small"], "all": [f"relay:{role}" for role, _ in MATHS_TURNS], "none": []}
every_mode = pytest.mark.parametrize("mode", MODES)


def ours(told: Recorder) -> list[Any]:
    """The spans that are within the span `relay`."""
    return [span for span in told.spans if span.name.startswith("relay:")]


def one(told: Recorder, name: str) -> Any:
    (span,) = (span for span in told.spans if span.name == name)
    return span


@every_way
def test_every_handoff_is_an_event_of_plain_values(way: str) -> None:
    with recorded() as told:
        WAYS[way](llm())
    assert told.reasons == HANDOFFS_IN_MATHS
    first, second, *_ = told.of("RelayHandoffEvent")
    assert (first.index, first.from_role, first.to_role, first.from_model, first.to_model) == (0, "large", "small", "big", "tiny")
    assert (first.cue, first.tokens_so_far, second.cue) == ("So", 12, None)
    assert 0 < first.elapsed_s <= second.elapsed_s
    fields = set(type(first).model_fields) - {"timestamp", "id_", "span_id", "tags"}
    assert all(isinstance(getattr(first, name), (str, int, float)) for name in fields)


@every_way
def test_every_segment_has_a_beginning_and_an_end_between_the_handoffs(way: str) -> None:
    with recorded() as told:
        WAYS[way](llm())
    short = {"RelaySegmentStartEvent": "start", "RelaySegmentEndEvent": "end", "RelayHandoffEvent": "handoff"}
    order = [short[event.class_name()] for event in told.events if event.class_name() in short]
    assert order == (["start", "end", "handoff"] * 6)[:-1]
    starts, ends = told.of("RelaySegmentStartEvent"), told.of("RelaySegmentEndEvent")
    assert [(e.index, e.role, e.model) for e in starts] == [(e.index, e.role, e.model) for e in ends]
    assert [(e.role, e.cause, e.cue) for e in ends[:2]] == [("large", "cue", "So"), ("small", "sentence_end", None)]
    assert [e.tokens_so_far for e in starts] == [sum(e.tokens for e in ends[:n]) for n in range(len(starts))]
    assert all(e.duration_s >= 0 and e.error is None for e in ends)


@every_way
@every_mode
def test_spans_are_nested_and_closed_once(way: str, mode: str) -> None:
    with recorded() as told:
        WAYS[way](llm(trace_segments=mode))
    assert [span.name for span in ours(told)] == MODES[mode]
    assert told.all_closed_once
    assert all(span.state == "exited" for span in told.spans)
    relay = one(told, "relay")
    assert told.parent(relay) == f"Relay.{way}"
    assert {told.parent(span) for span in ours(told)} <= {"relay"}
    assert told.spans[0].parent_id is None


@every_way
def test_handoffs_and_segments_belong_to_the_span_of_the_relay(way: str) -> None:
    with recorded() as told:
        WAYS[way](llm(trace_segments="all"))
    relay = one(told, "relay")
    events = [e for e in told.events if e.class_name().startswith("Relay")]
    assert {e.span_id for e in events} == {relay.id_}


def test_spans_say_what_they_were_opened_with_and_what_came_of_it() -> None:
    with recorded() as told:
        usage = llm(trace_segments="all").chat(HI).raw["usage"]
    relay = one(told, "relay")
    assert relay.about["relay"] == {"model": "big+tiny", "large": "big", "small": "tiny", "policy": "relaygen"}
    assert (relay.result["finish_reason"], relay.result["completion_tokens"]) == ("stop", usage["completion_tokens"])
    spans = ours(told)
    assert [span.result["text"] for span in spans] == [text for _, text in MATHS_TURNS]
    assert [span.tags["relay_segment"] for span in spans] == list(range(6))
    assert {(span.tags["relay_role"], span.tags["relay_model"]) for span in spans} == {("large", "big"), ("small", "tiny")}


@pytest.mark.parametrize(("mode", "most", "spans"), [("all", 3, 3), ("all", 0, 0), ("summary", 1, 1), ("all", 100, 6)])
def test_there_are_no_more_spans_than_asked_for_but_every_handoff_is_told(mode: str, most: int, spans: int) -> None:
    with recorded() as told:
        relay = llm(trace_segments=mode, max_segments=most).chat(HI).raw["relay"]
    assert len(ours(told)) == spans
    assert told.reasons == HANDOFFS_IN_MATHS
    assert (len(relay["segments"]), relay["segments_left_out"]) == (min(most, 6), 6 - min(most, 6))


@every_way
def test_no_span_of_ours_is_active_in_the_caller(way: str) -> None:
    assert active_span_id.get() is None
    WAYS[way](llm())
    assert active_span_id.get() is None


def test_a_reader_between_two_pieces_has_its_own_span_and_no_other() -> None:
    seen = set()
    token = active_span_id.set("the reader's")
    try:
        with recorded() as told:
            for _ in llm(trace_segments="all").stream_chat(HI):
                seen.add(active_span_id.get())
    finally:
        active_span_id.reset(token)
    assert seen == {"the reader's"}
    assert one(told, "Relay.stream_chat").parent_id == "the reader's"


def test_an_async_reader_between_two_pieces_has_its_own_span_and_no_other() -> None:
    async def read() -> set[str | None]:
        active_span_id.set("the reader's")
        return {active_span_id.get() async for _ in await llm(trace_segments="all").astream_chat(HI)}

    assert asyncio.run(read()) == {"the reader's"}


@every_way
def test_tags_of_the_caller_reach_events_however_late_they_are_read(way: str) -> None:
    with recorded() as told, instrument_tags({"user": "me"}):
        WAYS[way](llm())
    events = [e for e in told.events if e.class_name().startswith("Relay")]
    assert events
    assert all(e.tags["user"] == "me" for e in events)


def test_a_stream_keeps_the_tags_that_it_was_asked_for_with() -> None:
    with recorded() as told:
        with instrument_tags({"user": "me"}):
            stream = llm().stream_chat(HI)
        with instrument_tags({"user": "you"}):
            list(stream)
    assert {e.tags["user"] for e in told.of("RelayHandoffEvent")} == {"me"}


def test_streams_that_are_read_in_turn_keep_their_spans_apart() -> None:
    model = llm(trace_segments="all")
    with recorded() as told:
        streams = [model.stream_chat(HI) for _ in range(3)]
        while streams:
            streams = [stream for stream in streams if next(stream, None) is not None]
    assert told.all_closed_once
    relays = [span for span in told.spans if span.name == "relay"]
    assert len({span.parent_id for span in relays}) == 3
    for relay in relays:
        inner = [span for span in told.spans if span.parent_id == relay.id_]
        assert [span.result["text"] for span in inner] == [text for _, text in MATHS_TURNS]
        assert [e.reason for e in told.of("RelayHandoffEvent") if e.span_id == relay.id_] == HANDOFFS_IN_MATHS


def test_a_stream_may_be_read_in_another_thread_than_it_was_asked_for_in() -> None:
    with recorded() as told, ThreadPoolExecutor(1) as threads:
        stream = llm(trace_segments="all").stream_chat(HI)
        assert threads.submit(list, stream).result()[-1].message.content == "The answer is 7.5."
    assert told.parent(one(told, "relay")) == "Relay.stream_chat"
    assert told.all_closed_once


@pytest.mark.parametrize("async_", [False, True])
def test_calls_at_once_keep_their_spans_apart(async_: bool) -> None:
    model = llm(continuing(MATHS, delay=1e-4), trace_segments="all")
    barrier = threading.Barrier(8)

    def call(n: int) -> None:
        barrier.wait()
        with instrument_tags({"call": n}):
            list(model.stream_chat(HI))

    async def acall(n: int) -> None:
        with instrument_tags({"call": n}):
            await model.achat(HI)

    async def all_at_once() -> None:
        await asyncio.gather(*(acall(n) for n in range(8)))

    with recorded() as told:
        if async_:
            asyncio.run(all_at_once())
        else:
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(call, range(8)))
    relays = [span for span in told.spans if span.name == "relay"]
    assert len({span.parent_id for span in relays}) == len(relays) == 8
    for relay in relays:
        events = [e for e in told.of("RelayHandoffEvent") if e.span_id == relay.id_]
        assert [e.reason for e in events] == HANDOFFS_IN_MATHS
        assert len({e.tags["call"] for e in events}) == 1
        assert len([span for span in told.spans if span.parent_id == relay.id_]) == 6


@every_mode
@every_way
def test_a_failure_ends_all_spans_with_it(way: str, mode: str) -> None:
    model = llm([Reply("<think>\nFirst we", fail_after=2)], engine={"on_failure": "raise"}, trace_segments=mode)
    with recorded() as told, pytest.raises(BackendError, match="big"):
        WAYS[way](model)
    assert told.all_closed_once
    relay = one(told, "relay")
    assert relay.state == "dropped"
    assert "big" in str(relay.error)
    assert [span.state for span in ours(told)] == ([] if mode == "none" else ["dropped"])
    if "stream" not in way:
        assert one(told, f"Relay.{way}").state == "dropped"
    (end,) = told.of("RelaySegmentEndEvent")
    assert (end.cause, "scripted failure" in end.error) == ("error", True)


@pytest.mark.parametrize("mode", ["summary", "all"])
def test_a_failure_that_is_bridged_is_seen_in_the_span_of_who_failed(mode: str) -> None:
    with recorded() as told:
        llm(MATHS, [Reply("x", fail_after=0)], trace_segments=mode).chat(HI)
    dropped = {span.name: str(span.error) for span in told.spans if span.state == "dropped"}
    assert dropped == {"relay:small": "ConnectionError: scripted failure"}
    assert told.all_closed_once


class _Raises(BaseEventHandler):
    @classmethod
    def class_name(cls) -> str:
        return "Raises"

    def handle(self, event: Any, **more: Any) -> None:
        raise RuntimeError("the handler's own")


@pytest.mark.parametrize("way", ["chat", "astream_chat"])
def test_a_handler_that_raises_changes_nothing(way: str) -> None:
    handler, root = _Raises(), get_dispatcher()
    root.add_event_handler(handler)
    try:
        assert WAYS[way](llm())[-1].message.content == "The answer is 7.5."
    finally:
        root.event_handlers.remove(handler)


def test_nobody_need_listen() -> None:
    make: Callable[[], Relay] = llm
    assert make().chat(HI).message.content == "The answer is 7.5."


@pytest.mark.parametrize("way", WAYS)
def test_tags_of_the_caller_are_on_every_span_and_event(way: str) -> None:
    with recorded() as told, instrument_tags({"tenant": "a"}):
        WAYS[way](llm(seed=1))
    assert {span.tags.get("tenant") for span in told.spans} == {"a"}
    assert {event.tags.get("tenant") for event in told.events if event.class_name().startswith("Relay")} == {"a"}


def test_a_word_for_the_spans_that_is_none_is_named_at_the_next_call() -> None:
    model = llm()
    model.trace_segments = "some"  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="trace_segments='some' is unknown; there are: summary, all, none"):
        model.complete("hi")
