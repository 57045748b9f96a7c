"""A user's stop sequences and the token limit, wherever they fall in a relay."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from relay_integrations import Event
from relay_integrations.backends.scripted import EOS, ScriptedBackend, Vocabulary
from relay_integrations.policies import Schedule
from tests.unit.support import MATHS, WEATHER, both_ways, causes, continuing, reasons, relay, running, said, strangers, turns

TALK = "<think>We think a while. So, Mia has 7 coins. Then on we go and on.</think>The answer is 7, I think."


@pytest.mark.parametrize(
    ("stop", "where"),
    [
        (" while", "in the first segment"),
        (" has 7", "in a small segment"),
        (", Mia", "over a handoff to the small model"),
        ("coins. Then", "over a handoff to the large model"),
        ("So, Mia has 7 coins. Then", "over three segments"),
        ("ia h", "in mid-token"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_a_stop_sequence_in_the_reasoning_ends_the_run_there(stop: str, where: str, chunk: int) -> None:
    with relay(continuing(TALK, chunk=chunk)) as engine:
        result = both_ways(engine, "hi", stop=[stop])
    reasoning = TALK.removeprefix("<think>")
    assert result.reasoning == reasoning[: reasoning.index(stop)]
    assert result.text == ""
    assert (result.finish_reason, result.stop_sequence) == ("stop", stop)
    assert causes(result)[-1] == "stop"


@pytest.mark.parametrize("stop", [" is 7", "The", "think."])
def test_a_stop_sequence_in_the_answer_ends_the_run_there(stop: str) -> None:
    with relay(TALK) as engine:
        result = both_ways(engine, "hi", stop=[stop, "never"])
    answer = TALK.partition("</think>")[2]
    assert result.text == answer[: answer.index(stop)]
    assert (result.finish_reason, result.stop_sequence) == ("stop", stop)


def test_no_stop_sequence_no_report_of_one() -> None:
    with relay(TALK) as engine:
        result = both_ways(engine, "hi", stop=["never"])
    assert (result.finish_reason, result.stop_sequence) == ("stop", None)


@pytest.mark.parametrize("stop", ["think", "</", "<", ">"])
def test_a_tag_never_stops_a_run_and_never_leaks(stop: str) -> None:
    with relay(TALK.replace(", I think", "")) as engine:
        result = both_ways(engine, "hi", stop=[stop])
    if stop == "think":  # the model says it, too
        assert (result.reasoning, result.stop_sequence) == ("We ", "think")
    else:
        assert (result.text, result.stop_sequence) == ("The answer is 7.", None)


def test_text_that_may_become_a_stop_sequence_is_not_shown_before_it_is_none() -> None:
    with relay("<think>We think a while. So, END. of the END of it.</think>Yes.") as engine:
        shown = [said(events, "reasoning") for events in beginnings(engine.stream("hi", seed=1, stop=["END of"]))]
    whole = "We think a while. So, END. of the "
    assert shown[-1] == whole
    assert all(whole.startswith(text) for text in shown)


def beginnings(events: Iterable[Event]) -> list[list[Event]]:
    seen = list(events)
    return [seen[: n + 1] for n in range(len(seen))]


def test_after_a_stop_no_segment_starts_and_nothing_runs() -> None:
    with relay(TALK) as engine:
        result = engine.generate("hi", seed=1, stop=["Mia"])
        assert running(engine) == 0
    assert len(result.segments) == 2
    assert result.usage.requests == 2


def test_a_stop_sequence_counts_in_a_single_models_answer() -> None:
    with relay("a b END c", policy="large-only") as engine:
        assert both_ways(engine, "hi", stop="END").text == "a b "


def test_a_stop_sequence_inside_a_tool_call_does_not_count() -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "END"}}\n</tool_call>'
    with relay(call) as engine:
        result = both_ways(engine, "hi", stop=["END"], tools=[WEATHER])
    assert result.tool_calls[0].valid
    assert result.finish_reason == "tool_calls"


# --- max_tokens


def test_the_limit_in_the_reasoning_leaves_the_reasoning_and_an_empty_answer() -> None:
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi", max_tokens=8)
    assert (result.finish_reason, result.text) == ("length", "")
    assert result.reasoning == "First we add 3.5 and"
    assert result.usage.completion_tokens == result.usage.reasoning_tokens == 8


@pytest.mark.parametrize("limit", range(1, 44))
def test_the_limit_holds_to_the_token_wherever_it_falls(limit: int) -> None:
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi", max_tokens=limit)
    ids = [i for segment in result.segments for i in segment.ids]
    whole = [*Vocabulary().encode(MATHS), EOS]
    assert len(ids) == result.usage.completion_tokens == min(limit, len(whole))
    assert result.finish_reason == ("length" if limit < len(whole) else "stop")
    assert all(segment.tokens for segment in result.segments), "no role is called for no token"


def test_the_limit_on_the_closing_tag_says_length() -> None:
    with relay("<think>a</think>b") as engine:
        result = both_ways(engine, "hi", max_tokens=3)
    assert (result.finish_reason, result.reasoning, result.text) == ("length", "a", "")


def test_the_limit_in_a_tool_call_says_length() -> None:
    with relay('<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>') as engine:
        result = both_ways(engine, "hi", max_tokens=12, tools=[WEATHER])
    assert result.finish_reason == "length"
    assert not result.tool_calls[0].valid


def test_the_limit_in_mid_character_shows_whole_characters_only() -> None:
    pair = [ScriptedBackend("a é", vocabulary=Vocabulary("bytes"), think_tags=None) for _ in "LS"]
    with relay(*pair, policy="large-only") as engine:
        result = both_ways(engine, "hi", max_tokens=3)
    assert (result.text, result.finish_reason, result.usage.completion_tokens) == ("a ", "length", 3)


def test_the_last_token_of_the_sequence_may_be_the_last_allowed() -> None:
    with relay("a b", policy="large-only") as engine:
        assert both_ways(engine, "hi", max_tokens=3).finish_reason == "stop"
        assert both_ways(engine, "hi", max_tokens=2).finish_reason == "length"


# --- the window


def test_without_a_limit_the_window_is_filled() -> None:
    with relay(*(ScriptedBackend("a " * 100, context_window=20) for _ in "LS"), policy="large-only") as engine:
        result = both_ways(engine, "hi")
        assert engine.backends["large"].requests[0].max_tokens == 20 - result.usage.prompt_tokens  # type: ignore[attr-defined]
    assert result.usage.total_tokens == 20
    assert result.finish_reason == "length"


def test_where_the_small_window_ends_the_large_model_goes_on_alone() -> None:
    vocabulary = Vocabulary()
    pair = [ScriptedBackend(MATHS, vocabulary=vocabulary, context_window=window) for window in (1000, 22)]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
        assert all(len(request.ids) + request.max_tokens <= 22 for request in pair[1].requests)
    assert reasons(result) == ["cue", "fallback"]
    assert turns(result)[1:] == [("small", " Mia now has 7.5"), ("large", MATHS[MATHS.index(" coins") :])]
    assert result.text == "The answer is 7.5."


def test_a_small_window_that_is_full_at_a_cue_is_seen_in_the_next_segment() -> None:
    vocabulary = Vocabulary()
    pair = [ScriptedBackend(MATHS, vocabulary=vocabulary, context_window=window) for window in (1000, 16)]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
    assert [(segment.role, segment.reason) for segment in result.segments] == [("large", "start"), ("large", "fallback")]
    assert pair[1].requests == []


def test_a_prompt_that_does_not_fit_the_small_window_leaves_the_large_model_alone() -> None:
    vocabulary = Vocabulary()
    pair = [ScriptedBackend(MATHS, vocabulary=vocabulary, context_window=window) for window in (1000, 4)]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == [("large", MATHS)]
    assert result.segments[0].reason == "fallback"


@pytest.mark.parametrize("window", range(8, 60, 3))
def test_no_request_ever_exceeds_a_window_even_where_text_is_encoded_anew(window: int) -> None:
    pair = strangers(MATHS)
    pair[1] = ScriptedBackend(MATHS, vocabulary=Vocabulary("chars", "tiny"), context_window=window + 31)
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
        for request in pair[1].requests:
            assert len(request.ids) + request.max_tokens <= window + 31
    assert result.text == "The answer is 7.5."


def test_where_the_large_window_ends_all_ends() -> None:
    vocabulary = Vocabulary()
    pair = [ScriptedBackend(MATHS, vocabulary=vocabulary, context_window=window) for window in (20, 1000)]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
    assert result.finish_reason == "length"
    assert result.usage.total_tokens == 20


def test_segments_may_be_cut_anywhere_by_a_schedule_too() -> None:
    with relay(TALK, policy=Schedule(segments=(("large", 2), ("small", 3)))) as engine:
        result = both_ways(engine, "hi", stop=["7 coins. Th"])
    assert result.reasoning == "We think a while. So, Mia has "
