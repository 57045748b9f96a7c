"""Text that streams to a terminal: lines of its width, nothing lost, nothing that steers it."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from relay_integrations.cli.flow import TextFlow
from relay_integrations.cli.render import RoleMarks


def flowed(*pieces: str | tuple[str, str], width: int = 20, terminal: bool = True) -> str:
    out = io.StringIO()
    flow = TextFlow(Console(file=out, force_terminal=terminal, width=width, color_system="256"))
    for piece in pieces:
        flow.write(*(piece if isinstance(piece, tuple) else (piece,)))
    flow.flush()
    return out.getvalue()


def test_lines_break_between_words_however_the_text_comes_in_pieces() -> None:
    text = "one two three four five six seven eight"
    wanted = "one two three four\nfive six seven eight"
    for size in range(1, 12):
        assert flowed(*(text[i : i + size] for i in range(0, len(text), size))) == wanted


def test_line_breaks_and_indentation_stay() -> None:
    assert flowed("a\n\n  b\n", "c") == "a\n\n  b\nc"


@given(st.lists(st.text(alphabet="ab \n你", max_size=12), max_size=12))
def test_nothing_is_lost_and_no_line_is_too_long(pieces: list[str]) -> None:
    shown = flowed(*pieces)
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", "".join(pieces))
    longest_word = max((cell_len(word) for word in "".join(pieces).split()), default=0)
    if longest_word <= 20:
        assert all(cell_len(line.rstrip(" ")) <= 20 for line in shown.split("\n"))


def test_text_without_spaces_is_shown_as_it_comes() -> None:
    out = io.StringIO()
    flow = TextFlow(Console(file=out, force_terminal=True, width=20))
    flow.write("你好世界")
    assert out.getvalue() == "你好世界"
    flow.write(" " + "x" * 40)
    assert out.getvalue().count("x") >= 32


def test_one_style_over_several_pieces_of_a_line_and_another_for_a_part_of_a_word() -> None:
    shown = flowed(("So", "bold"), (",", ""), (" yes", "color(32)"))
    assert shown == "\x1b[1mSo\x1b[0m,\x1b[38;5;32m yes\x1b[0m"


def test_a_model_cannot_steer_the_terminal() -> None:
    shown = flowed("a\x1b[2Jb\x07c\x9b1md\re\tf")
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert shown == "a␛[2Jb␇c\N{REPLACEMENT CHARACTER}1mde    f"


def test_without_a_terminal_text_passes_as_it_is() -> None:
    text = "one two  three four five six\tseven\x1b[0m eight \n"
    assert flowed(text, terminal=False) == text


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_marks_stand_around_words_and_not_around_white_space(size: int) -> None:
    marks = RoleMarks("small")
    parts = [("So,", "large"), (" Mia has 9. ", "small"), ("\n\nThen 4", "large"), (" x ", "small")]
    shown = "".join(marks.add(text[i : i + size], role) for text, role in parts for i in range(0, len(text), size))  # type: ignore[arg-type]
    assert shown + marks.end() == "So, ⟦Mia has 9.⟧ \n\nThen 4 ⟦x⟧"
