"""Usage: LlamaIndex's token counter and callbacks hear of each call once, and of all of its tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler, TokenCountingHandler
from llama_index.core.callbacks.schema import EventPayload
from llama_index.core.llms import LLM

from relay_integrations import BackendError
from relay_integrations.backends.scripted import Reply
from tests.unit.llamaindex_support import ANSWER, HI, WAYS, llm, recorded, talker
from tests.unit.support import backend
from tests.unit.test_llamaindex_tools import TOOLS


def _words(text: str) -> list[str]:
    raise AssertionError(f"the counter had to estimate: {text}")


def counter() -> TokenCountingHandler:
    return TokenCountingHandler(tokenizer=_words)


@pytest.mark.parametrize("way", WAYS)
def test_the_counter_counts_what_the_engine_counts_once_a_call(way: str) -> None:
    counts = counter()
    model = llm(callback_manager=CallbackManager([counts]))
    usages = [WAYS[way](model)[-1].raw["usage"] for _ in range(2)]
    assert len(counts.llm_token_counts) == 2
    assert counts.prompt_llm_token_count == sum(usage["prompt_tokens"] for usage in usages) > 0
    assert counts.completion_llm_token_count == sum(usage["completion_tokens"] for usage in usages) > 0
    assert counts.total_llm_token_count == sum(usage["total_tokens"] for usage in usages)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_counted_is_what_both_models_wrote_reasoning_and_all(way: str) -> None:
    model = llm()
    last = WAYS[way](model)[-1]
    usage, relay = last.raw["usage"], last.raw["relay"]
    assert usage["completion_tokens"] == relay["tokens"]["large"] + relay["tokens"]["small"] + relay["tokens"]["forced"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    first = backend(model.engine, "large").requests[0]  # type: ignore[arg-type]
    assert usage["prompt_tokens"] == first.output_start


def test_usage_stands_on_the_last_piece_alone() -> None:
    *pieces, last = llm().stream_chat(HI)
    assert "usage" in last.raw
    assert not any("usage" in piece.raw for piece in pieces)


def test_a_call_of_a_tool_is_counted_once() -> None:
    counts = counter()
    model = talker(callback_manager=CallbackManager([counts]))
    model.predict_and_call(TOOLS, "How is it in 'Rome'?")
    asyncio.run(model.apredict_and_call(TOOLS, "How is it in 'Rome'?"))
    assert len(counts.llm_token_counts) == 2


@pytest.mark.parametrize("way", WAYS)
def test_callbacks_hear_one_llm_event_a_call_with_its_prompt_and_its_answer(way: str) -> None:
    heard = LlamaDebugHandler(print_trace_on_end=False)
    WAYS[way](llm(callback_manager=CallbackManager([heard])))
    ((start, end),) = heard.get_event_pairs(CBEventType.LLM)
    assert EventPayload.MESSAGES in start.payload or EventPayload.PROMPT in start.payload  # type: ignore[operator]
    said = (end.payload or {}).get(EventPayload.RESPONSE) or (end.payload or {}).get(EventPayload.COMPLETION)
    assert ANSWER in str(said)


@pytest.mark.parametrize("way", ["stream_chat", "stream_complete"])
def test_callbacks_hear_the_end_of_a_stream_that_is_left(way: str) -> None:
    heard = LlamaDebugHandler(print_trace_on_end=False)
    model = llm(callback_manager=CallbackManager([heard]))
    stream = model.stream_chat(HI) if way == "stream_chat" else model.stream_complete("hi")
    next(stream)
    stream.close()
    ((_, end),) = heard.get_event_pairs(CBEventType.LLM)
    assert isinstance((end.payload or {})[EventPayload.EXCEPTION], GeneratorExit)


@pytest.mark.parametrize("way", WAYS)
def test_callbacks_hear_of_a_failure_once(way: str) -> None:
    heard = LlamaDebugHandler(print_trace_on_end=False)
    model = llm([Reply("<think>\nFirst we", fail_after=2)], engine={"on_failure": "raise"}, callback_manager=CallbackManager([heard]))
    with pytest.raises(BackendError, match="big"):
        WAYS[way](model)
    ((_, end),) = heard.get_event_pairs(CBEventType.LLM)
    assert isinstance((end.payload or {})[EventPayload.EXCEPTION], BackendError)


def test_callbacks_that_are_set_later_are_heard_too() -> None:
    counts, model = counter(), llm()
    model.callback_manager = CallbackManager([counts])
    model.chat(HI)
    list(model.stream_chat(HI))
    assert len(counts.llm_token_counts) == 2


@pytest.mark.parametrize("way", WAYS)
def test_events_of_a_call_begin_and_end_once(way: str) -> None:
    with recorded() as told:
        pieces = WAYS[way](llm())
    kind = "LLMChat" if "chat" in way else "LLMCompletion"
    (start,), (end,) = told.of(f"{kind}StartEvent"), told.of(f"{kind}EndEvent")
    assert start.model_dict["model_name" if "model_name" in start.model_dict else "class_name"]
    assert ANSWER in str(end.response)
    in_progress = told.of(f"{kind}InProgressEvent")
    assert len(in_progress) == (len(pieces) if "stream" in way else 0)
    other = "LLMCompletion" if kind == "LLMChat" else "LLMChat"
    assert not told.of(f"{other}StartEvent")


@pytest.mark.parametrize("way", WAYS)
def test_what_events_say_of_the_llm_holds_no_secret(way: str) -> None:
    with recorded() as told:
        WAYS[way](llm(api_key="sk-secret"))
    assert told.events
    assert "sk-secret" not in " ".join(event.model_dump_json(fallback=str) for event in told.events)


def test_it_is_an_llm_of_llamaindex_and_says_what_it_is() -> None:
    model: Any = llm()
    assert isinstance(model, LLM)
    assert model.metadata.model_name == "big+tiny"
    assert model.metadata.is_chat_model
    assert model.metadata.is_function_calling_model
