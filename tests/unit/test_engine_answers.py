"""Answers that have to follow a tool choice or a response format: who writes them, where they begin, and what else is dropped."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from relay_integrations import CueProfile, ReasoningClosed, RelayChoice, RelayResult, TextDelta, ThinkTags, ToolCallDelta
from relay_integrations.chat.tool_formats import LLAMA
from relay_integrations.policies import LargeOnly, RandomPolicy, RelayGen, Schedule, SmallOnly
from tests.unit.answer_support import CALL, FORMAT, JSON, LLAMA_CALL, THINK, WEATHER, answering, beginnings, constrained, pair
from tests.unit.support import backend, both_ways, causes, reasons, relay, said, turns

FORCED: dict[str, Any] = {"tools": [WEATHER], "tool_choice": "required"}
REASONED = "We think a while. So, ask. Then on.\n"

REPLIES = pytest.mark.parametrize(
    "reply", [{}, {"chunk": 3}, {"chunk": 1000}, {"chunk": 4, "texts": False}, {"text_apart": True}, {"overrun": True}], ids=str
)


def is_call(result: RelayResult | RelayChoice) -> bool:
    """Whether the answer is the one call, and nothing else."""
    (call,) = result.tool_calls
    wanted = json.loads(CALL.partition('"arguments": ')[2].partition("}\n<")[0])
    return call.valid and call.name == "weather" and json.loads(call.arguments) == wanted and not result.text


# --- the reasoning is free, the answer is one segment


@REPLIES
def test_the_policy_reasons_and_one_role_answers(reply: dict[str, Any]) -> None:
    with answering(replies=(reply, reply)) as engine:
        result = both_ways(engine, "hi", **FORCED)
        assert beginnings(backend(engine, "large")) == [""] * 2
        assert not constrained(backend(engine, "small"))
    assert turns(result) == [
        ("large", "<think>\nWe think a while. So,"),
        ("small", " ask."),
        ("large", " Then on.\n</think>"),
        ("large", CALL),
    ]
    assert causes(result) == ["cue", "sentence_end", "think_end", "eos"]
    assert [s.reason for s in result.segments] == ["start", "cue", "sentence_end", "think_end"]
    assert reasons(result) == ["cue", "sentence_end"], "the same role goes on"
    assert (result.reasoning, result.finish_reason) == (REASONED, "tool_calls")
    assert is_call(result)


def test_the_constraint_begins_behind_the_closing_tag() -> None:
    with answering() as engine:
        both_ways(engine, "hi", **FORCED)
        large = backend(engine, "large")
        (request, _) = constrained(large)
        assert large.vocabulary.bytes_of(request.ids[: request.constraint_start]).decode().endswith("Then on.\n</think>")
        assert all(r.constraint is None for r in large.requests if r not in constrained(large))


def test_line_breaks_in_front_are_no_text() -> None:
    with answering(answer="\n\n" + JSON) as engine:
        assert both_ways(engine, "hi", response_format=FORMAT).text == JSON


@pytest.mark.parametrize("options", [{"reasoning": False}, {"think_tags": None}], ids=str)
def test_without_reasoning_the_first_token_is_held_to_it(options: dict[str, Any]) -> None:
    asked = {k: v for k, v in options.items() if k == "reasoning"}
    with answering(**{k: v for k, v in options.items() if k != "reasoning"}) as engine:
        result = both_ways(engine, "hi", **FORCED, **asked)
        (request, _) = constrained(backend(engine, "large"))
    assert request.constraint_start == request.output_start == len(request.ids)
    assert turns(result) == [("large", CALL)]
    assert result.segments[0].reason == "start"
    assert is_call(result)


@REPLIES
def test_a_template_may_have_opened_the_reasoning(reply: dict[str, Any]) -> None:
    with answering(THINK.removeprefix("<think>\n"), open_reasoning=True, replies=(reply, reply)) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert turns(result)[-1] == ("large", CALL)
    assert result.reasoning == REASONED
    assert is_call(result)


@pytest.mark.parametrize("split", ["words", "chars", "bytes"])
@pytest.mark.parametrize("free", ["It is warm. So, it is.", "\n\n It is warm.", "<tool_call>", "{}", "<thin air", "<", "\n", "", "<b"])
@pytest.mark.parametrize("reply", [{}, {"chunk": 1000}, {"chunk": 2, "texts": False}], ids=str)
def test_text_that_opens_no_reasoning_is_dropped_and_never_shown(split: str, free: str, reply: dict[str, Any]) -> None:
    with answering(free, split=split, replies=(reply, reply)) as engine:
        events = list(engine.stream("hi", seed=1, **FORCED))
        result = both_ways(engine, "hi", **FORCED)
    assert said(events) == said(events, "reasoning") == ""
    assert turns(result) == [("large", ""), ("large", CALL)]
    assert result.segments[0].discarded > 0 == result.segments[0].tokens
    assert result.usage.discarded_tokens == result.segments[0].discarded
    assert result.usage.completion_tokens == result.segments[1].tokens
    assert not any(isinstance(event, ReasoningClosed) for event in events)
    assert is_call(result)


def test_what_the_dropped_tokens_cost_counts() -> None:
    with answering("It is warm.") as engine:
        result = both_ways(engine, "hi", **FORCED, large_token_budget=3)
    assert result.usage.large_tokens <= 2
    assert is_call(result)


@REPLIES
@pytest.mark.parametrize(
    "policy", [Schedule(segments=(("large", 1), ("small", 1))), RandomPolicy(p=0.5), RelayGen(cues=CueProfile.of("We"))]
)
def test_no_policy_cuts_into_what_may_open_the_reasoning(reply: dict[str, Any], policy: Any) -> None:
    with answering(" \n\n" + THINK, split="chars", policy=policy, replies=(reply, reply)) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert result.segments[0].text.startswith(" \n\n<think>")
    assert (result.reasoning, is_call(result)) == (REASONED, True)


def test_text_in_the_token_of_the_closing_tag_is_not_shown() -> None:
    with answering("<think>a</think>{b}", answer=JSON, split="words", replies=({"chunk": 99, "texts": False},) * 2) as engine:
        result = both_ways(engine, "hi", response_format=FORMAT)
    assert (result.reasoning, result.text) == ("a", JSON)


@pytest.mark.parametrize(
    ("policy", "role"),
    [
        ("relaygen", "large"),
        (RelayGen(cues=CueProfile.of("So"), tool_call_role="small", answer_role="large"), "small"),
        (LargeOnly(), "large"),
        (SmallOnly(), "small"),
        (RandomPolicy(p=1.0), "large"),
        (Schedule(segments=(("small", 4), ("large", 2))), "large"),
    ],
    ids=str,
)
@pytest.mark.parametrize("shared", [True, False])
def test_who_answers_under_which_policy(policy: Any, role: str, shared: bool) -> None:
    with answering(policy=policy, shared=shared) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert turns(result)[-1] == (role, CALL)
    assert "".join(text for _, text in turns(result)[:-1]).rstrip("\n") == THINK
    assert (result.reasoning, is_call(result)) == (REASONED, True)


# --- a turn that ends too early


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("policy", ["relaygen", "large-only", "small-only", "random", "schedule"])
@pytest.mark.parametrize("free", ["<think>\nWe think a while.", "<think>We", "<think>"])
def test_a_turn_that_ends_in_the_reasoning_is_closed_by_force(free: str, policy: str, shared: bool) -> None:
    with answering(free, policy=policy, shared=shared) as engine:
        events = list(engine.stream("hi", seed=1, **FORCED))
        result = both_ways(engine, "hi", **FORCED)
    (closed,) = [event for event in events if isinstance(event, ReasoningClosed)]
    assert closed.by == "constraint"
    assert closed.position == result.usage.reasoning_tokens == sum(s.tokens for s in result.segments[:-1])
    assert result.reasoning == free.removeprefix("<think>").lstrip("\n")
    assert result.usage.forced_tokens > 0
    assert result.usage.discarded_tokens >= 1, "the end of the turn"
    assert turns(result)[-1][1] == CALL
    assert is_call(result)


def test_both_models_are_shown_the_forced_tag_and_not_the_end_of_the_turn() -> None:
    with answering("<think>We think.", policy="large-only") as engine:
        both_ways(engine, "hi", **FORCED)
        (request, _) = constrained(backend(engine, "large"))
        text = backend(engine, "large").vocabulary.bytes_of(request.ids[request.output_start :]).decode()
    assert text == "<think>We think.\n</think>\n\n"
    assert request.constraint_start == len(request.ids)
    assert not set(request.ids) & backend(engine, "large").capabilities.eos_ids


@pytest.mark.parametrize("free", ["", "\n"])
def test_a_turn_that_ends_in_an_opened_reasoning_without_a_word(free: str) -> None:
    with answering(free, open_reasoning=True, policy="large-only") as engine:
        events = list(engine.stream("hi", seed=1, **FORCED))
        result = both_ways(engine, "hi", **FORCED)
    assert [event.by for event in events if isinstance(event, ReasoningClosed)] == ["constraint"]
    assert (result.reasoning.strip(), is_call(result)) == ("", True)


def test_a_sentence_of_the_small_model_that_ends_its_turn_is_handed_back_first() -> None:
    large, small = pair()
    small._script = lambda so_far, request: ""
    with relay(large, small) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert reasons(result)[:2] == ["cue", "eos"]
    assert is_call(result)


# --- limits


def test_a_budget_that_is_spent_before_it_leaves_the_whole_answer_to_the_small_model() -> None:
    with answering() as engine:
        result = both_ways(engine, "hi", **FORCED, large_token_budget=8)
        assert beginnings(backend(engine, "small"))[0] == ""
        assert not constrained(backend(engine, "large"))
    assert turns(result)[-1] == ("small", CALL)
    assert result.usage.large_tokens == 8
    assert is_call(result)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("answer", [CALL, "\n\n" + CALL, CALL + "\n" + CALL])
@pytest.mark.parametrize("tokens", range(1, 14))
def test_a_budget_that_is_spent_within_it_hands_the_rest_to_the_small_model(tokens: int, answer: str, shared: bool) -> None:
    with answering(answer=answer, shared=shared) as engine:
        free = both_ways(engine, "hi", **FORCED)
        thought = sum(s.tokens + s.discarded for s in free.segments if s.role == "large" and s.text not in (CALL, answer))
        before = len(constrained(backend(engine, "small")))
        result = both_ways(engine, "hi", **FORCED, large_token_budget=thought + tokens)
        begun = beginnings(backend(engine, "small"))[before]
    assert result.usage.large_tokens == thought + tokens
    assert [s.reason for s in result.segments[-2:]] == ["think_end", "budget"]
    assert turns(result)[-2][1] == begun
    assert turns(result)[-2][1] + turns(result)[-1][1] == answer
    assert [call.arguments for call in result.tool_calls] == [call.arguments for call in free.tool_calls]
    assert result.finish_reason == "tool_calls"
    assert all(call.valid for call in result.tool_calls)


@pytest.mark.parametrize("tokens", [1, 5, 9])
def test_where_the_small_model_writes_calls_in_another_way_the_answer_is_cut(tokens: int) -> None:
    with answering(small_answer=LLAMA_CALL, formats=(pair()[0].capabilities.tool_format, LLAMA)) as engine:
        thought = 12
        result = both_ways(engine, "hi", **FORCED, large_token_budget=thought + tokens)
    assert result.finish_reason == "length"
    assert turns(result)[-1][0] == "large"
    assert not any(call.valid for call in result.tool_calls)


def test_each_role_is_held_to_its_own_format() -> None:
    with answering(small_answer=LLAMA_CALL, formats=(pair()[0].capabilities.tool_format, LLAMA)) as engine:
        result = both_ways(engine, "hi", **FORCED, large_token_budget=8)
        (large,), (small,) = ({r.constraint for r in constrained(backend(engine, role))} or {None} for role in ("large", "small"))
    assert turns(result)[-1] == ("small", LLAMA_CALL)
    assert (result.tool_calls[0].arguments, result.finish_reason) == ('{"city": "Oslo"}', "tool_calls")
    assert large is None
    assert small is not None
    assert small.rows[0].pieces[0].before == '{"name": "weather", "parameters": '


def test_a_spent_reasoning_budget_leads_to_the_answer() -> None:
    with answering() as engine:
        events = list(engine.stream("hi", seed=1, **FORCED, reasoning_budget=4))
        result = both_ways(engine, "hi", **FORCED, reasoning_budget=4)
    assert [event.by for event in events if isinstance(event, ReasoningClosed)] == ["budget"]
    assert result.usage.reasoning_tokens == 4
    assert is_call(result)


@pytest.mark.parametrize("most", range(1, 40))
def test_an_answer_that_is_cut_by_the_limit_says_so(most: int) -> None:
    with answering() as engine:
        whole = both_ways(engine, "hi", **FORCED)
        result = both_ways(engine, "hi", **FORCED, max_tokens=most)
    assert result.usage.completion_tokens == min(most, whole.usage.completion_tokens)
    if most < whole.usage.completion_tokens - 1:
        assert result.finish_reason == "length"
        assert not any(call.valid for call in result.tool_calls)
    assert "".join(text for _, text in turns(whole)).startswith("".join(text for _, text in turns(result)))


def test_a_limit_leaves_room_for_what_was_dropped() -> None:
    with answering("It is warm.") as engine:
        assert both_ways(engine, "hi", **FORCED, max_tokens=1).usage.completion_tokens == 1


@pytest.mark.parametrize("shared", [True, False])
def test_a_full_window_of_the_small_model_hands_the_rest_to_the_large_one(shared: bool) -> None:
    large, small = pair(shared=shared)
    room = len(small.vocabulary.encode("<user>hi</user><assistant>" + THINK + CALL[:30]))
    small._capabilities = dataclasses.replace(small.capabilities, context_window=room)
    with relay(large, small, policy=RelayGen(cues=CueProfile.of("So"), tool_call_role="small")) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert [s.role for s in result.segments[-2:]] == ["small", "large"]
    assert turns(result)[-2][1]
    assert result.segments[-1].reason == "fallback"
    assert turns(result)[-2][1] + turns(result)[-1][1] == CALL
    assert is_call(result)


# --- stop sequences, choices


def test_a_stop_sequence_counts_in_the_reasoning_and_in_json_and_not_in_a_call() -> None:
    with answering(answer=JSON) as engine:
        assert both_ways(engine, "hi", response_format=FORMAT, stop="degrees").text == '{"city": "St. Ives", "'
        stopped = both_ways(engine, "hi", response_format=FORMAT, stop="while")
    assert (stopped.reasoning, stopped.text, stopped.stop_sequence) == ("We think a ", "", "while")
    with answering() as engine:
        assert is_call(both_ways(engine, "hi", **FORCED, stop="Ives"))


def test_each_choice_is_held_to_it() -> None:
    with answering() as engine:
        result = both_ways(engine, "hi", **FORCED, n=3)
    assert [is_call(choice) for choice in result.choices] == [True] * 3
    assert len({choice.tool_calls[0].id for choice in result.choices}) == 3


def test_think_tags_in_json_are_text() -> None:
    answer = '{"city": "</think><think>a", "degrees": 1}'
    for split in ("words", "chars"):
        with answering(answer=answer, split=split) as engine:
            assert both_ways(engine, "hi", response_format=FORMAT).text == answer


def test_each_model_may_have_think_tags_of_its_own() -> None:
    large, small = pair(shared=False)
    small._capabilities = dataclasses.replace(small.capabilities, think_tags=ThinkTags("[R]", "[/R]"))
    with relay(large, small) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert (result.reasoning, is_call(result)) == (REASONED, True)


def test_the_deltas_of_a_forced_call_come_as_it_is_written() -> None:
    with answering() as engine:
        events = list(engine.stream("hi", seed=1, **FORCED))
    deltas = [event for event in events if isinstance(event, ToolCallDelta)]
    assert (deltas[0].name, deltas[0].arguments) == ("weather", "")
    assert len(deltas) > 5
    assert [d.valid for d in deltas if d.valid is not None] == [True]
    assert not any(isinstance(event, TextDelta) and event.channel == "answer" for event in events)
