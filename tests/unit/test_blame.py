"""Which equations are wrong, and who is said to have written the wrong step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.evaluation.arithmetic import equations, first_wrong, spell
from relay_integrations.evaluation.blame import find_blame, role_at
from relay_integrations.tiny.tasks import problems

# --- arithmetic


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("48+6*7=92.", "48+6*7=92"),
        ("So 48 + 6 * 7 = 48 + 42 = 92, then.", "48 + 42 = 92"),
        ("First, 3+4=7. Then 5*6=31 coins.", "5*6=31"),
        ("(3+4=8)", "3+4=8"),
        ("(3+4)*2=15", "(3+4)*2=15"),
        ("$3 \\times 4 = 13$", "3 \\times 4 = 13"),
        ("3 × 4 = 13", "3 × 4 = 13"),
        ("3 x 4 = 13", "3 x 4 = 13"),
        ("12 ÷ 4 = 4", "12 ÷ 4 = 4"),
        ("1,200 + 34 = 1,235", "1,200 + 34 = 1,235"),
        ("0.5+0.25=0.8", None),  # rounded
        ("0.5+0.25=0.9", "0.5+0.25=0.9"),
        ("we get -5+3=-3", "-5+3=-3"),
        ("y = 3+4 = 8", "3+4 = 8"),
        ("- 3+4=8", "3+4=8"),
        ("* 3+4=8", "3+4=8"),
        ("3+4 = **8**.", "3+4 = **8"),
        ("**3+4=8**", "3+4=8"),
        ("\\boxed{3+4=8}", "3+4=8"),
        ("10/3=3.34", None),
        ("10/3=3.4", None),
        ("10/3=3.5", "10/3=3.5"),
        ("10/3=3", "10/3=3"),
        ("2-(3-4)=1", "2-(3-4)=1"),
        ("1/2+1/3=2/5", "1/2+1/3=2/5"),
        ("1+2=4=4", "1+2=4"),
        ("3*4 = 12*1 = 13", "12*1 = 13"),
        ("5+3=9+2=11", "5+3=9+2"),
        ("3 − 5 = −3", "3 − 5 = −3"),
        ("3 – 5 = –3", "3 – 5 = –3"),
        ("5 - -3 = 7", "5 - -3 = 7"),
        ("((((5+3=9))))", "5+3=9"),
        ("1.250 + 2 = 3.500", "1.250 + 2 = 3.500"),
        ("3+4=8 apples", "3+4=8"),
        ("5+3=9 dollars", "5+3=9"),
        ("١+٢=٤", "١+٢=٤"),
    ],
)
def test_the_first_wrong_equation_is_found(text: str, wrong: str | None) -> None:
    found = first_wrong(text)
    assert (None if found is None else found.text) == wrong


@pytest.mark.parametrize(
    "text",
    [
        "2x + 3*1 = 7",
        "x - 5 + 3 = 7",
        "x -5 + 3 = 7",
        "total - 3 + 4 = 7",
        "2^3+1=9",
        "2**3+1=9",
        "x^{2}+1=3",
        "4! + 3+1 = 28",
        "5+3=8x",
        "5+3=9%",
        "5+3=9 mod 2",
        "5+3=0 \\pmod 2",
        "5+3=9!",
        "\\frac{1}{2}+3=4",
        "f(3)+4=9",
        "5 + $3*2 = 11$",
        "2,5 + 3 = 5,5",
        "3+4==8",
        "3+4!=8",
        "3+4>=8",
        "a = 8",
        "3 = 8",
        "-5 = 3",
        "3+4\n=8",
        "3+4= ",
        "3+4=8+...",
        "1 1/2 + 1/2 = 3",
        "4/0=1",
        "Step 1 - 48+42=90",
        "12:30 - 10:15 = 2:15",
        "a_1+3=8, b1+3=8",
        "9" * 40 + "+1=2",
        # dates, times, versions, ranges
        "On 2024-01-02 = 2",
        "2024-01-02=2023",
        "01-02=5",
        "10:15+20=10:35",
        "2:3+1=5",
        "1.2.3+1=9",
        "v 1.2-3=4",
        "version 1.2-3=4",
        "pages 3-5 = 3 pages",
        "from 3-5 = 3",
        "3–5 = 3",
        # running totals
        "1+2=3=3",
        "5+3=8+2=10",
        "48/2=24-4=20",
        "2-5=-3+1=-2",
        "5+3=8+2=10+1=11",
        # remainders, mixed numbers, moduli, bases, doubts
        "17 / 5 = 3 remainder 2",
        "17 ÷ 5 = 3, remainder 2",
        "17/5 = 3 R 2",
        "17/5 = 3 with remainder 2",
        "9/2 = 4 1/2",
        "9/2 = 4 ½",
        "9/2 = 4½",
        "9/2 = 4 \\frac{1}{2}",
        "9/2 = 4 and a half",
        "9/2 = 4 and 1/2",
        "10/3=3.\\overline{3}",
        "17+5=1 modulo 7",
        "9+5=2 \\ (\\text{mod }12)",
        "9+5 = 2 o'clock",
        "101+1=110 in binary",
        "101 + 1 = 110 (base 2)",
        "3+4=8?",
        # words and signs that work on the first number
        "20% of 50 + 5 = 15",
        "half of 10 + 2 = 7",
        "twice 3 + 4 = 10",
        "the square of 3 + 1 = 10",
        "√16+3=7",
        "√(16)+3=7",
        "⌊7/2⌋-1+3=5",
        # other units, other points
        "500+500 = 1 thousand",
        "30+30 = 1 hour",
        "6+6 = 1 dozen",
        "3/4 = 75 percent",
        "3/4 = 75 %",
        "1.000 + 500 = 1.500",
        "1 000 + 500 = 1 500",
        "1'000 + 500 = 1'500",
        "1,00,000 + 1 = 1,00,001",
        "0.1+0.2=0.30000000000000004",
    ],
)
def test_what_is_not_plain_arithmetic_is_left_alone(text: str) -> None:
    assert first_wrong(text) is None


def test_every_equation_of_a_right_trace_is_seen_and_right() -> None:
    for problem in problems(60):
        found = list(equations(problem.trace))
        assert len(found) >= problem.steps
        assert len(found) == problem.trace.count("=")
        assert all(equation.right for equation in found)


numbers = st.integers(0, 999)


@given(numbers, numbers, numbers, st.integers(-3, 3))
def test_an_equation_is_wrong_if_and_only_if_it_is(a: int, b: int, c: int, off: int) -> None:
    result = a + b * c + off
    text = f"Well, {a}+{b}*{c}={result}. Done."
    (equation,) = equations(text)
    assert (equation.right, equation.value, spell(equation.value)) == (off == 0, a + b * c, str(a + b * c))
    assert text[equation.result_start :].startswith(str(result))
    assert text[equation.start :].startswith(equation.text)


marks = st.sampled_from([" ", "\n", *"3 4 12 .5 1,000 + - * / = ( ) x ** ^ a $ . , \\times \\frac{ } mod ! %".split()])


@given(st.text() | st.lists(marks).map("".join))
def test_any_text_can_be_searched(text: str) -> None:
    for equation in equations(text):
        assert text[equation.start :].startswith(equation.text)
        assert spell(equation.value)


LONG = 100_000
MANY = LONG // 10


@pytest.mark.parametrize(
    "text",
    [
        "9*" * MANY + "9=1" + "=(" * MANY,
        "(" * LONG + "1+1=2",
        "1+1=2" + ")" * LONG,
        "(1+" * MANY + "1" + ")" * MANY + "=1",
        "=" * LONG,
        "1=" * MANY,
        "1" * LONG + "=1",
        "111," * LONG + "1=1",
        "1." * LONG + "1=1",
        "**" * LONG + "=1",
        "- " * MANY + "1=2",
        "x - 3 = 4 " * MANY,
        ("1+1=2" + " " * 5000) * 40,
        ("1+1=2" + " " * 5000 + "(") * 40,
        "1" + " " * LONG + "+ 1 = 2",
        "\\boxed " * LONG,
    ],
    ids=lambda text: text[:12],
)
def test_a_long_text_takes_no_time(text: str) -> None:
    first_wrong(text)
    find_blame([("large", text)], "7")


# --- blame


def test_who_wrote_the_result_of_the_first_wrong_equation_is_named() -> None:
    written: Any = [("large", "First, 3+4=7. So"), ("small", " it is 7*2=15"), ("large", ". Then 15+1=17. \\boxed{17}")]
    blame = find_blame(written, "17")
    assert blame is not None
    assert blame.to_dict() == {"role": "small", "basis": "equation", "excerpt": "7*2=15 (it is 14)"}


def test_the_result_counts_where_two_write_an_equation() -> None:
    blame = find_blame([("large", "3+4="), ("small", "8. \\boxed{8}")], "8")
    assert blame is not None
    assert (blame.role, blame.basis) == ("small", "equation")


@pytest.mark.parametrize(
    ("parts", "role"),
    [
        ([("large", "7*2=1"), ("small", "5.")], "small"),  # 14: the 1 is right
        ([("large", "7*2=2"), ("small", "4.")], "large"),
        ([("large", "7*2=1"), ("small", "4"), ("large", "0.")], "large"),
        ([("large", "3-5="), ("small", "-3.")], "small"),
        ([("large", "3-5=-"), ("small", "3.")], "small"),
        ([("large", "3+4=8"), ("small", " coins.")], "large"),
    ],
)
def test_where_two_write_a_number_the_first_wrong_digit_counts(parts: Any, role: str) -> None:
    blame = find_blame(parts, None)
    assert blame is not None
    assert (blame.role, blame.basis) == (role, "equation")


@pytest.mark.parametrize("text", ["112", "1.12", "1,312", "12.5", "12,500", "x12", "12x", "12_", "_12", "A.12", "１12"])
def test_a_number_that_is_part_of_another_is_no_mention(text: str) -> None:
    blame = find_blame([("large", f"{text}; it is"), ("small", " 12")], "12")
    assert blame is not None
    assert (blame.role, blame.basis) == ("small", "first mention")


@pytest.mark.parametrize("text", ["12", "12.", "12, then", "(12)", "$12$", "12%", "=12"])
def test_a_number_between_marks_is_a_mention(text: str) -> None:
    blame = find_blame([("large", f"It is {text}"), ("small", " or 12")], "12")
    assert blame is not None
    assert (blame.role, blame.basis) == ("large", "first mention")


def test_an_answer_that_is_a_whole_long_text_is_found_in_it() -> None:
    text = "word " * 400_000
    blame = find_blame([("small", text)], text.strip())
    assert blame is not None
    assert (blame.role, blame.basis) == ("small", "first mention")


def test_without_a_wrong_equation_the_first_mention_of_the_answer_counts() -> None:
    blame = find_blame([("large", "There are 112 or 1.12. So"), ("small", " it is 12."), ("large", " \\boxed{12}")], "12")
    assert blame is not None
    assert (blame.role, blame.basis) == ("small", "first mention")
    assert "it is 12" in blame.excerpt


def test_without_a_mention_the_last_words_count() -> None:
    blame = find_blame([("large", "Hm."), ("small", " \\boxed{\\frac 12}"), ("large", " Yes.")], "nowhere")
    assert blame is not None
    assert (blame.role, blame.basis) == ("small", "last words")
    blame = find_blame([("large", "Hm."), ("small", " I do not know.\n"), ("large", "\n")], None)
    assert blame is not None
    assert (blame.role, blame.basis) == ("small", "last words")


@pytest.mark.parametrize("written", [[], [("small", "")], [("large", " \n")]])
def test_nobody_is_named_where_nothing_was_written(written: Any) -> None:
    assert find_blame(written, None) is None


@given(st.lists(st.tuples(st.sampled_from(["large", "small"]), st.text(max_size=3)), min_size=1), st.none() | st.text(max_size=3))
def test_any_text_has_somebody_to_name_or_nobody(written: Any, found: str | None) -> None:
    text = "".join(part for _, part in written)
    blame = find_blame(written, found)
    assert (blame is None) == (not text.strip())
    roles = [role for role, part in written for _ in part]
    assert [role_at(written, position) for position in range(len(text))] == roles
