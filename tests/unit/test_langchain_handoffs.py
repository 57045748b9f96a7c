"""Handoffs as custom events and segments as runs, on every way to call the model."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable

from langchain_relay import ChatRelay
from relay_integrations.backends.scripted import Reply
from tests.unit.langchain_support import HANDOFFS_IN_MATHS, Recorder, chat
from tests.unit.support import MATHS, MATHS_TURNS, continuing

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")  # protocol v3 is beta

Config = dict[str, Any]


async def _astream(model: Runnable[Any, Any], config: Config) -> None:
    async for _ in model.astream("hi", config):
        pass


async def _events_v2(model: Runnable[Any, Any], config: Config) -> None:
    async for _ in model.astream_events("hi", config, version="v2"):
        pass


async def _events_v3(model: Any, config: Config) -> None:
    stream = await model.astream_events("hi", config, version="v3")
    async for _ in stream:
        pass
    await stream.aclose()


WAYS: dict[str, Callable[[Any, Config], Any]] = {
    "invoke": lambda model, config: model.invoke("hi", config),
    "stream": lambda model, config: list(model.stream("hi", config)),
    "batch": lambda model, config: model.batch(["hi"], config),
    "generate": lambda model, config: model.generate_prompt([model._convert_input("hi")], callbacks=config["callbacks"]),
    "ainvoke": lambda model, config: asyncio.run(model.ainvoke("hi", config)),
    "astream": lambda model, config: asyncio.run(_astream(model, config)),
    "abatch": lambda model, config: asyncio.run(model.abatch(["hi"], config)),
    "astream_events v2": lambda model, config: asyncio.run(_events_v2(model, config)),
    "astream_events v3": lambda model, config: asyncio.run(_events_v3(model, config)),
    "stream_events v3": lambda model, config: list(model.stream_events("hi", config, version="v3")),
}

every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@every_way
def test_every_handoff_is_a_custom_event_of_the_llm_run(way: Callable[[Any, Config], Any]) -> None:
    recorder = Recorder()
    way(chat(seed=1), {"callbacks": [recorder]})
    llm, run = recorder.llm
    assert recorder.reasons == HANDOFFS_IN_MATHS
    assert {run_id for _, run_id, _ in recorder.events} == {llm}
    assert run.ended
    assert run.error is None


def test_the_event_says_who_hands_over_to_whom_why_and_where() -> None:
    recorder = Recorder()
    chat(seed=1).invoke("hi", {"callbacks": [recorder]})
    first, second, *_ = (data for _, _, data in recorder.events)
    assert {key: value for key, value in first.items() if key != "elapsed"} == {
        "index": 0,
        "choice": 0,
        "from": "large",
        "to": "small",
        "from_model": "big",
        "to_model": "tiny",
        "reason": "cue",
        "cue": "So",
        "position": 12,
    }
    assert (second["from"], second["to"], second["cue"]) == ("small", "large", None)
    assert 0 < first["elapsed"] <= second["elapsed"]
    assert first["position"] < second["position"]


def test_the_data_of_each_event_is_a_dict_of_its_own() -> None:
    class Spoils(Recorder):
        def on_custom_event(self, name: str, data: Any, **more: Any) -> None:
            super().on_custom_event(name, dict(data), **more)
            data.clear()

    for _ in range(2):
        recorder = Spoils()
        chat().invoke("hi", {"callbacks": [recorder]})
        assert recorder.reasons == HANDOFFS_IN_MATHS


@every_way
@pytest.mark.parametrize("mode", ["summary", "all", "none"])
def test_segments_are_chain_runs_within_the_llm_run(way: Callable[[Any, Config], Any], mode: Any) -> None:
    recorder = Recorder()
    way(chat(seed=1, trace_segments=mode), {"callbacks": [recorder], "tags": ["mine"], "metadata": {"user": "me"}})
    llm, _ = recorder.llm
    runs = recorder.segments(llm)
    roles = [role for role, _ in MATHS_TURNS]
    assert [run.name for run in runs] == {"all": [f"relay:{r}" for r in roles], "summary": ["relay:large", "relay:small"], "none": []}[mode]
    assert recorder.all_ended
    assert not any(run.error for run in recorder.runs.values())
    for run in runs:
        assert run.kind == "chain"
        assert {run.name, "nostream"} <= set(run.tags)
        assert run.metadata["relay_role"] == str(run.name).removeprefix("relay:")
        assert not any(key.startswith("ls_") for key in run.metadata)
        assert "usage_metadata" not in run.outputs
    if mode != "none":
        assert sum(run.outputs["relay_usage"]["tokens"] for run in runs) == 42


def test_a_run_of_a_segment_holds_its_text_and_its_times() -> None:
    recorder = Recorder()
    chat(continuing(MATHS, delay=1e-3), seed=1, trace_segments="all").invoke("hi", {"callbacks": [recorder]})
    runs = recorder.segments(recorder.llm[0])
    assert [(run.metadata["relay_role"], run.outputs["text"]) for run in runs] == MATHS_TURNS
    assert [run.metadata["relay_segment"] for run in runs] == list(range(len(MATHS_TURNS)))
    for run in runs:
        assert run.metadata["relay_started"] <= run.outputs["started"] + 1e-3 < run.outputs["ended"] + 1e-3
    assert [run.outputs["cue"] for run in runs] == ["So", None, "Thus", None, None, None]


def test_a_summary_lists_the_segments_of_each_role_and_adds_them_up() -> None:
    recorder = Recorder()
    chat(seed=1, max_segments=2).invoke("hi", {"callbacks": [recorder]})
    large, small = recorder.segments(recorder.llm[0])
    assert [segment["index"] for segment in large.outputs["segments"]] == [0, 2]
    assert (large.outputs["segments_left_out"], small.outputs["segments_left_out"]) == (1, 1)
    assert large.outputs["relay_usage"]["tokens"] + small.outputs["relay_usage"]["tokens"] == 42
    assert recorder.order[-3:] == ["chain ends", "chain ends", "llm ends"]


@pytest.mark.parametrize(("mode", "most", "runs"), [("all", 3, 3), ("all", 0, 0), ("summary", 1, 1), ("all", 100, 6)])
def test_there_are_no_more_runs_than_asked_for_but_every_handoff_is_told(mode: Any, most: int, runs: int) -> None:
    recorder = Recorder()
    chat(trace_segments=mode, max_segments=most).invoke("hi", {"callbacks": [recorder]})
    assert len(recorder.segments(recorder.llm[0])) == runs
    assert recorder.reasons == HANDOFFS_IN_MATHS
    assert recorder.all_ended


@every_way
def test_the_run_has_the_id_that_the_caller_gave_it(way: Callable[[Any, Config], Any]) -> None:
    recorder, wanted = Recorder(), uuid4()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        way(chat(), {"callbacks": [recorder], "run_id": wanted})
    if way is not WAYS["generate"]:
        assert recorder.llm[0] == wanted
    assert {run_id for _, run_id, _ in recorder.events} == {recorder.llm[0]}


@pytest.mark.parametrize("streamed", [False, True])
def test_in_a_chain_the_events_belong_to_the_model_and_not_to_the_chain(streamed: bool) -> None:
    recorder = Recorder()
    chain = ChatPromptTemplate.from_messages([("human", "{x}")]) | chat(seed=1, trace_segments="all") | StrOutputParser()
    said = (
        "".join(chain.stream({"x": "hi"}, {"callbacks": [recorder]})) if streamed else chain.invoke({"x": "hi"}, {"callbacks": [recorder]})
    )
    assert said == "The answer is 7.5."
    llm, run = recorder.llm
    assert {run_id for _, run_id, _ in recorder.events} == {llm}
    assert recorder.reasons == HANDOFFS_IN_MATHS
    assert run.parent in recorder.runs
    assert len(recorder.segments(llm)) == 6
    assert recorder.all_ended


def test_handlers_of_the_model_itself_hear_the_handoffs_but_no_inner_runs() -> None:
    own = Recorder()
    model = chat(callbacks=[own])
    model.invoke("hi")
    list(model.stream("hi"))
    assert own.reasons == 2 * HANDOFFS_IN_MATHS
    assert [run.kind for run in own.runs.values()] == ["llm", "llm"]


def test_handlers_that_are_coroutines_hear_the_same() -> None:
    class Listens(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.heard: list[str] = []

        async def on_custom_event(self, name: str, data: Any, **more: Any) -> None:
            self.heard.append(data["reason"])

    listener, model = Listens(), chat()
    model.invoke("hi", {"callbacks": [listener]})
    list(model.stream("hi", {"callbacks": [listener]}))
    asyncio.run(model.ainvoke("hi", {"callbacks": [listener]}))
    asyncio.run(_astream(model, {"callbacks": [listener]}))
    assert listener.heard == 4 * HANDOFFS_IN_MATHS


def test_event_streams_show_the_handoffs_between_the_tokens_that_they_part() -> None:
    async def read() -> list[tuple[str, Any]]:
        chain = chat(seed=1) | StrOutputParser()
        seen = []
        async for event in chain.astream_events("hi", version="v2"):
            if event["event"] == "on_chat_model_stream":
                chunk = event["data"]["chunk"]
                seen.append(("text", chunk.additional_kwargs.get("reasoning_content", "") + chunk.content))
            elif event["event"] == "on_custom_event":
                assert len(event["parent_ids"]) == 1
                seen.append(("handoff", event["data"]["reason"]))
        return seen

    seen, parts = asyncio.run(read()), [""]
    for kind, text in seen:
        if kind == "handoff":
            parts.append("")
        else:
            parts[-1] += text
    assert [text for kind, text in seen if kind == "handoff"] == HANDOFFS_IN_MATHS
    assert parts == [
        "First we add 3.5 and 4. So,",
        " Mia now has 7.5 coins.",
        " Then we go on with it. Thus we",
        " know it.\n",
        "",
        "The answer is 7.5.",
    ]


def test_streams_that_are_read_in_turn_keep_their_events_apart() -> None:
    recorder = Recorder()
    model = chat(seed=1)
    streams = [model.stream("hi", {"callbacks": [recorder]}) for _ in range(3)]
    while streams:
        streams = [stream for stream in streams if next(stream, None) is not None]
    assert len(recorder.of_kind("llm")) == 3
    for llm, _ in recorder.of_kind("llm"):
        assert [data["reason"] for _, run_id, data in recorder.events if run_id == llm] == HANDOFFS_IN_MATHS
        assert len(recorder.segments(llm)) == 2


@pytest.mark.parametrize("async_", [False, True])
def test_calls_at_once_keep_their_handoffs_in_their_own_runs(async_: bool) -> None:
    recorder = Recorder()
    model = chat(continuing(MATHS, delay=1e-4), seed=1, trace_segments="all")
    prompts = [f"hi {i}" for i in range(8)]
    if async_:
        asyncio.run(model.abatch(prompts, {"callbacks": [recorder]}))
    else:
        model.batch(prompts, {"callbacks": [recorder]})
    assert len(recorder.of_kind("llm")) == 8
    for llm, _ in recorder.of_kind("llm"):
        assert [data["reason"] for _, run_id, data in recorder.events if run_id == llm] == HANDOFFS_IN_MATHS
        assert [run.outputs["text"] for run in recorder.segments(llm)] == [text for _, text in MATHS_TURNS]


@pytest.mark.parametrize("mode", ["summary", "all"])
def test_a_failure_that_is_bridged_is_seen_in_the_run_of_who_failed(mode: Any) -> None:
    recorder = Recorder()
    chat(MATHS, [Reply("x", fail_after=0)], trace_segments=mode).invoke("hi", {"callbacks": [recorder]})
    llm, run = recorder.llm
    errors = {child.name: str(child.error) for child in recorder.segments(llm) if child.error is not None}
    assert errors == {"relay:small": "ConnectionError: scripted failure"}
    assert run.error is None
    assert recorder.all_ended


@every_way
@pytest.mark.parametrize("mode", ["summary", "all"])
def test_a_failure_that_is_not_bridged_ends_all_runs_with_it(way: Callable[[Any, Config], Any], mode: Any) -> None:
    recorder = Recorder()
    model = chat([Reply("<think>\nFirst we", fail_after=2)], engine={"on_failure": "raise"}, trace_segments=mode)
    with pytest.raises(Exception, match="big"):
        way(model, {"callbacks": [recorder]})
    llm, run = recorder.llm
    assert "big" in str(run.error)
    assert [child.error is not None for child in recorder.segments(llm)] == [True]
    assert recorder.all_ended
    assert recorder.order[-2:] == ["chain fails", "llm fails"]


@pytest.mark.parametrize("way", [WAYS["stream"], WAYS["astream"], WAYS["astream_events v3"], WAYS["stream_events v3"]])
def test_tokens_are_told_once_a_chunk_and_before_it_is_seen(way: Callable[[Any, Config], Any]) -> None:
    recorder, model = Recorder(), chat(seed=1)
    way(model, {"callbacks": [recorder]})
    assert len(recorder.llm[1].tokens) == len(list(model.stream("hi")))


def test_a_chunk_is_told_of_before_the_reader_has_it() -> None:
    recorder = Recorder()
    for number, chunk in enumerate(chat().stream("hi", {"callbacks": [recorder]}), start=1):
        assert len(recorder.llm[1].tokens) == number
        assert recorder.llm[1].tokens[-1] == chunk.content


def test_invoke_tells_of_no_tokens_unless_streaming_is_on() -> None:
    quiet, loud = Recorder(), Recorder()
    chat().invoke("hi", {"callbacks": [quiet]})
    chat(streaming=True).invoke("hi", {"callbacks": [loud]})
    assert quiet.llm[1].tokens == []
    assert len(loud.llm[1].tokens) > 5
    assert quiet.reasons == loud.reasons == HANDOFFS_IN_MATHS


def test_disabled_streaming_still_tells_of_handoffs() -> None:
    recorder = Recorder()
    (only,) = chat(disable_streaming=True).stream("hi", {"callbacks": [recorder]})
    assert only.content == "The answer is 7.5."
    assert recorder.reasons == HANDOFFS_IN_MATHS
    assert recorder.all_ended


def test_core_still_has_the_hooks_that_the_scope_hangs_on() -> None:
    """A canary: these are private, and where they go the events would be lost without an error."""
    for name in ("_generate_with_cache", "_agenerate_with_cache"):
        assert callable(getattr(BaseChatModel, name))
    seen: list[str] = []

    class Watched(ChatRelay):
        def _generate_with_cache(self, *args: Any, **kwargs: Any) -> Any:
            seen.append("sync")
            assert kwargs["run_manager"] is not None
            return super()._generate_with_cache(*args, **kwargs)

        async def _agenerate_with_cache(self, *args: Any, **kwargs: Any) -> Any:
            seen.append("async")
            assert kwargs["run_manager"] is not None
            return await super()._agenerate_with_cache(*args, **kwargs)

    model = Watched(engine=chat().engine)
    model.invoke("hi")
    asyncio.run(model.ainvoke("hi"))
    assert seen == ["sync", "async"]
