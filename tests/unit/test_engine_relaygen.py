"""Whole relays under RelayGen: who writes what, however a server sends it, and the events of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from relay_integrations import CueProfile, Handoff, ReasoningClosed, SegmentFinished, SegmentStarted
from relay_integrations.backends.base import Chunk, GenerateRequest
from relay_integrations.backends.scripted import EOS, Reply, ScriptedBackend, Vocabulary
from relay_integrations.policies import RelayGen
from tests.unit.support import (
    MATHS,
    MATHS_TURNS,
    backend,
    both_ways,
    causes,
    continuing,
    kinds,
    reasons,
    relay,
    turns,
    untimed,
)

# --- who writes what


def test_the_models_take_turns_at_cues_sentence_ends_and_the_closing_tag() -> None:
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == MATHS_TURNS
    assert reasons(result) == ["cue", "sentence_end", "cue", "sentence_end", "think_end"]
    assert [handoff.cue for handoff in result.handoffs] == ["So", None, "Thus", None, None]
    assert causes(result) == ["cue", "sentence_end", "cue", "sentence_end", "think_end", "eos"]
    assert result.finish_reason == "stop"


def test_a_caller_sees_one_text_without_seams_or_tags() -> None:
    with relay(MATHS) as engine:
        result = both_ways(engine, "hi")
    assert result.reasoning == "First we add 3.5 and 4. So, Mia now has 7.5 coins. Then we go on with it. Thus we know it.\n"
    assert result.text == "The answer is 7.5."


def test_decimals_and_abbreviations_do_not_end_a_delegated_sentence() -> None:
    with relay("We begin it right here. So, it is e.g. 3.14 of numpy.pi or so. Then on.") as engine:
        assert turns(both_ways(engine, "hi"))[1] == ("small", " it is e.g. 3.14 of numpy.pi or so.")


def test_a_merged_token_is_kept_whole() -> None:
    with relay("We begin it right here. So, it is.\n\nThen we go on.") as engine:
        result = both_ways(engine, "hi")
    assert turns(result)[1:] == [("small", " it is.\n\n"), ("large", "Then we go on.")]
    assert result.segments[1].discarded == 0


def test_the_small_model_does_not_choose_the_next_sentences_opener() -> None:
    with relay("We begin it right here. So, it is. Then", "We begin it right here. So, it is. But") as engine:
        result = both_ways(engine, "hi")
    assert result.text == "We begin it right here. So, it is. Then"
    assert result.segments[1].discarded == 1
    assert result.usage.discarded_tokens == 1


def test_a_cue_inside_a_word_is_none() -> None:
    with relay("<think>It is known that Sofia knows nothing more.</think>Yes.", cues=("now", "So", "know")) as engine:
        assert [role for role, _ in turns(both_ways(engine, "hi"))] == ["large", "small"]


def test_a_cue_counts_again_only_after_five_tokens_by_the_large_model() -> None:
    with relay("<think>" + "So yes. " * 6) as engine:
        result = both_ways(engine, "hi")
    assert turns(result)[0] == ("large", "<think>So yes. So yes. So yes")
    assert all(segment.tokens >= 5 for segment in result.segments[:-1] if segment.role == "large")


def test_a_closing_tag_within_the_first_five_tokens_is_not_missed() -> None:
    with relay("<think>Easy.</think>Yes.") as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == [("large", "<think>Easy.</think>"), ("small", "Yes.")]


def test_the_small_model_may_close_the_reasoning_and_then_answers_on() -> None:
    with relay("<think>We think a while. So, done</think>Yes.") as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == [("large", "<think>We think a while. So,"), ("small", " done</think>Yes.")]
    assert reasons(result) == ["cue"]
    assert (result.reasoning, result.text) == ("We think a while. So, done", "Yes.")


def test_an_end_of_sequence_by_the_small_model_in_the_reasoning_is_a_handoff_back() -> None:
    large = ["<think>We think a while. So,", "! Then we end.</think>"]
    with relay(lambda so_far, _: large[bool(so_far)], lambda so_far, _: "Yes." if "</think>" in so_far else " it is") as engine:
        result = both_ways(engine, "hi")
        assert all(EOS not in request.ids for role in ("large", "small") for request in backend(engine, role).requests)
    assert turns(result) == [("large", large[0]), ("small", " it is"), ("large", large[1]), ("small", "Yes.")]
    assert reasons(result) == ["cue", "eos", "think_end"]
    assert EOS not in result.segments[1].ids
    assert result.segments[1].discarded == 1


def test_a_loop_by_the_small_model_is_handed_back() -> None:
    large, small = "<think>We think a while. So, and", " over and" * 200
    with relay([large, Reply(" stop.</think>Yes.")], [Reply(small), Reply("Yes.")]) as engine:
        result = engine.generate("hi", seed=1)
    assert reasons(result)[:2] == ["cue", "repetition"]
    assert result.segments[1].tokens < 60


def test_a_sentence_without_end_is_handed_back_at_the_limit() -> None:
    words = " ".join(f"w{i}" for i in range(300))
    with relay(f"<think>We think a while. So, {words}.", policy=RelayGen(cues=CueProfile.of("So"), max_small_tokens=20)) as engine:
        result = both_ways(engine, "hi")
    assert result.segments[1].tokens == 20
    assert reasons(result)[:2] == ["cue", "segment_limit"]


def test_with_thinking_off_the_answer_itself_is_relayed() -> None:
    with relay("We add them now. So, it is 4. That is all.") as engine:
        result = both_ways(engine, "hi", reasoning=False)
    assert reasons(result) == ["cue", "sentence_end"]
    assert (result.reasoning, result.text) == ("", "We add them now. So, it is 4. That is all.")


def test_a_large_model_that_answers_itself_keeps_the_answer() -> None:
    with relay(MATHS, policy=RelayGen(cues=CueProfile.of("So"), answer_role="large")) as engine:
        assert turns(both_ways(engine, "hi"))[-1] == ("large", " Then we go on with it. Thus we know it.\n</think>\n\nThe answer is 7.5.")


def test_models_without_think_tags_relay_their_answer() -> None:
    pair = [ScriptedBackend(MATHS[7:], name=name, vocabulary=Vocabulary(), think_tags=None) for name in "LS"]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
    assert result.reasoning == ""
    assert "</think>" in result.text, "it is text like any other to them"


# --- servers with a mind of their own


@pytest.mark.parametrize(
    "reply",
    [
        {"overrun": True},
        {"honour_stops": True},
        {"chunk": 3},
        {"chunk": 1000},
        {"chunk": 1000, "texts": False},
        {"chunk": lambda number: number % 4, "texts": False},
        {"text_apart": True},
        {"texts": False},
        {"chunk": 5, "honour_stops": True, "overrun": True},
    ],
    ids=str,
)
def test_however_a_server_sends_its_tokens_the_relay_is_the_same(reply: dict[str, Any]) -> None:
    with relay(MATHS) as engine:
        plain = untimed(both_ways(engine, "hi", max_tokens=45, stop=["never"]))
    with relay(continuing(MATHS, **reply)) as engine:
        odd = untimed(both_ways(engine, "hi", max_tokens=45, stop=["never"]))
    for result in (plain, odd):
        for part in (*result["choices"][0]["segments"], result["choices"][0]["usage"], result["usage"]):
            for counted in ("requests", "sent_tokens", "discarded", "discarded_tokens"):  # these tell the servers apart, and should
                part.pop(counted, None)
    assert odd == plain


def test_a_server_that_stops_at_a_false_cue_goes_on_with_the_same_role() -> None:
    with relay(continuing("It is known that. Now, done! Yes", honour_stops=True), cues=("now", "Now")) as engine:
        result = both_ways(engine, "hi")
    assert turns(result)[0] == ("large", "It is known that. Now,")
    assert result.segments[0].requests > 1


def test_a_server_that_stops_without_a_word_again_and_again_has_ended() -> None:
    with relay([Reply("", eos=False)], policy="large-only") as engine:
        result = both_ways(engine, "hi")
    assert (result.text, result.finish_reason, result.usage.requests) == ("", "stop", 2)


class EndsSilently(ScriptedBackend):
    """Says that the turn has ended, but not by a token."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        async for chunk in super().generate(request):
            yield Chunk(finish=chunk.finish) if EOS in chunk.ids else chunk


def test_an_end_of_the_turn_without_a_token_is_one_all_the_same() -> None:
    vocabulary = Vocabulary()
    with relay(*(EndsSilently(MATHS, vocabulary=vocabulary) for _ in "LS")) as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == MATHS_TURNS
    assert (result.finish_reason, causes(result)[-1]) == ("stop", "eos")


# --- events


def test_events_come_in_the_order_that_is_promised() -> None:
    with relay(MATHS) as engine:
        events = list(engine.stream("hi", seed=1))
    one = ["segment_started", "segment_finished", "handoff"]
    assert kinds(events) == [
        *one * 4,
        *["segment_started", "reasoning_closed", "segment_finished", "handoff"],
        *["segment_started", "segment_finished", "relay_finished"],
    ]


def test_positions_count_output_tokens() -> None:
    with relay(MATHS) as engine:
        events = list(engine.stream("hi", seed=1))
    written = 0
    for event in events:
        if isinstance(event, (SegmentStarted, Handoff)):
            assert event.position == written
        elif isinstance(event, SegmentFinished):
            written += event.tokens
        elif isinstance(event, ReasoningClosed):
            assert event.by == "large"


def test_every_hop_can_be_seen() -> None:
    with relay(MATHS) as engine:
        result = engine.generate("hi", seed=1)
    sent = 4
    for segment in result.segments:
        assert segment.requests == 1
        assert segment.sent_tokens == sent
        assert segment.cached_tokens == 0
        assert segment.time_to_first_token is not None
        assert segment.duration >= segment.time_to_first_token
        assert segment.tokens == len(segment.ids)
        sent += segment.tokens
    assert result.usage.sent_tokens == sum(segment.sent_tokens for segment in result.segments)
    assert result.usage.requests == len(result.segments)
