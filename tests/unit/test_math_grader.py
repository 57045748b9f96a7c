"""The grader of mathematics: its verdicts, and the process that it compares in."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.graders import Grade, make_grader
from relay_integrations.evaluation.math_grader import MathGrader
from tests.unit.grader_support import GENEROUS, children, pieces
from tests.unit.support import eventually


@pytest.fixture(scope="module")
def maths() -> MathGrader:
    with MathGrader(GENEROUS) as grader:
        yield grader  # type: ignore[misc]


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        (r"So \boxed{7}.", "7", True),
        (r"\boxed{7} or \boxed{8}", "8", True),
        (r"\boxed{7} or \boxed{8}", "7", False),
        (r"\boxed{007}", "7", True),
        (r"\boxed{1,000}", "1000", True),
        (r"\boxed{\frac{1}{2}}", "0.5", True),
        (r"\boxed{0.5}", r"$\frac12$", True),
        (r"\boxed{\sqrt{8}}", r"\boxed{2\sqrt{2}}", True),
        (r"\boxed{x=5}", "5", True),
        (r"\boxed{\text{C}}", "C", True),
        (r"\boxed{B}", "C", False),
        (r"\boxed{2,1}", "1,2", True),
        (r"\boxed{}", "5", False),
        (r"\boxed{\undefined{x}", "5", False),
    ],
)
def test_mathematics(maths: MathGrader, answer: str, reference: str, right: bool) -> None:
    assert maths.grade(answer, reference).right is right


def test_no_box_is_wrong(maths: MathGrader) -> None:
    assert maths.grade("It is 7.", "7") == Grade(False, None, "no \\boxed{…} in the answer")


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15) | st.none())
def test_the_short_way_for_integers_agrees_with_the_long_one(maths: MathGrader, found: int, other: int | None) -> None:
    reference = found if other is None else other
    short, long = (maths.grade(f"\\boxed{{{found}}}", f"{reference}{space}") for space in ("", "\\,"))
    assert short.right == long.right == (found == reference)


@given(st.text() | st.lists(pieces).map("".join), st.text() | st.lists(pieces).map("".join))
def test_no_text_makes_the_comparison_fail(maths: MathGrader, content: str, reference: str) -> None:
    assert isinstance(maths.grade(f"\\boxed{{{content}}}", reference).right, bool)


def test_a_process_that_dies_is_replaced_and_one_that_dies_of_an_answer_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    with MathGrader(GENEROUS) as grader:
        assert grader.grade(r"\boxed{\frac12}", "0.5").right
        children()[-1].kill()
        assert grader.grade(r"\boxed{\frac12}", "0.5").right
        process = grader._worker._process
        assert process is not None
        monkeypatch.setattr(type(process), "ask", lambda self, question, seconds: self.kill() or self._answer(seconds))
        assert "ended its process" in grader.grade(r"\boxed{\frac12}", "0.5").detail


def test_closing_leaves_no_process_behind() -> None:
    before = {child.pid for child in children()}
    grader = MathGrader(GENEROUS)
    assert grader.grade(r"\boxed{\frac12}", "0.5").right
    started = [child.pid for child in children() if child.pid not in before]
    assert len(started) == 1
    grader.close()
    grader.close()
    assert not psutil.pid_exists(started[0])
    assert grader.grade(r"\boxed{\frac12}", "0.5").right
    last = [child.pid for child in children() if child.pid not in before]
    del grader
    assert eventually(lambda: not psutil.pid_exists(last[0]))


def test_a_program_that_ends_without_closing_leaves_no_process_behind() -> None:
    code = (
        "from relay_integrations.evaluation.math_grader import MathGrader; import psutil\n"
        "g = MathGrader(60); assert g.grade(r'\\boxed{\\frac12}', '0.5').right\n"
        "print(psutil.Process().children()[0].pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert eventually(lambda: not psutil.pid_exists(int(done.stdout)))
    assert done.stderr == ""


def test_many_threads_may_judge_at_once(maths: MathGrader) -> None:
    def judge(number: int) -> bool:
        return maths.grade(f"\\boxed{{\\frac{{{number}}}{{2}}}}", str(number / 2 if number % 3 else -1)).right

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(judge, range(1, 60))) == [bool(number % 3) for number in range(1, 60)]


def test_an_event_loop_may_have_many_judged_at_once(maths: MathGrader) -> None:
    async def judge() -> list[Grade]:
        grades = await asyncio.gather(*(asyncio.to_thread(maths.grade, r"\boxed{\frac12}", "0.5") for _ in range(8)))
        return list(grades)

    assert all(grade.right for grade in asyncio.run(judge()))


def test_a_missing_package_is_named_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'relay-integrations\[evaluate\]'"):
        make_grader("math")


def test_a_package_that_cannot_be_loaded_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "math_verify.py").write_text("raise ImportError('no sympy')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with MathGrader() as grader, pytest.raises(ConfigError, match=r"no sympy.*relay-integrations\[evaluate\]"):
        grader.grade(r"\boxed{\frac12}", "0.5")


@pytest.mark.parametrize("reference", ["{7", "7}", r"\frac{1}{2", r"\}\{{"])
def test_a_formula_with_unpaired_braces_is_refused(maths: MathGrader, reference: str) -> None:
    with pytest.raises(ConfigError, match="pair up"):
        maths.check(reference)
