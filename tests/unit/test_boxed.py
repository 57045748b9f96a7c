"""The last box of an answer, in any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.evaluation.boxed import is_balanced, last_box
from tests.unit.grader_support import pieces


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{7}", "7"),
        (r"\boxed{7} or \boxed{8}", "8"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\left\{x\right.}", r"\left\{x\right."),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed {7}", "7"),
        (r"\\boxed{7}", "7"),
        (r"\\\boxed{7}", "7"),
        (r"x } \boxed{7} {", "7"),
        (r"\boxed{7} and \boxed{8", "7"),
        (r"\boxed{7", None),
        (r"\boxed7", None),
        ("7", None),
    ],
)
def test_the_last_closed_box_counts(text: str, content: str | None) -> None:
    box = last_box(text)
    assert (None if box is None else box.content) == content
    assert box is None or text[box.start : box.end] == content


@given(st.lists(pieces).map("".join))
def test_any_text_has_a_box_or_none_and_its_place_is_true(text: str) -> None:
    box = last_box(text)
    assert box is None or (text[box.start : box.end] == box.content and text[box.end] == "}")


@given(st.lists(pieces).map("".join), st.recursive(st.just("7"), lambda inner: st.builds("{{{}}}".format, inner)))
def test_a_box_at_the_end_is_the_last_one(before: str, content: str) -> None:
    box = last_box(before + " \\boxed{" + content + "}")
    assert box is not None
    assert box.content == content


@pytest.mark.parametrize(
    ("text", "balanced"),
    [
        ("", True),
        (r"\frac{1}{2}", True),
        (r"\{1,2\}", True),
        (r"\boxed{7}", True),
        (r"{7", False),
        ("7}", False),
        ("}{", False),
        (r"\{7}", False),
    ],
)
def test_braces_pair_up_or_not(text: str, balanced: bool) -> None:
    assert is_balanced(text) is balanced


@given(st.lists(pieces).map(lambda parts: "".join(part for part in parts if "boxed" not in part)))
def test_what_is_balanced_is_what_can_stand_in_a_box(text: str) -> None:
    box = last_box(f"\\boxed{{{text} }}")
    assert is_balanced(text) == (box is not None and box.content == f"{text} ")


def test_a_long_text_of_open_boxes_takes_no_time() -> None:
    assert last_box("\\boxed{" * 100_000) is None
    assert last_box("\\boxed{" * 100_000 + "7" + "}" * 100_000) is not None
