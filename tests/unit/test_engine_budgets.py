"""Budgets: so many tokens by the large model, so many for the reasoning, and not one more."""

from __future__ import annotations

from typing import Any

import pytest

from relay_integrations import CueProfile, PromptTooLong, ReasoningClosed, RelayEngine, RelayResult, ThinkTags
from relay_integrations.backends.scripted import Reply, Script, ScriptedBackend, Vocabulary
from relay_integrations.policies import RelayGen, Schedule
from tests.unit.support import MATHS, MATHS_TURNS, WEATHER, backend, both_ways, causes, continuing, reasons, relay, strangers, turns

# --- the large model's budget


@pytest.mark.parametrize("budget", range(30))
@pytest.mark.parametrize("reply", [{}, {"overrun": True}, {"chunk": 7}])
def test_the_large_models_budget_is_never_exceeded_by_one_token(budget: int, reply: dict[str, Any]) -> None:
    with relay(continuing(MATHS, **reply)) as engine:
        result = both_ways(engine, "hi", large_token_budget=budget)
        if not reply:
            assert backend(engine, "large").generated == 2 * min(budget, result.usage.large_tokens)
    assert result.usage.large_tokens <= budget
    assert (result.text, result.finish_reason) == ("The answer is 7.5.", "stop"), "the small model goes on"


def test_where_the_budget_is_spent_the_small_model_goes_on_and_an_event_says_so() -> None:
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi", large_token_budget=6)
    assert turns(result) == [("large", "<think>\nFirst we add 3."), ("small", "5" + MATHS.partition("3.5")[2])]
    assert reasons(result) == ["budget"]
    assert causes(result) == ["budget", "eos"]
    assert result.usage.handoffs == {"budget": 1}


def test_a_budget_that_is_spent_while_the_small_model_writes_is_seen_in_its_next_segment() -> None:
    spent = len(Vocabulary().encode(MATHS_TURNS[0][1]))
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi", large_token_budget=spent)
    assert result.usage.large_tokens == spent
    assert [(segment.role, segment.reason) for segment in result.segments] == [("large", "start"), ("small", "cue"), ("small", "budget")]


def test_a_budget_of_nothing_leaves_the_small_model_alone() -> None:
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi", large_token_budget=0)
        assert backend(engine, "large").requests == []
    assert turns(result) == [("small", MATHS)]
    assert result.segments[0].reason == "budget"


def test_a_share_is_of_the_most_tokens_and_known_at_the_start() -> None:
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi", large_token_budget=0.25, max_tokens=40)
    assert result.usage.large_tokens == 10


def test_dropped_tokens_were_paid_for_too() -> None:
    """The large model's look-ahead counts, so what it generates never exceeds its budget."""
    with relay(MATHS, policy="random") as engine:
        for budget in range(1, 20):
            before = backend(engine, "large").generated
            engine.generate("hi", seed=1, large_token_budget=budget)
            assert backend(engine, "large").generated - before <= budget


def test_the_budget_holds_in_the_answer_too() -> None:
    with relay(MATHS, policy=RelayGen(cues=CueProfile.of("never"), answer_role="large")) as engine:
        result = both_ways(engine, "hi", large_token_budget=33)
    assert result.usage.large_tokens == 33
    assert reasons(result) == ["budget"]
    assert result.text == "The answer is 7.5."


def test_a_large_model_alone_ends_with_its_budget() -> None:
    with relay(MATHS, policy="large-only") as engine:
        result = both_ways(engine, "hi", large_token_budget=5)
    assert (result.usage.large_tokens, result.finish_reason) == (5, "length")


# --- the reasoning's budget


def thinks_on(answer: str) -> Script:
    """Thinks for ever, and answers when its reasoning has been closed."""

    def script(so_far: str, request: object) -> str:
        if "</think>" not in so_far:
            return ("" if "<think>" in so_far else "<think>\n") + " and on" * 50
        behind = so_far.partition("</think>")[2].lstrip("\n")
        return answer[len(behind) :] if answer.startswith(behind) else ""

    return script


@pytest.mark.parametrize("budget", [1, 2, 7, 20])
def test_a_spent_reasoning_budget_forces_the_closing_tag(budget: int) -> None:
    with relay(thinks_on("Yes, it is.")) as engine:
        events = list(engine.stream("hi", seed=1, reasoning_budget=budget))
        result = both_ways(engine, "hi", reasoning_budget=budget)
    (closed,) = [event for event in events if isinstance(event, ReasoningClosed)]
    assert (closed.by, closed.position) == ("budget", budget)
    assert result.usage.reasoning_tokens == budget
    assert (result.text, result.finish_reason) == ("Yes, it is.", "stop")
    assert reasons(result) == ["think_end"]


def test_forced_tokens_are_charged_to_no_role_and_sent_to_both() -> None:
    vocabulary = Vocabulary()
    pair = [ScriptedBackend(thinks_on("Yes."), vocabulary=vocabulary) for _ in "LS"]
    with relay(*pair) as engine:
        result = engine.generate("hi", seed=1, reasoning_budget=3)
    forced = vocabulary.encode("\n</think>\n\n")
    assert result.usage.forced_tokens == len(forced)
    assert result.usage.large_tokens + result.usage.small_tokens == result.usage.completion_tokens
    assert [segment.text for segment in result.segments] == ["<think>\n and", "Yes."]
    assert list(pair[1].requests[0].ids[-len(forced) :]) == forced


@pytest.mark.parametrize("opened", [True, False])
def test_a_budget_of_nothing_closes_the_reasoning_at_once(opened: bool) -> None:
    vocabulary = Vocabulary()
    pair = [ScriptedBackend(thinks_on("Yes."), vocabulary=vocabulary, open_reasoning=opened) for _ in "LS"]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi", reasoning_budget=0)
    assert (result.reasoning.strip(), result.text) == ("", "Yes.")
    assert result.usage.reasoning_tokens == (0 if opened else 1)


def test_reasoning_that_ends_by_itself_is_left_alone() -> None:
    with relay(MATHS) as engine:
        plain, roomy = both_ways(engine, "hi"), both_ways(engine, "hi", reasoning_budget=1000)
    assert turns(plain) == turns(roomy)
    assert roomy.usage.forced_tokens == 0


def test_without_reasoning_there_is_nothing_to_close() -> None:
    with relay("Just an answer of so many words.") as engine:
        result = both_ways(engine, "hi", reasoning_budget=2)
    assert (result.text, result.usage.forced_tokens) == ("Just an answer of so many words.", 0)


def test_the_budget_runs_out_in_a_small_segment_too() -> None:
    with relay(
        lambda so_far, _: "Yes." if "</think>" in so_far else "<think>We think a while. So,",
        lambda so_far, _: "Yes." if "</think>" in so_far else " on" * 99,
    ) as engine:
        result = both_ways(engine, "hi", reasoning_budget=10)
    assert result.usage.reasoning_tokens == 10
    assert [(segment.role, segment.cause) for segment in result.segments] == [("large", "cue"), ("small", "budget"), ("small", "eos")]
    assert result.text == "Yes."


@pytest.mark.parametrize("policy", ["large-only", "small-only", Schedule(segments=(("large", 3), ("small", 2))), "random"])
def test_the_reasoning_is_closed_under_any_policy(policy: Any) -> None:
    with relay(thinks_on("Yes, it is."), policy=policy) as engine:
        result = both_ways(engine, "hi", reasoning_budget=8)
    assert result.usage.reasoning_tokens == 8
    assert result.text == "Yes, it is."


@pytest.mark.parametrize("tags", [ThinkTags("<r>", "</r>"), None])
def test_each_model_is_shown_its_own_closing_tag_whoever_was_writing(tags: ThinkTags | None) -> None:
    close = tags.close if tags else "\n\n\n"
    scripts: list[Script] = [
        lambda so_far, _: "Yes." if "</think>" in so_far else "<think>We think a while. So,",
        lambda so_far, _: "Yes." if close in so_far else " on" * 99,
    ]
    pair = [
        ScriptedBackend(scripts[0], vocabulary=Vocabulary("words", "big")),
        ScriptedBackend(scripts[1], vocabulary=Vocabulary("words", "tiny"), think_tags=tags),
    ]
    for policy in (RelayGen(answer_role="small"), RelayGen(answer_role="large")):
        with relay(*pair, policy=policy.with_cues(CueProfile.of("So"))) as engine:
            result = both_ways(engine, "hi", reasoning_budget=10)
        assert (result.text, result.usage.reasoning_tokens) == ("Yes.", 10)
        assert result.reasoning.startswith("We think a while. So, on on")
        assert "think" not in result.text


def test_a_stop_sequence_that_a_tag_hid_ends_the_run_where_the_tag_is_forced() -> None:
    with relay("<think>1 <2", policy="large-only") as engine:
        result = both_ways(engine, "hi", reasoning_budget=5, stop=["<"])
    assert (result.reasoning, result.text) == ("1 ", "")
    assert (result.finish_reason, result.stop_sequence) == ("stop", "<")


def test_a_character_that_was_begun_is_taken_back_before_the_tag_is_forced() -> None:
    vocabulary = Vocabulary("bytes")
    pair = [ScriptedBackend(lambda so_far, _: "Yes." if "</think>" in so_far else "<think>ééé", vocabulary=vocabulary) for _ in "LS"]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi", reasoning_budget=10)
        for request in pair[1].requests:
            vocabulary.bytes_of(request.ids).decode()
    assert (result.reasoning, result.text) == ("é", "Yes.")


def test_a_tool_call_is_split_by_no_limit_of_a_policy() -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    with relay("We ask. " + call + " So we wait.", policy=Schedule(segments=(("large", 6), ("small", 3)))) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    assert result.tool_calls[0].valid
    assert [role for role, text in turns(result) if '"name"' in text or "Oslo" in text] == ["large"]


# --- windows


def too_long(large: int, small: int, **settings: Any) -> RelayEngine:
    return relay(*(ScriptedBackend(MATHS, name=name, context_window=w) for name, w in (("big", large), ("tiny", small))), **settings)


def test_a_prompt_that_leaves_no_room_says_how_long_it_is_and_how_long_it_may_be() -> None:
    with too_long(4, 100) as engine, pytest.raises(PromptTooLong, match=r"has 4 tokens.*large model 'big' is 4.*nothing is truncated"):
        engine.generate("hi")
    with too_long(100, 4, policy="small-only") as engine, pytest.raises(PromptTooLong, match="small model 'tiny'"):
        list(engine.stream("hi"))


def test_a_prompt_that_leaves_room_for_one_token_gets_one() -> None:
    with too_long(5, 100) as engine:
        result = both_ways(engine, "hi")
    assert (result.usage.completion_tokens, result.finish_reason) == (1, "length")


# --- what was used


def used(**settings: Any) -> RelayResult:
    vocabulary = Vocabulary()
    pair = [ScriptedBackend(MATHS, vocabulary=vocabulary, parameters=p) for p in (1000, 10)]
    with relay(*pair, **settings) as engine:
        return both_ways(engine, "hi")


def test_usage_adds_up() -> None:
    usage = used().usage
    assert (usage.large_tokens, usage.small_tokens, usage.completion_tokens) == (22, 20, 42)
    assert usage.utilisation == 22 / 42
    assert (usage.prompt_tokens, usage.total_tokens) == (4, 46)
    assert usage.handoffs == {"cue": 2, "sentence_end": 2, "think_end": 1}
    assert usage.discarded_tokens == 1


def test_flops_count_generated_tokens_by_parameters() -> None:
    usage = used().usage
    assert usage.flops == 2 * 1000 * usage.large_tokens + 2 * 10 * (usage.small_tokens + usage.discarded_tokens)
    with relay(MATHS) as engine:
        assert engine.generate("hi").usage.flops is None


def test_cost_needs_prices() -> None:
    assert used().usage.cost is None
    usage = used(prices={"large": {"input": 0, "output": 1e6}, "small": {"input": 0, "output": 1000}}).usage
    assert usage.cost == pytest.approx(usage.large_tokens + (usage.small_tokens + usage.discarded_tokens) / 1000)


def test_cached_tokens_that_a_backend_does_not_report_are_unknown_not_none() -> None:
    with relay(continuing(MATHS, cached=None), continuing(MATHS, cached=3)) as engine:
        result = both_ways(engine, "hi")
    assert [segment.cached_tokens for segment in result.segments] == [None, 3, None, 3, None, 3]
    assert result.usage.cached_tokens is None
    with relay(continuing(MATHS, cached=3)) as engine:
        assert both_ways(engine, "hi").usage.cached_tokens == 18


def test_two_vocabularies_count_the_prompt_in_the_leaders() -> None:
    with relay(*strangers(MATHS)) as engine:
        assert engine.generate("hi").usage.prompt_tokens == 4
    with relay(*strangers(MATHS), policy="small-only") as engine:
        assert engine.generate("hi").usage.prompt_tokens == len("<user>hi</user><assistant>")


def test_a_model_with_nothing_to_say_used_nothing() -> None:
    with relay([Reply("")], policy="large-only") as engine:
        usage = engine.generate("hi").usage
    assert (usage.completion_tokens, usage.large_tokens) == (1, 1), "only the end of its turn"
