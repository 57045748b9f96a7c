"""The transcript: each model's own ids are the truth, and a prompt only ever grows at its end."""

from __future__ import annotations

from typing import Any

import pytest

from relay_integrations.chat.tags import ThinkTags
from relay_integrations.roles import Role
from relay_integrations.transcript import TAIL_CHARS, Side, Transcript


def side(*prompt: int, vocabulary: str = "v", **options: Any) -> Side:
    return Side(**{"prompt": prompt, "reasoning_open": False, "tags": ThinkTags(), "vocabulary": vocabulary, **options})


def shared() -> Transcript:
    return Transcript({"large": side(1, 2), "small": side(3)})


def strangers(**small: Any) -> Transcript:
    return Transcript({"large": side(1, 2), "small": side(3, **{"vocabulary": "w", **small})})


def write(t: Transcript, role: Role, *tokens: tuple[int, str]) -> Transcript:
    t.begin(role, "cue")
    for token, text in tokens:
        t.append(token)
        t.add_text(text)
    return t


# --- one vocabulary


def test_both_models_are_shown_all_output_behind_their_own_prompts() -> None:
    t = write(shared(), "large", (10, "We"), (11, " add"))
    write(t, "small", (12, " them"))
    assert t.ids("large") == (1, 2, 10, 11, 12)
    assert t.ids("small") == (3, 10, 11, 12)
    assert (t.length("large"), t.length("small")) == (5, 4)
    assert t.pending("large") == t.pending("small") == ""


def test_tokens_are_counted_by_role() -> None:
    t = write(write(shared(), "large", (10, "We"), (11, " add")), "small", (12, " them"))
    assert t.tokens == {"large": 2, "small": 1}
    assert t.output_tokens == 3
    assert [(s.role, s.text, s.ids) for s in t.segments] == [("large", "We add", [10, 11]), ("small", " them", [12])]


def test_ids_pass_in_the_middle_of_a_character() -> None:
    t = write(shared(), "large", (0xC3, ""))
    t.hand_over()
    assert t.ids("small") == (3, 0xC3)
    write(t, "small", (0xA9, "é"))
    assert t.ids("large") == (1, 2, 0xC3, 0xA9)
    assert t.current.text == "é"


# --- cutting


def test_a_cut_keeps_the_token_that_holds_the_last_character_whole() -> None:
    t = write(shared(), "small", (10, " it"), (11, ".\n\n"), (12, " Then"))
    t.cut(len(" it."))
    assert t.ids("small") == (3, 10, 11)
    assert t.current.text == " it.\n\n"
    assert t.tail == " it.\n\n"
    assert t.tokens["small"] == 2


def test_a_cut_drops_tokens_without_text_that_stand_behind() -> None:
    t = write(shared(), "small", (10, "a"), (11, "."), (0xC3, ""), (0xA9, "é"))
    t.cut(2)
    assert t.current.ids == [10, 11]


def test_a_cut_at_the_start_empties_the_segment() -> None:
    t = write(write(shared(), "large", (10, "a.")), "small", (11, " b"))
    t.cut(0)
    assert t.current.ids == []
    assert t.current.text == ""
    assert t.tail == "a."
    assert t.ids("large") == (1, 2, 10)


def test_a_cut_behind_the_end_changes_nothing() -> None:
    t = write(shared(), "small", (10, "ab"))
    t.cut(2)
    assert t.current.text == "ab"


def test_dropped_tokens_were_generated_all_the_same() -> None:
    t = write(shared(), "small", (10, "a"), (11, "b"))
    t.generated["small"] = 2
    t.cut(1)
    assert (t.output_tokens, t.discarded) == (1, 1)


def test_an_end_of_sequence_token_can_be_dropped_from_both_prompts() -> None:
    t = write(shared(), "small", (10, "a"), (256, ""))
    t.drop_last()
    assert t.ids("large") == (1, 2, 10)
    assert t.current.text == "a"


def test_the_tail_keeps_what_matching_needs_across_a_seam() -> None:
    t = write(shared(), "large", (10, "x" * 200), (11, " end."))
    assert len(t.tail) == TAIL_CHARS
    assert t.tail.endswith("x end.")


def test_the_tail_is_whole_again_after_a_long_token_was_dropped() -> None:
    t = write(shared(), "large", (10, "It is e.g"), (11, "x" * 300))
    t.cut(len("It is e.g"))
    assert t.tail == "It is e.g"


def test_the_end_of_the_reasoning_starts_matching_afresh() -> None:
    t = write(shared(), "large", (10, "So</think>"))
    t.close_reasoning()
    assert t.reasoning_closed
    assert t.tail == ""
    assert t.reasoning_tokens == 1


# --- two vocabularies


def test_only_the_new_text_is_encoded_for_the_other_model() -> None:
    t = write(strangers(), "large", (10, "We"), (11, " add"))
    assert t.ids("small") == (3,)
    t.hand_over()
    assert t.pending("small") == "We add"
    t.extend("small", [70, 71, 72])
    assert t.pending("small") == ""
    assert t.ids("small") == (3, 70, 71, 72)
    assert t.ids("large") == (1, 2, 10, 11)


def test_what_was_encoded_once_is_never_encoded_again() -> None:
    t = write(strangers(), "large", (10, "We"))
    t.hand_over()
    t.extend("small", [70])
    write(t, "small", (71, " add"))
    t.hand_over()
    assert t.pending("large") == " add"
    t.extend("large", [12])
    write(t, "large", (13, " it"))
    t.hand_over()
    assert t.pending("small") == " it"
    assert t.ids("small") == (3, 70, 71)
    assert t.ids("large") == (1, 2, 10, 12, 13)


def test_a_segment_that_ends_in_mid_character_is_rolled_back_to_the_last_whole_one() -> None:
    t = write(strangers(), "large", (10, "a"), (0xC3, ""))
    t.hand_over()
    assert t.ids("large") == (1, 2, 10)
    assert t.pending("small") == "a"
    assert t.tokens["large"] == 1


def test_a_segment_without_one_whole_character_is_rolled_back_to_nothing() -> None:
    t = write(strangers(), "large", (0xC3, ""))
    t.hand_over()
    assert t.ids("large") == (1, 2)
    assert t.pending("small") == ""


def test_an_end_of_sequence_is_not_shown_to_the_other_model() -> None:
    t = write(strangers(), "large", (10, "a"), (256, ""))
    t.hand_over()
    assert t.pending("small") == "a"


# --- tags


def test_the_other_models_tags_are_translated() -> None:
    t = write(strangers(tags=ThinkTags("[R]", "[/R]")), "large", (10, "<think>"), (11, "a</think>"))
    t.hand_over()
    assert t.pending("small") == "[R]a[/R]"


def test_a_model_without_tags_is_shown_none() -> None:
    t = write(strangers(tags=None), "large", (10, "<think>a</think>b"))
    t.hand_over()
    assert t.pending("small") == "ab"


def test_models_with_different_tags_do_not_share_ids_even_if_they_share_a_vocabulary() -> None:
    t = write(strangers(vocabulary="v", tags=ThinkTags("[R]", "[/R]")), "large", (10, "<think>a"))
    t.hand_over()
    assert t.ids("small") == (3,)
    assert t.pending("small") == "[R]a"


@pytest.mark.parametrize("vocabulary", ["v", "w"])
def test_where_one_template_opens_the_reasoning_the_other_model_is_shown_its_own_open_tag(vocabulary: str) -> None:
    t = strangers(vocabulary=vocabulary, reasoning_open=True)
    assert t.channel == "reasoning"
    assert t.pending("large") == "<think>\n"
    assert t.pending("small") == ""


def test_a_model_whose_template_opens_the_reasoning_is_not_shown_another_open_tag() -> None:
    t = write(strangers(reasoning_open=True), "large", (10, "<think>\nWe"))
    t.hand_over()
    assert t.pending("small") == "We"


def test_forced_tokens_are_shown_to_both_and_charged_to_no_role() -> None:
    t = write(strangers(tags=ThinkTags("[R]", "[/R]")), "large", (10, "a"))
    t.hand_over()
    t.force("large", [77, 78], "\n</think>\n\n")
    assert t.ids("large") == (1, 2, 10, 77, 78)
    assert t.pending("small") == "a\n[/R]\n\n"
    assert t.forced == 2
    assert t.output_tokens == 1
