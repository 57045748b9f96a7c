"""Every grader: what it takes as the answer, and that no answer can break, hang or outlive it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.graders import Grade, Grader, make_grader
from relay_integrations.evaluation.math_grader import MathGrader
from relay_integrations.evaluation.regex_grader import PatternGrader, RegexGrader
from tests.unit.grader_support import GENEROUS, children, pieces
from tests.unit.support import eventually

ENDLESS = r"\boxed{10^{10^{10}}}"
"""What no computer can compare with a number."""


@pytest.fixture(scope="module")
def patterns() -> Iterator[tuple[RegexGrader, PatternGrader]]:
    with RegexGrader(GENEROUS) as one, PatternGrader(r"(\d+)|x", GENEROUS) as other:
        yield one, other


@pytest.mark.parametrize(
    ("answer", "reference", "right", "found"),
    [
        ("Paris", "Paris", True, "Paris"),
        ("  Paris\n", "Paris", True, "Paris"),
        ("New\n  York", "New York", True, "New York"),
        ("paris", "Paris", False, "paris"),
        ("It is Paris.", "Paris", False, "It is Paris."),
        (r"First \boxed{Rome}, no: \boxed{Paris}.", "Paris", True, "Paris"),
        (r"\boxed{\text{Paris}}", r"\boxed{\text{Paris}}", True, r"\text{Paris}"),
        ("Cafe\u0301", "Caf\u00e9", True, "Caf\u00e9"),
        ("", "", True, ""),
    ],
)
def test_exact(answer: str, reference: str, right: bool, found: str) -> None:
    grade = make_grader("exact").grade(answer, reference)
    assert (grade.right, grade.found) == (right, found)


def test_regex_searches_the_reference_in_the_answer() -> None:
    grader = make_grader("regex")
    assert grader.grade("It has 42 legs.", r"\b4\d\b") == Grade(True, "42", "the pattern is in the answer")
    assert grader.grade("It has 7 legs.", r"\b4\d\b").right is False
    with pytest.raises(ConfigError, match=r"the reference.*unterminated"):
        grader.check("[")


@pytest.mark.parametrize(
    ("pattern", "answer", "right", "found"),
    [
        (r"answer is (\w+)", "The answer is 6. No, the answer is 7.", True, "7"),
        (r"\d+", "6, then 7", True, "7"),
        (r"(\d)?x", "6x x", False, "x"),
        (r"answer is (\w+)|Answer: (\w+)", "The answer is 6. Answer: 7", True, "7"),
        (r"\d*", "It is 7.", True, "7"),
        (r"x*", "It is 7.", False, None),
        (r"answer is (\w+)", "It is 7.", False, None),
    ],
)
def test_regex_with_a_pattern_compares_what_it_finds_last(pattern: str, answer: str, right: bool, found: str | None) -> None:
    grade = make_grader(f"regex:{pattern}").grade(answer, " 7 ")
    assert (grade.right, grade.found) == (right, found)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("maths", ["maths", "exact", "command:PROGRAM"]),
        ("", ["exact"]),
        ("exact:x", ["exact:x"]),
        ("command", ["command"]),
        ("regex:(", ["pattern", "missing )"]),
        ("command:", ["names no program"]),
        ("command:/no/such/program -x", ["/no/such/program"]),
        ("command:'", ["quot"]),
    ],
)
def test_a_wrong_grader_is_named(spec: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        make_grader(spec)
    assert all(word in str(caught.value) for word in words)


@given(st.text() | st.lists(pieces).map("".join), st.text() | st.lists(pieces).map("".join))
def test_no_text_makes_a_grader_fail(patterns: tuple[RegexGrader, PatternGrader], answer: str, reference: str) -> None:
    regex, pattern = patterns
    assert isinstance(make_grader("exact").grade(answer, reference).right, bool)
    assert isinstance(pattern.grade(answer, reference).right, bool)
    assert regex.grade(answer, re.escape(reference)).right == (reference in answer)


@pytest.mark.parametrize("spec", ["exact", "regex", "regex:x", "math"])
@pytest.mark.parametrize("reference", ["", " \n\t", "\\boxed{}", "$$"])
def test_a_reference_that_says_nothing_is_refused(spec: str, reference: str) -> None:
    if (spec.startswith("regex") and reference.strip()) or (spec == "exact" and reference == "$$"):
        return
    with pytest.raises(ConfigError, match=r"blank|no number"):
        make_grader(spec).check(reference)


def test_a_command_may_have_no_use_for_the_reference() -> None:
    make_grader("command:true").check("")


NEVER_ENDS = pytest.mark.parametrize(
    ("spec", "answer", "reference", "right"),
    [
        ("math", ENDLESS, "5", (r"\boxed{\frac12}", "0.5")),
        ("regex", "a" * 90, "(a|aa)+b", ("7", "7")),
        ("regex:(a|aa)+b", "a" * 90, "7", ("aab", "a")),
    ],
)


def limit(grader: Grader, seconds: float) -> None:
    holder: Any = grader if isinstance(grader, MathGrader) else getattr(grader, "_search")  # noqa: B009 - of two classes
    holder._time_limit = seconds


@NEVER_ENDS
def test_it_is_wrong_and_the_event_loop_goes_on_and_the_next_one_is_judged(
    spec: str, answer: str, reference: str, right: tuple[str, str]
) -> None:
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    async def judge() -> Grade:
        ticking = asyncio.create_task(tick())
        grade = await asyncio.to_thread(grader.grade, answer, reference)
        ticking.cancel()
        return grade

    with make_grader(spec, time_limit=GENEROUS) as grader:
        assert grader.grade(*right).right
        (first,) = children()[-1:]
        limit(grader, 0.5)
        grade = asyncio.run(judge())
        assert (grade.right, "took longer than 0.5 s" in grade.detail) == (False, True)
        assert len(ticks) > 2
        assert not psutil.pid_exists(first.pid)
        limit(grader, GENEROUS)
        assert grader.grade(*right).right


@NEVER_ENDS
def test_closing_ends_it_at_once(spec: str, answer: str, reference: str, right: tuple[str, str]) -> None:
    grades: list[Grade] = []
    with make_grader(spec, time_limit=600) as grader:
        assert grader.grade(*right).right
        (process,) = children()[-1:]
        spent = process.cpu_times().user
        thread = threading.Thread(target=lambda: grades.append(grader.grade(answer, reference)))
        thread.start()
        assert eventually(lambda: process.cpu_times().user > spent + 0.1)
        grader.close()
        thread.join()
        assert [grade.right for grade in grades] == [False]
        assert grader.grade(*right).right  # it may be used again
