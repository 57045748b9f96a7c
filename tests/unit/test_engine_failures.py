"""A backend that fails: the other one goes on, or the error carries all there was. Nothing generated is lost, no error is text."""

from __future__ import annotations

from typing import Any

import pytest

from relay_integrations import (
    BackendError,
    Event,
    FailureRules,
    RelayEngine,
    RelayFailed,
    RelayFinished,
    RelayResult,
    fold,
)
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from relay_integrations.policies import Schedule
from tests.unit.support import (
    MATHS,
    MATHS_TURNS,
    both_ways,
    causes,
    continuing,
    kinds,
    read_to_error,
    reasons,
    relay,
    strangers,
    turns,
)

REASONING = MATHS.removeprefix("<think>\n").partition("</think>")[0]


def dying(after: int = 0, text: str = MATHS) -> Any:
    """A script that fails after so many tokens of each request."""
    return continuing(text, fail_after=after)


def failed_both_ways(engine: RelayEngine, **options: Any) -> tuple[BackendError, list[Event]]:
    """The error of a failing request, after checking that `generate` and `stream` raise the same with the same partial result."""
    with pytest.raises(BackendError) as caught:
        engine.generate("hi", seed=1, **options)
    events, streamed = read_to_error(engine.stream("hi", seed=1, **options))
    assert isinstance(streamed, BackendError)
    assert str(streamed) == str(caught.value)
    assert streamed.partial is not None
    assert caught.value.partial is not None
    assert outline(streamed.partial) == outline(caught.value.partial) == outline(fold(events))
    return caught.value, events


def outline(result: RelayResult) -> list[Any]:
    return [(c.text, c.reasoning, c.finish_reason, c.error, turns(c), causes(c), c.usage) for c in result.choices]


# --- the helper fails


@pytest.mark.parametrize("after", range(4))
def test_where_the_helper_fails_the_leader_goes_on_alone_and_nothing_is_lost(after: int) -> None:
    with relay(MATHS, dying(after)) as engine:
        result = both_ways(engine, "hi")
    kept = "".join([" Mia", " now", " has"][:after])
    assert turns(result) == [MATHS_TURNS[0], ("small", kept), ("large", MATHS.partition("So," + kept)[2])]
    assert reasons(result) == ["cue", "fallback"]
    assert causes(result) == ["cue", "error", "eos"]
    assert result.segments[1].error == "ConnectionError: scripted failure"
    assert (result.reasoning, result.text, result.finish_reason) == (REASONING, "The answer is 7.5.", "stop")


def test_a_helper_is_not_tried_again() -> None:
    with relay(MATHS, dying()) as engine:
        assert both_ways(engine, "hi").segments[1].requests == 1


def test_a_failure_in_mid_character_loses_nothing() -> None:
    text = "日本語 🎉 é ü. " * 3
    for vocabularies in ([Vocabulary("bytes")] * 2, [Vocabulary("bytes", "a"), Vocabulary("bytes", "b")]):
        for after in range(9):
            scripts = (text, continuing(text, fail_after=after))
            pair = [ScriptedBackend(s, vocabulary=v, think_tags=None) for s, v in zip(scripts, vocabularies, strict=True)]
            with relay(*pair, policy=Schedule(segments=(("large", 4), ("small", 50)))) as engine:
                assert both_ways(engine, "hi").text == text


@pytest.mark.parametrize("after", [0, 2])
def test_two_vocabularies_lose_nothing_either(after: int) -> None:
    pair = strangers(MATHS)
    pair[1] = ScriptedBackend(dying(after), name="tiny", vocabulary=Vocabulary("chars", "tiny"))
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
    assert (result.reasoning, result.text) == (REASONING, "The answer is 7.5.")


# --- the leader fails


def test_a_leader_that_fails_is_tried_again_and_goes_on_where_it_was() -> None:
    replies = [Reply("<think>\nFirst we", fail_after=2), continuing(MATHS)]

    def script(so_far: str, request: Any) -> Any:
        return replies[0] if not so_far else replies[1](so_far, request)  # type: ignore[operator]

    with relay(script, MATHS) as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == MATHS_TURNS
    assert result.segments[0].requests == 2
    assert result.segments[0].error is None


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_leader_that_fails_for_good_leaves_the_helper_alone(retries: int) -> None:
    with relay(dying(2), MATHS, on_failure={"retries": retries, "cool_down_after": 99}) as engine:
        result = both_ways(engine, "hi")
    kept = len(Vocabulary().encode("<think>\nFirst we add 3.5 and 4"))
    assert result.segments[0].requests == retries + 1
    assert result.segments[0].tokens == min(2 * (retries + 1), kept)
    assert reasons(result) == ["fallback"]
    assert (result.reasoning, result.text) == (REASONING, "The answer is 7.5.")


def test_the_helper_goes_on_within_the_limits() -> None:
    with relay(dying(2), MATHS) as engine:
        result = both_ways(engine, "hi", max_tokens=10)
    assert (result.usage.completion_tokens, result.finish_reason) == (10, "length")


def test_a_large_model_does_not_go_on_alone_beyond_its_budget() -> None:
    with relay(MATHS, dying(1)) as engine:
        result = both_ways(engine, "hi", large_token_budget=14)
        assert result.usage.large_tokens == 14
        assert result.finish_reason == "length"
    with relay(MATHS, dying(1)) as engine:
        error, _ = failed_both_ways(engine, large_token_budget=12)
    assert error.partial is not None
    assert error.partial.usage.large_tokens == 12


# --- both fail, or the rules say so


def test_where_both_fail_the_error_carries_all_there_was() -> None:
    with relay(dying(3), dying(1), on_failure=FailureRules(retries=0)) as engine:
        error, events = failed_both_ways(engine)
    assert "the small model 'tiny' failed: scripted failure" in str(error)
    assert isinstance(error.__cause__, ConnectionError)
    assert error.partial is not None
    assert turns(error.partial) == [("large", "<think>\nFirst we"), ("small", " add")]
    assert (error.partial.reasoning, error.partial.text) == ("First we add", "")
    assert error.partial.finish_reason == "error"
    assert error.partial.usage.completion_tokens == 4
    assert isinstance(events[-1], RelayFailed)
    assert "scripted failure" not in error.partial.reasoning


@pytest.mark.parametrize(
    ("rule", "large", "small", "at_fault"),
    [("raise", MATHS, dying(1), "small"), ({"small": "raise"}, MATHS, dying(1), "small"), ({"large": "raise"}, dying(1), MATHS, "large")],
)
def test_a_role_may_be_told_to_raise(rule: Any, large: Any, small: Any, at_fault: str) -> None:
    with relay(large, small, on_failure=rule) as engine:
        error, events = failed_both_ways(engine)
        assert engine.backends[at_fault].capabilities.name in str(error)  # type: ignore[index]
        assert f"on_failure={{'{at_fault}': 'continue'}}" in str(error)
    assert kinds(events)[-2:] == ["segment_finished", "relay_failed"]
    assert error.partial is not None
    assert error.partial.reasoning


def test_a_role_that_may_raise_does_not_when_the_other_one_fails() -> None:
    with relay(MATHS, dying(1), on_failure={"large": "raise"}) as engine:
        assert both_ways(engine, "hi").text == "The answer is 7.5."


def test_a_single_model_that_fails_is_tried_again_and_then_raises() -> None:
    with relay(dying(1), policy="large-only") as engine:
        error, _ = failed_both_ways(engine)
    assert error.partial is not None
    assert error.partial.segments[0].requests == 2
    assert error.partial.segments[0].error == "ConnectionError: scripted failure"


def test_held_back_text_is_not_lost_in_a_failure() -> None:
    with relay(dying(2, "Hello\nUs er"), policy="large-only", on_failure={"retries": 0}) as engine:
        error, _ = failed_both_ways(engine, stop=["\nUser:"])
    assert error.partial is not None
    assert error.partial.text == "Hello\nUs"


# --- several choices


def test_one_choice_that_fails_leaves_the_others_alone() -> None:
    starts: list[int] = []

    def script(so_far: str, request: Any) -> Any:
        if not so_far:
            starts.append(1)
        return Reply(MATHS[len(so_far) :], fail_after=2 if len(starts) % 3 == 2 and not so_far else None)

    with relay(script, policy="large-only", on_failure={"retries": 0}) as engine:
        error, events = failed_both_ways(engine, n=3)
    assert error.partial is not None
    assert [choice.finish_reason for choice in error.partial.choices] == ["stop", "error", "stop"]
    assert [choice.text for choice in error.partial.choices] == ["The answer is 7.5.", "", "The answer is 7.5."]
    assert error.partial.choices[1].reasoning == "First"
    assert sum(isinstance(event, RelayFinished) for event in events) == 2
