"""The eight methods: what they return, streamed or not, and what of a call reaches the models."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import TextBlock, ThinkingBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate

from llamaindex_relay import Relay
from relay_integrations import ConfigError, PromptTooLong
from relay_integrations.backends.scripted import ScriptedBackend
from tests.unit.llamaindex_support import ANSWER, HI, REASONING, WAYS, llm
from tests.unit.support import MATHS, backend, continuing, relay

CHATS = [name for name in WAYS if "chat" in name]
COMPLETIONS = [name for name in WAYS if "complete" in name]
STREAMS = [name for name in WAYS if "stream" in name]


def text(response: Any) -> str:
    return response.text if hasattr(response, "text") else response.message.content


@pytest.mark.parametrize("way", WAYS)
def test_each_says_the_answer_and_the_answer_alone(way: str) -> None:
    assert text(WAYS[way](llm(seed=1))[-1]) == ANSWER


@pytest.mark.parametrize("way", CHATS)
def test_a_chat_holds_one_block_of_reasoning_and_one_of_text(way: str) -> None:
    for response in WAYS[way](llm(seed=1)):
        kinds = [type(block) for block in response.message.blocks]
        assert kinds in ([ThinkingBlock, TextBlock], [TextBlock])
    thinking, _ = response.message.blocks
    assert (thinking.content, thinking.num_tokens) == (REASONING, response.raw["usage"]["completion_tokens_details"]["reasoning_tokens"])


@pytest.mark.parametrize("way", STREAMS)
def test_a_stream_comes_in_pieces_that_grow_to_what_is_returned_whole(way: str) -> None:
    responses = WAYS[way](llm(seed=1))
    assert len(responses) > 5
    assert "".join(response.delta for response in responses) == ANSWER
    so_far = [text(response) or "" for response in responses]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(so_far))
    (whole,) = WAYS[way.replace("stream_", "")](llm(seed=1))
    assert text(responses[-1]) == text(whole)
    assert _without_times(responses[-1].raw) == _without_times(whole.raw)
    assert "chat" not in way or responses[-1].message == whole.message


def _without_times(raw: dict[str, Any]) -> dict[str, Any]:
    return {**raw, "relay": {**raw["relay"], "segments": [{**s, "started": 0, "ended": 0} for s in raw["relay"]["segments"]]}}


@given(chunk=st.integers(1, 40), words=st.lists(st.sampled_from(["So", ", we", ". ", "Thus ", "ä", "</th", "ink", "\n", "<"]), max_size=12))
def test_reasoning_streams_apart_and_whole_however_it_is_cut(chunk: int, words: list[str]) -> None:
    thought, answer = "We " + "".join(words) + ".", "It is " + "".join(reversed(words)) + "!"
    if "</think>" in thought + answer:
        return
    script = continuing(f"<think>\n{thought}\n</think>\n\n{answer}", chunk=chunk)
    responses = WAYS["stream_chat"](llm(script, seed=1))
    assert "".join(response.additional_kwargs.get("thinking_delta", "") for response in responses) == thought + "\n"
    assert "".join(response.delta for response in responses) == responses[-1].message.content == answer
    assert responses[-1].message.blocks[0].content == thought + "\n"


@pytest.mark.parametrize("way", CHATS)
def test_each_piece_of_a_stream_says_who_wrote_it(way: str) -> None:
    *pieces, last = WAYS[way](llm(seed=1))
    assert {piece.raw["relay"]["model"] for piece in pieces} == ({"big", "tiny"} if pieces else set())
    relay = last.raw["relay"]
    assert relay["handoffs"] == {"cue": 2, "sentence_end": 2, "think_end": 1}
    assert [segment["role"] for segment in relay["segments"]] == ["large", "small"] * 3
    assert relay["finish_reason"] == "stop"
    assert relay["tokens"]["large"] + relay["tokens"]["small"] == last.raw["usage"]["completion_tokens"]


@pytest.mark.parametrize("way", COMPLETIONS)
@pytest.mark.parametrize("formatted", [False, True])
def test_a_prompt_is_formatted_once_unless_it_is_already(way: str, formatted: bool) -> None:
    model = llm(completion_to_prompt=lambda prompt: f"[{prompt}]")
    WAYS[way](model, formatted=formatted)
    ((message,), _, _) = backend(model.engine, "large").rendered[-1]  # type: ignore[arg-type, misc]
    assert (message.role, message.content) == ("user", "hi" if formatted else "[hi]")


OPTIONS: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "presence_penalty": 0.5}


@pytest.mark.parametrize("way", WAYS)
def test_options_of_a_call_reach_both_models_over_those_of_the_llm(way: str) -> None:
    model = llm(temperature=0.1, seed=3)
    WAYS[way](model, **OPTIONS, max_tokens=999)
    for role in ("large", "small"):
        request = backend(model.engine, role).requests[0]  # type: ignore[arg-type]
        assert {name: getattr(request.sampling, name) for name in OPTIONS} == OPTIONS
    first = backend(model.engine, "large").requests[0]  # type: ignore[arg-type]
    assert first.max_tokens == 999


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_sequence_ends_the_answer_and_the_relays_own_stops_never_show(way: str) -> None:
    responses = WAYS[way](llm(stop=["never"]), stop=["is 7"])
    assert text(responses[-1]) == "The answer "
    assert responses[-1].raw["relay"]["stop_sequence"] == "is 7"


@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_argument_is_an_error_before_anything_is_generated(way: str) -> None:
    model = llm()
    with pytest.raises(ConfigError, match="unknown argument 'temprature'"):
        WAYS[way](model, temprature=1)
    assert backend(model.engine, "large").requests == []  # type: ignore[arg-type]


def test_several_answers_are_refused() -> None:
    with pytest.raises(ConfigError, match="one answer at a time"):
        llm().chat(HI, n=2)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_may_choose_another_policy(way: str) -> None:
    for chosen in ({"model": "large-only"}, {"policy": "large-only"}, {"model": "big"}):
        raw = WAYS[way](llm(), **chosen)[-1].raw
        assert (raw["model"], raw["relay"]["handoffs"]) == ("big+tiny:large-only", {})


def test_a_seed_repeats_a_call() -> None:
    model = llm()
    assert model.chat(HI, seed=5).raw["relay"]["seed"] == 5
    assert (
        [request.seed for request in backend(model.engine, "large").requests[:1]]
        == [  # type: ignore[arg-type]
            request.seed
            for request in backend(_called(seed=5).engine, "large").requests[:1]  # type: ignore[arg-type]
        ]
    )


def _called(**settings: Any) -> Any:
    model = llm(**settings)
    model.chat(HI)
    return model


def test_a_conversation_reaches_the_template_as_it_is() -> None:
    model = llm()
    model.chat([ChatMessage(role="system", content="Be brief."), *HI, ChatMessage(role="assistant", content="Yes?"), *HI])
    messages, _, _ = backend(model.engine, "large").rendered[-1]  # type: ignore[arg-type]
    assert [(m.role, m.content) for m in messages] == [("system", "Be brief."), ("user", "hi"), ("assistant", "Yes?"), ("user", "hi")]


def test_what_is_too_long_is_an_error_and_nothing_is_cut() -> None:
    large = ScriptedBackend(MATHS, name="big", context_window=200)
    with pytest.raises(PromptTooLong):
        Relay(engine=relay(large, ScriptedBackend(MATHS))).chat([ChatMessage(role="user", content="a b " * 100)])
    assert large.requests == []


def test_without_reasoning_there_is_no_block_of_it() -> None:
    response = llm("Just so.", reasoning=False).chat(HI)
    assert [type(block) for block in response.message.blocks] == [TextBlock]
    assert response.message.content == "Just so."


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_is_cut_off_in_its_reasoning_is_empty_and_keeps_the_reasoning(way: str) -> None:
    last = WAYS[way](llm(), max_tokens=12)[-1]
    assert text(last) == ""
    assert (last.raw["relay"]["finish_reason"], last.raw["usage"]["completion_tokens"]) == ("length", 12)
    assert "chat" not in way or last.message.blocks[0].content.startswith("First we add")


def test_prompts_are_answered_and_streamed_by_the_answer_alone() -> None:
    prompt = PromptTemplate("How many {what}?")
    assert llm().predict(prompt, what="coins") == ANSWER
    assert "".join(llm().stream(prompt, what="coins")) == ANSWER
    assert asyncio.run(llm().apredict(prompt, what="coins")) == ANSWER


def test_a_call_of_the_text_that_tests_use_says_it() -> None:
    assert f"<think>\n{REASONING}</think>\n\n{ANSWER}" == MATHS
