"""Switch cues in streamed text: word boundaries, commas, the longest match, and the paper's plain substrings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.cues.lexicon import candidates
from relay_integrations.cues.matcher import CueMatch, CueScanner, CueSet, MatchMode

END = "\n"
"""Stands behind a text to make all of it certain; no cue here holds it."""


def found(text: str, *cues: str, match: MatchMode = "word", before: str = "") -> str | None:
    """The cue that a scan of a text finds."""
    hit = CueSet(cues, match).scanner(before).feed(text)
    return hit.cue if hit else None


def test_a_cue_stands_between_word_boundaries() -> None:
    assert found("and now we", "now") == "now"
    assert found("it is known to", "now") is None
    assert found("nowhere to be", "now") is None
    assert found("Otherwise we", "Other") is None
    assert found("now_1 and 2now and", "now") is None
    assert found("(now) we", "now") == "now"


def test_letters_of_any_script_and_digits_continue_a_word() -> None:
    assert found("Soße here", "So") is None
    assert found("So4 here", "So") is None
    assert found("«So» here", "So") == "So"


def test_case_counts() -> None:
    assert found("so we SO we", "So") is None


def test_a_cue_needs_the_comma_that_it_has_and_covers_one_that_it_has_not() -> None:
    assert found("Thus we", "Thus,") is None
    assert found("Thus, we", "Thus,") == "Thus,"
    assert found("Thus, we", "Thus") == "Thus"


def test_the_longest_cue_wins() -> None:
    assert found("Thus, we", "Thus", "Thus,") == "Thus,"
    assert found("So far so good", "So", "So far") == "So far"
    assert found("So fast it went", "So", "So far") == "So"


def test_the_leftmost_cue_wins_even_over_a_longer_one() -> None:
    assert found("So, Therefore we", "Therefore", "So") == "So"
    assert found("double-check, we", "check", "double-check") == "double-check"


def test_a_cue_is_certain_only_behind_its_boundary() -> None:
    scan = CueSet(["now"]).scanner()
    assert scan.feed("And now") is None
    assert scan.feed(" ") == CueMatch("now", start=4, end=7, decided=8)


def test_a_cue_that_ends_with_a_mark_is_certain_at_once() -> None:
    assert CueSet(["Thus,"]).scanner().feed("Thus,") == CueMatch("Thus,", start=0, end=5, decided=5)


def test_a_longer_cue_has_to_be_ruled_out_first() -> None:
    scan = CueSet(["So", "So far"]).scanner()
    assert scan.feed("So fa") is None
    assert scan.feed("i") == CueMatch("So", start=0, end=2, decided=6)


def test_what_stands_in_front_decides_the_first_boundary() -> None:
    assert found("now we", "now", before="k") is None
    assert found("now we", "now", before=" ") == "now"
    assert found("now we", "now", before="The end.") == "now"


def test_white_space_around_a_cue_only_means_a_boundary() -> None:
    assert found("So, we", "So ") == "So "
    assert found("Sorry we", "So ") is None


def test_the_papers_mode_takes_plain_substrings_as_they_stand() -> None:
    assert found("it is known", "now", match="paper") == "now"
    assert found("So, we", "So ", match="paper") is None
    assert found("So we", "So ", match="paper") == "So "


def test_the_papers_mode_takes_what_is_complete_first() -> None:
    assert found("Thus, we", "Thus,", "Thus", match="paper") == "Thus"
    assert CueSet(["now"], "paper").scanner().feed("known") == CueMatch("now", start=1, end=4, decided=4)


def test_no_cues_find_nothing() -> None:
    assert not CueSet([])
    assert found("So we Thus", *()) is None


def test_the_lexicon_is_the_papers() -> None:
    words = candidates()
    assert len(words) == len(set(words)) == 91
    assert {"Therefore", "therefore,", "Specifically,", "double-check", "verify"} <= set(words)
    assert {"Check", "verify,"}.isdisjoint(words)


WORDS = ["So", "So,", "So far", "Thus", "Thus,", "Thus, so", "now", "check", "double-check", "(So", "far", "ow"]
CUE_SETS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6, unique=True)
TEXTS = st.lists(st.sampled_from([*WORDS, " ", ",", ".", "-", "k", "ß", "1", "_", "(", "fa", "S", "o"]), max_size=14).map("".join)


def oracle(text: str, cues: list[str]) -> tuple[str, int] | None:
    """The first cue of a complete text and where it begins, by one regular expression."""
    alternatives = (
        (r"(?<!\w)" if cue[0].isalpha() else "") + re.escape(cue) + (r"(?!\w)" if cue[-1].isalpha() else "")
        for cue in sorted(cues, key=len, reverse=True)
    )
    hit = re.search("|".join(alternatives), text)
    return (hit[0], hit.start()) if hit else None


@given(TEXTS, CUE_SETS)
def test_word_mode_agrees_with_a_regular_expression(text: str, cues: list[str]) -> None:
    hit = CueSet(cues).scanner().feed(text + END)
    assert (hit and (hit.cue, hit.start)) == oracle(text + END, cues)


@given(TEXTS, CUE_SETS)
def test_paper_mode_agrees_with_searching_each_cue(text: str, cues: list[str]) -> None:
    hit = CueSet(cues, "paper").scanner().feed(text)
    ends = [(text.find(cue) + len(cue), -len(cue), cue) for cue in cues if cue in text]
    assert (hit and (hit.decided, hit.cue)) == ((min(ends)[0], min(ends)[2]) if ends else None)


@given(TEXTS, CUE_SETS, st.sampled_from(["word", "paper"]), st.data())
def test_chunks_change_neither_the_cue_nor_where_it_is_certain(text: str, cues: list[str], match: MatchMode, data: st.DataObject) -> None:
    compiled = CueSet(cues, match)
    whole = compiled.scanner().feed(text)
    scan, hit, at = compiled.scanner(), None, 0
    while at < len(text) and hit is None:
        size = data.draw(st.integers(1, 4))
        hit, at = scan.feed(text[at : at + size]), at + size
    assert hit == whole


@pytest.mark.parametrize("match", ["word", "paper"])
@given(text=TEXTS, cues=CUE_SETS)
def test_a_cue_is_reported_at_the_very_character_that_makes_it_certain(match: MatchMode, text: str, cues: list[str]) -> None:
    compiled = CueSet(cues, match)
    whole = compiled.scanner().feed(text)
    scan = CueScanner(compiled)
    hits = [i + 1 for i, ch in enumerate(text) if scan.feed(ch)]
    assert hits[:1] == ([whole.decided] if whole else [])
