"""Where a sentence ends: the one function that runtime and calibration share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.cues.sentences import ABBREVIATIONS, CONTEXT_CHARS, SentenceScanner, sentence_end


def first(text: str, start: int = 0) -> str | None:
    """The first sentence of a text, or None if it is not certain to end."""
    end = sentence_end(text, start)
    return None if end is None else text[start:end]


@pytest.mark.parametrize("mark", [".", "!", "?", "。", "！", "？"])
def test_a_sentence_ends_with_its_mark(mark: str) -> None:
    assert first(f"We are done{mark} Now") == f"We are done{mark}"


def test_a_sentence_ends_at_a_blank_line() -> None:
    assert first("We add them:\n\n3 + 4") == "We add them:\n\n"
    assert first("We add them:\n \t\n3 + 4") == "We add them:\n \t\n"
    assert first("We add them:\r\n\r\n3 + 4") == "We add them:\r\n\r\n"


def test_a_single_line_break_ends_nothing() -> None:
    assert first("We add\nthem and") is None


@pytest.mark.parametrize("text", ["it is 3.14 metres", "it is 1.000.000 in all", "from 0.5 to 1.5 and"])
def test_a_decimal_point_ends_nothing(text: str) -> None:
    assert first(text) is None
    assert first(text + ". Then") == text + "."


@pytest.mark.parametrize("abbreviation", ["e.g.", "i.e.", "E.g.", "vs.", "Mr.", "Dr.", "Fig.", "Eq.", "U.S.", "approx.", "w.r.t."])
def test_a_known_abbreviation_ends_nothing(abbreviation: str) -> None:
    assert first(f"we see {abbreviation} this and") is None


@pytest.mark.parametrize("opener", ["(", "[", '"', "'", "“", "*", "**", "_"])
def test_an_abbreviation_is_known_behind_brackets_quotes_and_emphasis(opener: str) -> None:
    assert first(f"we see {opener}e.g. this and") is None


@pytest.mark.parametrize("text", ["open the file main.py and", "call numpy.linalg.norm on it", "see example.com for"])
def test_a_dotted_name_ends_nothing(text: str) -> None:
    assert first(text) is None


def test_abbreviations_are_stored_as_they_are_compared() -> None:
    assert all(a == a.lower() and not a.endswith(".") for a in ABBREVIATIONS)


def test_a_full_stop_waits_for_one_character_and_other_marks_for_none() -> None:
    scan = SentenceScanner()
    assert scan.feed("It is 3.") is None
    assert scan.feed(" ") == len("It is 3.")
    assert SentenceScanner().feed("It is 3!") == len("It is 3!")


def test_what_decides_a_full_stop_is_not_part_of_the_sentence() -> None:
    assert first("Done. Therefore") == "Done."
    assert first("Done.\n\nTherefore") == "Done."
    assert first("Done.</think>") == "Done."


def test_an_ellipsis_is_one_end() -> None:
    assert first("Well... then") == "Well..."
    assert SentenceScanner(count=2).feed("Well... then we go. ") == len("Well... then we go.")


def test_marks_in_a_row_are_one_end() -> None:
    assert SentenceScanner(count=2).feed('Really?! "Yes." So') == len('Really?! "Yes.')


def test_closing_quotes_behind_a_mark_start_no_sentence_of_their_own() -> None:
    assert SentenceScanner(count=2).feed('He said "Stop!" \n\n Then we go! ') == len('He said "Stop!" \n\n Then we go!')


def test_a_blank_line_behind_an_end_is_no_second_end() -> None:
    assert SentenceScanner(count=2).feed("One.\n\nTwo. ") == len("One.\n\nTwo.")


def test_a_later_end_can_be_asked_for() -> None:
    text = "One. Two! Three? Four"
    assert [SentenceScanner(count=n).feed(text) for n in (1, 2, 3, 4)] == [4, 9, 16, None]


def test_ends_in_the_text_in_front_do_not_count() -> None:
    assert first("One. Two. Three. ", start=len("One. ")) == "Two."


def test_a_full_stop_right_in_front_ends_at_once_unless_it_goes_on() -> None:
    assert SentenceScanner("It is 3.").feed(" Then") == 0
    assert SentenceScanner("It is 3.").feed("5 and then. ") == len("5 and then.")


def test_an_end_in_front_that_was_reported_is_not_reported_again() -> None:
    assert SentenceScanner("It is 3.", ended=True).feed(' "\n\nThen. ') == len(' "\n\nThen.')


def test_context_in_front_tells_a_number_and_an_abbreviation() -> None:
    assert SentenceScanner("It is 3").feed(".5 and") is None
    assert SentenceScanner("see e.g").feed(". this and") is None


def test_a_number_a_sentence_ends_with_ends_it() -> None:
    assert first("The total is 12. Next") == "The total is 12."
    assert first("It is f(x). Next") == "It is f(x)."


def test_white_space_alone_is_no_sentence() -> None:
    assert first("\n\n \n\n") is None


PROSE = st.lists(
    st.sampled_from(
        ["a", "So", "3", "14", ".", ".", "!", "?", " ", "\n", "\n\n", "e.g", "Mr", "(", ")", '"', "ß", "。", "</think>", "x_1"]
    ),
    max_size=30,
).map("".join)


@given(PROSE, st.data(), st.integers(1, 3))
def test_the_answer_depends_on_the_text_alone_never_on_its_chunks(text: str, data: st.DataObject, count: int) -> None:
    whole = SentenceScanner(count=count).feed(text)
    scan, found, at = SentenceScanner(count=count), None, 0
    while at < len(text) and found is None:
        size = data.draw(st.integers(1, 5))
        found, at = scan.feed(text[at : at + size]), at + size
    assert found == whole


@given(PROSE, PROSE)
def test_a_seam_changes_nothing(before: str, text: str) -> None:
    before = before[-CONTEXT_CHARS:]
    behind = len(ends_of(before))  # these were certain before the seam
    ends = ends_of(before + text)
    expected = ends[behind] - len(before) if len(ends) > behind else None
    assert SentenceScanner(before).feed(text) == expected


def ends_of(text: str) -> list[int]:
    """All sentence ends of a text."""
    ends: list[int] = []
    while (end := SentenceScanner(count=len(ends) + 1).feed(text)) is not None:
        ends.append(end)
    return ends
