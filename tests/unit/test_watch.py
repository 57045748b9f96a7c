"""Where a segment's stop rule ends it, token by token."""

from __future__ import annotations

from typing import Any

import pytest

from relay_integrations.cues.matcher import CueSet
from relay_integrations.policies.base import StopRule
from relay_integrations.watch import LOOP_CHECK_EVERY, LOOP_PERIOD, LOOP_SPAN, Cut, SegmentWatch, in_loop


def watch(*tokens: str, tail: str = "", cues: tuple[str, ...] = (), **rule: Any) -> Cut | None:
    """The end that a rule finds in a segment of these tokens."""
    watched = SegmentWatch(StopRule(cues=CueSet(cues) if cues else None, **rule), tail)
    for number, token in enumerate(tokens):
        cut = watched.feed(token, number)
        if cut is not None:
            return cut
    return None


# --- cues


def test_a_cue_ends_the_segment_with_the_token_that_confirms_it() -> None:
    assert watch("We", " add", ".", " So", " we", " go", cues=("So",)) == Cut("cue", chars=len("We add. So "), cue="So")


def test_a_cue_counts_only_behind_the_tokens_that_are_owed() -> None:
    tokens = ("So", ",", " we", " add", " it", ".", " So", ",")
    assert watch(*tokens, cues=("So",), min_tokens=5) == Cut("cue", chars=len("So, we add it. So,"), cue="So")
    assert watch(*tokens, cues=("So",), min_tokens=0) == Cut("cue", chars=3, cue="So")


def test_a_cue_that_begins_in_an_owed_token_does_not_count() -> None:
    assert watch("a", "Al", "ternatively", ",", cues=("Alternatively",), min_tokens=2) is None
    assert watch("a", "known", " now", ",", cues=("now",), min_tokens=1) is not None


def test_a_word_over_the_end_of_the_owed_tokens_is_still_one_word() -> None:
    assert watch("k", "now", ",", cues=("now",), min_tokens=1) is None


def test_a_cue_at_the_start_of_a_segment_looks_at_the_text_in_front() -> None:
    assert watch("now", ",", tail="It is k", cues=("now",)) is None
    assert watch("now", ",", tail="It is. ", cues=("now",)) is not None


@pytest.mark.parametrize("behind", ["!\n", "?", "!", ".\n\n", ":\n\n"])
def test_a_cue_whose_sentence_ends_in_the_same_token_delegates_nothing(behind: str) -> None:
    assert watch("Oh" + behind, " So", " we", cues=("Oh", "So")) == Cut("cue", chars=len("Oh" + behind + " So "), cue="So")


def test_a_cue_confirmed_by_a_full_stop_delegates_nothing() -> None:
    assert watch(" So", ".", " Then", " So", " we", cues=("So",)) == Cut("cue", chars=len(" So. Then So "), cue="So")


def test_without_cues_nothing_is_a_cue() -> None:
    assert watch("So", ",", " Thus", ",") is None
    assert watch("So", ",", " Thus", ",", sentences=1) is None


# --- sentences


def test_a_sentence_end_keeps_the_token_of_the_mark() -> None:
    assert watch(" it", " is", ".", " Then", sentences=1) == Cut("sentence_end", chars=len(" it is."))


def test_a_sentence_may_have_ended_right_in_front() -> None:
    assert watch(" Then", tail="So.", sentences=1) == Cut("sentence_end", chars=0)


def test_an_end_that_ended_the_segment_in_front_does_not_count_again() -> None:
    watched = SegmentWatch(StopRule(sentences=1), "It is 3.", sentence_over=True)
    assert watched.feed(" Then", 0) is None
    assert watched.feed("!", 1) == Cut("sentence_end", chars=len(" Then!"))


def test_a_number_over_a_seam_is_no_sentence_end() -> None:
    assert watch("5", " and", tail="So 3.", sentences=1) is None


def test_several_sentences_may_be_asked_for() -> None:
    assert watch("One", ".", " Two", "!", " Three", sentences=2) == Cut("sentence_end", chars=len("One. Two!"))


def test_no_sentences_are_counted_where_none_are_asked_for() -> None:
    assert watch("One", ".", " Two", "!", "\n\n") is None


def test_what_is_skipped_holds_no_ends_and_matching_starts_afresh_behind_it() -> None:
    watched = SegmentWatch(StopRule(cues=CueSet(["So"]), sentences=1), "")
    watched.skip('{"a": "So, yes. "}')
    assert watched.feed(" Done", 1) is None
    assert watched.feed("! ", 2) == Cut("sentence_end", chars=len('{"a": "So, yes. "} Done!'))


def test_a_segment_may_go_on_under_a_new_rule() -> None:
    watched = SegmentWatch(StopRule(sentences=1), tail="One", offset=3)
    assert watched.feed("!", 1) == Cut("sentence_end", chars=4)


# --- loops


def test_four_copies_that_span_enough_are_a_loop() -> None:
    period = LOOP_SPAN // 4
    assert in_loop([9, 8, 7, *list(range(period)) * 4])
    assert not in_loop([9, 8, 7, *list(range(period)) * 3])
    assert in_loop([5] * LOOP_SPAN)
    assert not in_loop([5] * (LOOP_SPAN - 1))


def test_long_pieces_are_found_up_to_a_period() -> None:
    assert in_loop(list(range(LOOP_PERIOD)) * 4)
    assert not in_loop(list(range(LOOP_PERIOD + 1)) * 4)


def test_a_loop_counts_only_at_the_very_end() -> None:
    assert not in_loop([5] * LOOP_SPAN + [6])
    assert not in_loop(range(200))
    assert not in_loop([])


def test_loops_are_looked_for_now_and_then_and_only_where_the_rule_says_so() -> None:
    ids = [5] * (2 * LOOP_CHECK_EVERY)
    assert SegmentWatch(StopRule(repetition=True), "").loops(ids)
    assert not SegmentWatch(StopRule(repetition=True), "").loops(ids[1:])
    assert not SegmentWatch(StopRule(), "").loops(ids)
