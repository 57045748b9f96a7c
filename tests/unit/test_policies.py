"""The list of policies, and the baselines among them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from relay_integrations import POLICIES, ConfigError, Policy, make_policy
from relay_integrations.policies import LargeOnly, RandomPolicy, Schedule, SmallOnly
from relay_integrations.roles import Role, SegmentEndCause
from relay_integrations.transcript import SegmentEnd
from tests.unit.support import MATHS, MATHS_TURNS, backend, both_ways, brief, reasons, relay, transcript, turns


def walk(policy: Policy, ends: list[SegmentEndCause], key: int = 0) -> list[tuple[str, str] | None]:
    """The plans of a policy, its segments ending so one after the other."""
    t = transcript(key=key)
    plans, ended = [policy.next(t, None)], None
    for cause in ends:
        assert plans[-1] is not None
        t.begin(plans[-1].role, plans[-1].reason)
        ended = SegmentEnd(plans[-1].role, cause)
        plans.append(policy.next(t, ended))
    return [brief(plan) for plan in plans]


# --- the list


def test_policies_go_by_the_names_of_the_benches() -> None:
    assert list(POLICIES) == ["relaygen", "large-only", "small-only", "random", "all-cues", "schedule"]
    assert all(make_policy(name).name == name for name in POLICIES)


def test_an_unknown_policy_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown policy 'relay-gen'.*relaygen, large-only"):
        make_policy("relay-gen")


def test_an_unknown_setting_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"policy 'random': q: .*its settings: p, seed, max_small_tokens, answer_role"):
        make_policy("random", q=0.5)
    with pytest.raises(ConfigError, match=r"policy 'large-only'.*its settings: none"):
        make_policy("large-only", p=0.5)


def test_a_policy_cannot_be_changed_once_made() -> None:
    with pytest.raises(ValueError, match="frozen"):
        make_policy("random").p = 0.9  # type: ignore[attr-defined]


# --- one model alone


@pytest.mark.parametrize(("policy", "role"), [(LargeOnly(), "large"), (SmallOnly(), "small")])
def test_one_model_alone_writes_one_segment_to_the_end(policy: Policy, role: Role) -> None:
    plan = policy.next(transcript(), None)
    assert plan is not None
    assert brief(plan) == (role, "start")
    assert plan.max_tokens is None
    assert not plan.stop.think_end
    assert policy.roles == (role,)
    assert policy.leader == role
    assert policy.next(transcript(segments=1), SegmentEnd(role, "eos")) is None


# --- random


def test_random_draws_are_the_same_for_the_same_seed_and_prompt() -> None:
    ends: list[SegmentEndCause] = ["sentence_end"] * 10
    assert walk(RandomPolicy(p=0.5, seed=3), ends, key=7) == walk(RandomPolicy(p=0.5, seed=3), ends, key=7)


def test_random_draws_differ_by_seed_and_by_prompt() -> None:
    def lengths(seed: int, key: int) -> list[int]:
        t, policy = transcript(key=key), RandomPolicy(p=0.5, seed=seed)
        drawn = []
        for number in range(20):
            plan = policy.next(t, SegmentEnd("large", "sentence_end") if number else None)
            assert plan is not None
            drawn.append(plan.stop.sentences)
            t.begin(plan.role, plan.reason)
        return drawn

    assert len({tuple(lengths(seed, key)) for seed in (1, 2) for key in (1, 2)}) == 4


@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
def test_random_gives_the_small_model_its_share_of_the_sentences(p: float) -> None:
    sentences: Counter[str] = Counter()
    for key in range(400):
        t, policy = transcript(key=key), RandomPolicy(p=p)
        ended = None
        for _ in range(6):
            plan = policy.next(t, ended)
            assert plan is not None
            sentences[plan.role] += plan.stop.sentences
            t.begin(plan.role, plan.reason)
            ended = SegmentEnd(plan.role, "sentence_end")
    assert sentences["small"] / sentences["large"] == pytest.approx(p / (1 - p), rel=0.15)  # three runs each


@pytest.mark.parametrize(("p", "role"), [(0.0, "large"), (1.0, "small")])
def test_random_with_a_certain_draw_stays_with_one_role(p: float, role: Role) -> None:
    plan = RandomPolicy(p=p).next(transcript(), None)
    assert plan is not None
    assert plan.role == role
    assert plan.stop.sentences > 1000


def test_random_limits_the_small_models_sentences() -> None:
    for key in range(20):
        plan = RandomPolicy(p=0.5, max_small_tokens=30).next(transcript(key=key), None)
        assert plan is not None
        assert plan.max_tokens == (30 * plan.stop.sentences if plan.role == "small" else None)


def test_random_hands_an_early_end_back_and_answers_with_its_answer_role() -> None:
    policy = RandomPolicy(p=0.5, answer_role="large")
    assert brief(policy.next(transcript(segments=1), SegmentEnd("small", "eos"))) == ("large", "eos")
    assert policy.next(transcript(segments=1), SegmentEnd("large", "eos")) is None
    assert brief(policy.next(transcript(segments=1, closed=True), SegmentEnd("small", "think_end"))) == ("large", "think_end")
    assert policy.next(transcript(segments=2, closed=True), SegmentEnd("large", "eos")) is None
    assert brief(policy.next(transcript(segments=1), SegmentEnd("small", "segment_limit"))) == ("large", "segment_limit")


# --- schedule


def test_a_schedule_repeats_its_segments_to_the_end_of_the_sequence() -> None:
    policy = Schedule(segments=(("small", 3), ("large", 4)))
    assert walk(policy, ["segment_limit"] * 3) == [("small", "start"), ("large", "schedule"), ("small", "schedule"), ("large", "schedule")]
    assert policy.next(transcript(segments=1), SegmentEnd("small", "eos")) is None
    plan = policy.next(transcript(), None)
    assert plan is not None
    assert plan.max_tokens == 3


@pytest.mark.parametrize(
    "segments",
    [(), (("large", 0),), (("large", 2), ("large", 3)), (("large", 2), ("small", 3), ("large", 1)), (("medium", 2),), (("large",),)],
)
def test_a_schedule_that_cannot_be_followed_is_refused(segments: Any) -> None:
    with pytest.raises(ConfigError, match="policy 'schedule': segments"):
        make_policy("schedule", segments=segments)


# --- in an engine


@pytest.mark.parametrize("seed", range(6))
def test_random_never_calls_a_model_for_no_sentence(seed: int) -> None:
    with relay("One. Two! Three. Four? Five. Six. Seven", policy=RandomPolicy(p=0.5, seed=seed)) as engine:
        result = both_ways(engine, "hi")
    assert result.text == "One. Two! Three. Four? Five. Six. Seven"
    assert all(segment.tokens for segment in result.segments)


def test_a_schedule_hands_over_after_so_many_tokens() -> None:
    with relay("a b c d e f g", policy=Schedule(segments=(("large", 3), ("small", 2)))) as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == [("large", "a b c"), ("small", " d e"), ("large", " f g")]
    assert reasons(result) == ["schedule", "schedule"]


@pytest.mark.parametrize(("policy", "role"), [("large-only", "large"), ("small-only", "small")])
def test_one_model_alone_asks_nothing_of_the_other(policy: str, role: str) -> None:
    with relay(MATHS, policy=policy) as engine:
        result = both_ways(engine, "hi")
        idle = backend(engine, "small" if role == "large" else "large")
        assert idle.requests == []
        assert idle.rendered == []
    assert turns(result) == [(role, MATHS)]
    assert result.text == "The answer is 7.5."


def test_a_request_may_ask_for_another_policy() -> None:
    with relay(MATHS) as engine:
        assert turns(engine.generate("hi", policy="small-only")) == [("small", MATHS)]
        assert turns(engine.generate("hi", policy=Schedule(segments=(("small", 999),)))) == [("small", MATHS)]
        assert turns(engine.generate("hi")) == MATHS_TURNS
