"""RelayGen rule by rule: a pure function of the transcript and of how the last segment ended."""

from __future__ import annotations

from typing import Any

import pytest

from relay_integrations import ConfigError, CueProfile, make_policy
from relay_integrations.policies import AllCues, Plan, RelayGen
from relay_integrations.roles import Role, SegmentEndCause
from relay_integrations.transcript import SegmentEnd
from tests.unit.support import brief, transcript

CUES = CueProfile.of("So", "Thus")


def after(role: Role, cause: SegmentEndCause, *, closed: bool = False, tools: bool = False, **settings: Any) -> Plan | None:
    """What RelayGen plans after a segment ended."""
    policy = RelayGen(cues=CUES, **settings)
    return policy.next(transcript(closed=closed, tools=tools, segments=1), SegmentEnd(role, cause, "So" if cause == "cue" else None))


# --- the reasoning


def test_the_large_model_starts_and_writes_until_a_cue() -> None:
    plan = RelayGen(cues=CUES).next(transcript(), None)
    assert plan is not None
    assert brief(plan) == ("large", "start")
    assert plan.stop.cues == CUES.cue_set
    assert plan.max_tokens is None


def test_it_owes_five_tokens_before_a_cue_counts() -> None:
    start, again = RelayGen(cues=CUES).next(transcript(), None), after("small", "sentence_end")
    assert start is not None
    assert again is not None
    assert start.stop.min_tokens == again.stop.min_tokens == 5
    fewer = after("small", "sentence_end", min_large_tokens=0)
    assert fewer is not None
    assert fewer.stop.min_tokens == 0


def test_behind_a_cue_the_small_model_goes_on_to_the_sentence_end_or_a_limit() -> None:
    plan = after("large", "cue", max_small_tokens=40)
    assert plan is not None
    assert brief(plan) == ("small", "cue")
    assert (plan.stop.sentences, plan.stop.cues, plan.max_tokens) == (1, None, 40)
    assert plan.stop.repetition


@pytest.mark.parametrize("cause", ["sentence_end", "segment_limit", "eos", "repetition"])
def test_however_the_small_models_sentence_ends_the_large_one_goes_on(cause: SegmentEndCause) -> None:
    plan = after("small", cause)
    assert plan is not None
    assert brief(plan) == ("large", cause)
    assert plan.stop.cues == CUES.cue_set


def test_the_end_of_the_turn_is_for_the_large_model_to_say() -> None:
    assert brief(after("small", "eos")) == ("large", "eos")
    assert after("large", "eos") is None


def test_a_closing_tag_by_either_ends_a_segment() -> None:
    plans = [RelayGen(cues=CUES).next(transcript(), None), after("large", "cue")]
    assert all(plan is not None and plan.stop.think_end for plan in plans)


# --- the answer


@pytest.mark.parametrize("closer", ["large", "small"])
@pytest.mark.parametrize("answers", ["large", "small"])
def test_whoever_closes_the_reasoning_the_answer_role_answers(closer: Role, answers: Role) -> None:
    plan = after(closer, "think_end", closed=True, answer_role=answers)
    assert plan is not None
    assert brief(plan) == (answers, "think_end")
    assert (plan.stop.cues, plan.stop.sentences, plan.max_tokens) == (None, 0, None)


@pytest.mark.parametrize("role", ["large", "small"])
def test_the_end_of_the_answer_is_the_end(role: Role) -> None:
    assert after(role, "eos", closed=True) is None


def test_a_loop_in_the_answer_hands_back_to_the_large_model_to_the_end() -> None:
    plan = after("small", "repetition", closed=True)
    assert plan is not None
    assert brief(plan) == ("large", "repetition")
    assert not plan.stop.repetition


def test_without_reasoning_the_answer_itself_is_relayed_by_cues() -> None:
    assert brief(after("large", "cue")) == ("small", "cue")
    assert brief(after("small", "sentence_end")) == ("large", "sentence_end")


# --- tools


def test_with_tools_the_large_model_opens_the_answer() -> None:
    plan = after("small", "think_end", closed=True, tools=True)
    assert plan is not None
    assert brief(plan) == ("large", "think_end")
    assert plan.stop.sentences == 1
    assert not plan.stop.past_tool_calls


def test_if_that_was_no_call_the_answer_role_takes_over_at_the_sentence_end() -> None:
    plan = after("large", "sentence_end", closed=True, tools=True)
    assert plan is not None
    assert brief(plan) == ("small", "sentence_end")
    assert plan.stop.sentences == 0


def test_the_role_that_writes_tool_calls_can_be_set() -> None:
    plan = after("large", "think_end", closed=True, tools=True, tool_call_role="small")
    assert plan is not None
    assert brief(plan) == ("small", "think_end")
    assert plan.stop.sentences == 0, "the small model answers too, so there is nothing to take over"


def test_a_large_model_that_answers_too_keeps_the_answer() -> None:
    plan = after("large", "think_end", closed=True, tools=True, answer_role="large")
    assert plan is not None
    assert brief(plan) == ("large", "think_end")
    assert plan.stop.sentences == 0


# --- settings


def test_a_policy_without_cues_takes_the_engines_and_keeps_its_own() -> None:
    other = CueProfile.of("Now")
    assert RelayGen().with_cues(CUES) == RelayGen(cues=CUES)
    assert RelayGen(cues=CUES).with_cues(other) == RelayGen(cues=CUES)


def test_all_cues_is_relaygen_with_the_whole_lexicon() -> None:
    policy = AllCues()
    assert not policy.needs_cues
    plan = policy.next(transcript(), None)
    assert plan is not None
    assert plan.stop.cues is not None
    assert len(plan.stop.cues.cues) == 91


@pytest.mark.parametrize("settings", [{"min_large_tokens": -1}, {"max_small_tokens": 0}, {"answer_role": "both"}, {"tool_call_role": None}])
def test_settings_out_of_range_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"policy 'relaygen': {next(iter(settings))}"):
        make_policy("relaygen", **settings)
