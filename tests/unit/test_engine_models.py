"""Two models in one relay: what each is sent, tags and templates of their own, one vocabulary or two."""

from __future__ import annotations

import pytest

from relay_integrations import ThinkTags, fold
from relay_integrations.backends.scripted import EOS, ScriptedBackend, Vocabulary
from relay_integrations.policies import Schedule
from tests.unit.support import MATHS, MATHS_TURNS, assert_prompts_grow, backend, both_ways, reasons, relay, said, strangers, turns

# --- what each model is sent


def test_every_prompt_is_the_one_before_it_and_what_was_kept_since() -> None:
    with relay(MATHS) as engine:
        result = engine.generate("hi", seed=1)
        sent = sorted(
            [(len(r.ids), tuple(r.ids)) for role in ("large", "small") for r in backend(engine, role).requests],
        )
        assert_prompts_grow(engine)
    prompt = sent[0][1]
    for (_, ids), segment in zip(sent, result.segments, strict=True):
        assert ids == prompt
        prompt = (*prompt, *segment.ids)


def test_nothing_is_injected_into_the_conversation() -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Two.", "reasoning_content": "Hm."},
        {"role": "user", "content": "Three?"},
    ]
    with relay(MATHS) as engine:
        engine.generate(history, seed=1)
        for role in ("large", "small"):
            ((messages, tools, _),) = backend(engine, role).rendered
            assert [(m.role, m.content, m.reasoning) for m in messages] == [
                ("system", "Be brief.", None),
                ("user", "One?", None),
                ("assistant", "Two.", "Hm."),
                ("user", "Three?", None),
            ]
            assert tools == []
            start = {tuple(r.ids[: r.output_start]) for r in backend(engine, role).requests}
            assert len(start) == 1, "the rendered prompt is the same at every hop"


def test_thinking_and_template_options_reach_both_templates() -> None:
    with relay(MATHS) as engine:
        engine.generate("hi", seed=1, reasoning=False, template_options={"date": "today"})
        for role in ("large", "small"):
            ((_, _, options),) = backend(engine, role).rendered
            assert (options.reasoning, options.template) == (False, {"date": "today"})


def test_stops_and_cues_are_only_hints_to_a_backend_and_no_stop_ids_are_forced() -> None:
    with relay(MATHS) as engine:
        engine.generate("hi", seed=1, stop=["STOP"])
        first_large, first_small = (backend(engine, role).requests[0].stop_hints.strings for role in ("large", "small"))
    assert {"STOP", "So", "Thus"} <= set(first_large)
    assert {"STOP", ".", "\n\n"} <= set(first_small)


# --- tags of two models


def test_each_model_reads_and_writes_its_own_tags() -> None:
    theirs = MATHS.replace("think>", "r>")
    pair = [
        ScriptedBackend(MATHS, name="big", vocabulary=Vocabulary("words", "big")),
        ScriptedBackend(theirs, name="tiny", vocabulary=Vocabulary("words", "tiny"), think_tags=ThinkTags("<r>", "</r>")),
    ]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
    assert turns(result) == MATHS_TURNS
    assert result.text == "The answer is 7.5."


def test_a_model_that_does_not_reason_helps_one_that_does() -> None:
    text = "<think>We think a while. So, it is done. Then</think> Yes."
    bare = text.replace("<think>", "").replace("</think>", "")
    pair = [
        ScriptedBackend(text, name="big", vocabulary=Vocabulary("words", "big")),
        ScriptedBackend(bare, name="tiny", vocabulary=Vocabulary("words", "tiny"), think_tags=None),
    ]
    with relay(*pair) as engine:
        assert turns(both_ways(engine, "hi")) == [
            ("large", "<think>We think a while. So,"),
            ("small", " it is done."),
            ("large", " Then</think>"),
            ("small", " Yes."),
        ]


@pytest.mark.parametrize("opener", ["large", "small", "both"])
@pytest.mark.parametrize("alike", [True, False])
def test_a_template_may_open_the_reasoning_for_one_model_or_for_both(opener: str, alike: bool) -> None:
    opened = MATHS.removeprefix("<think>\n")
    vocabulary = Vocabulary()
    pair = [
        ScriptedBackend(
            opened if opener in (role, "both") else MATHS,
            name=role,
            vocabulary=vocabulary if alike else Vocabulary("words", role),
            open_reasoning=opener in (role, "both"),
        )
        for role in ("large", "small")
    ]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
        assert_prompts_grow(engine)
    assert turns(result) == [("large", MATHS_TURNS[0][1].removeprefix("<think>\n")), *MATHS_TURNS[1:]]
    assert (result.reasoning[:9], result.text) == ("First we ", "The answer is 7.5.")


@pytest.mark.parametrize("split", ["bytes", "chars"])
def test_tags_may_come_in_pieces(split: str) -> None:
    vocabulary = Vocabulary(split)  # type: ignore[arg-type]
    pair = [ScriptedBackend(MATHS, name=name, vocabulary=vocabulary) for name in ("big", "tiny")]
    with relay(*pair) as engine:
        streamed = list(engine.stream("hi", seed=1))
    assert said(streamed, "reasoning") == MATHS[8 : MATHS.index("</think>")]
    assert said(streamed) == "The answer is 7.5."


# --- handoffs in the middle of a character, and between two vocabularies


def test_ids_pass_in_mid_character_between_models_of_one_vocabulary() -> None:
    text = "日本語 ☕ é 🎉 ü. " * 5
    vocabulary = Vocabulary("bytes")
    pair = [ScriptedBackend(text, name=name, vocabulary=vocabulary, think_tags=None) for name in ("big", "tiny")]
    with relay(*pair, policy=Schedule(segments=(("large", 2), ("small", 5)))) as engine:
        events = list(engine.stream("hi", seed=1))
        result = fold(events)
        assert_prompts_grow(engine)
    assert result.text == text
    assert [segment.tokens for segment in result.segments[:4]] == [2, 5, 2, 5]
    assert not any("\ufffd" in segment.text for segment in result.segments)
    assert [i for segment in result.segments for i in segment.ids] == [*vocabulary.encode(text), EOS]


def test_a_segment_in_mid_character_is_rolled_back_between_models_of_two_vocabularies() -> None:
    text = "日本語 ☕ é 🎉 ü. " * 5
    pair = strangers(text, split="bytes", think_tags=None)
    pair.reverse()  # the large model speaks bytes
    with relay(*pair, policy=Schedule(segments=(("large", 4), ("small", 2)))) as engine:
        result = both_ways(engine, "hi")
    assert result.text == text
    assert result.segments[0].tokens == 3
    assert result.segments[0].discarded == 1
    assert all(len(segment.text) > 0 for segment in result.segments)


def test_limits_too_short_for_a_character_end_in_one_model_going_on_alone() -> None:
    pair = [ScriptedBackend("日本" * 5, name=name, vocabulary=Vocabulary("bytes", name), think_tags=None) for name in ("big", "tiny")]
    with relay(*pair, policy=Schedule(segments=(("large", 2), ("small", 2)))) as engine:
        result = both_ways(engine, "hi")
    assert result.text == "日本" * 5
    assert [segment.tokens for segment in result.segments[:-1]] == [0] * (len(result.segments) - 1)
    assert result.segments[-1].reason == "fallback"


def test_two_vocabularies_relay_as_one_does() -> None:
    with relay(MATHS) as engine:
        plain = both_ways(engine, "hi")
    with relay(*strangers(MATHS)) as engine:
        result = both_ways(engine, "hi")
        assert_prompts_grow(engine)
    assert (result.reasoning, result.text) == (plain.reasoning, plain.text)
    assert reasons(result) == reasons(plain)


def test_an_end_of_sequence_by_a_small_model_of_another_vocabulary_loses_nothing() -> None:
    pair = [
        ScriptedBackend("<think>We think a while. So, it is done. Then.</think>Yes.", vocabulary=Vocabulary("words", "big")),
        ScriptedBackend(lambda so_far, _: " it is" if so_far.endswith("So,") else "Yes.", vocabulary=Vocabulary("words", "tiny")),
    ]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi")
    assert turns(result)[:3] == [
        ("large", "<think>We think a while. So,"),
        ("small", " it is"),
        ("large", " done. Then.</think>"),
    ]
