"""The graders: what they take as the answer, and that no answer can break, hang or outlive them."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.boxed import is_balanced, last_box
from relay_integrations.evaluation.command_grader import CommandGrader
from relay_integrations.evaluation.graders import Grade, Grader, make_grader
from relay_integrations.evaluation.math_grader import MathGrader
from relay_integrations.evaluation.regex_grader import PatternGrader, RegexGrader
from tests.unit.support import eventually

ENDLESS = r"\boxed{10^{10^{10}}}"
"""What no computer can compare with a number."""

# A generous limit, except where it has to be reached: the machine may be busy.
GENEROUS = 60.0


@pytest.fixture(scope="module")
def maths() -> MathGrader:
    with MathGrader(GENEROUS) as grader:
        yield grader  # type: ignore[misc]


@pytest.fixture(scope="module")
def patterns() -> Iterator[tuple[RegexGrader, PatternGrader]]:
    with RegexGrader(GENEROUS) as one, PatternGrader(r"(\d+)|x", GENEROUS) as other:
        yield one, other


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "worker_process" in " ".join(_command(child))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


# --- the box

pieces = st.sampled_from(["\\boxed{", "\\boxed {", "{", "}", "\\{", "\\}", "\\\\", "\\", "7", " ", "x", "\\frac", "\n"])


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


# --- exact and patterns


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


@pytest.mark.parametrize("reference", ["{7", "7}", r"\frac{1}{2", r"\}\{{"])
def test_a_formula_with_unpaired_braces_is_refused(maths: MathGrader, reference: str) -> None:
    with pytest.raises(ConfigError, match="pair up"):
        maths.check(reference)


# --- what never ends

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


# --- mathematics


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


# --- commands


def judge(tmp_path: Path, body: str, **settings: float) -> CommandGrader:
    script = tmp_path / "judge.py"
    script.write_text(f"import json, os, subprocess, sys, time\n{body}\n")
    return CommandGrader(f"'{sys.executable}' '{script}' --strict", **settings)


def test_a_command_gets_question_answer_and_reference_and_its_exit_code_is_the_verdict(tmp_path: Path) -> None:
    grader = judge(
        tmp_path,
        "given = json.load(sys.stdin); assert sys.argv[1:] == ['--strict']\n"
        "print(json.dumps(given)); sys.exit(given['answer'] != given['reference'])",
    )
    grade = grader.grade("sí \\boxed{7}", "7", "how many?")
    assert (grade.right, grade.found) == (False, "7")
    assert json.loads(grade.detail) == {"question": "how many?", "answer": "sí \\boxed{7}", "reference": "7"}
    assert grader.grade("7", "7").right


def test_a_command_may_ignore_its_input_and_say_nothing(tmp_path: Path) -> None:
    assert judge(tmp_path, "sys.exit(0)").grade("x" * 1_000_000, "7") == Grade(True, "x" * 1_000_000, "exit code 0")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('no rules'); sys.exit(2)", "exit code 2.*no rules"),
        ("sys.exit(3)", "exit code 3"),
        ("os.abort()", "signal 6"),
        ("print('7'); 1 / 0", "(?s)died of an exception.*ZeroDivisionError"),
        ("print('x' * 200_000, 'the end'); sys.exit(2)", "x the end"),
    ],
)
def test_a_command_that_fails_is_an_error_and_no_verdict(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        judge(tmp_path, body).grade("7", "7")


@pytest.mark.parametrize("head", ["exit 0\n", "#!/no/such/program\nexit 0\n", "#!/bin/sh\r\nexit 0\r\n", ""])
def test_a_script_that_cannot_be_run_as_it_is_says_what_it_needs(tmp_path: Path, head: str) -> None:
    (tmp_path / "judge").write_bytes(head.encode())
    (tmp_path / "judge").chmod(0o755)
    with pytest.raises(ConfigError, match=r"cannot be run.*#!/bin/sh"):
        CommandGrader(str(tmp_path / "judge")).grade("7", "7")


def test_however_much_a_command_says_it_fills_neither_disk_nor_memory(tmp_path: Path) -> None:
    command = "sh -c 'ulimit -f 10; printf \"first\\n\"; head -c 50000000 /dev/zero && echo && exit 0; exit 3'"  # no file over 10 KB
    assert CommandGrader(command).grade("7", "7") == Grade(True, "7", "first")
    grade = CommandGrader("yes", time_limit=1).grade("7", "7")
    assert grade.detail == "took longer than 1 s to judge"


def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    assert judge(tmp_path, "os.close(1); os.close(2); time.sleep(0.3); os._exit(1)").grade("7", "7").right is False
    assert judge(tmp_path, "os.close(1); os.close(2); time.sleep(0.3); os._exit(0)").grade("7", "7").right is True


def test_where_the_answer_cannot_be_handed_over_the_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(ConfigError, match=f"{tempfile.gettempdir()}.*No space left"):
        CommandGrader("true").grade("7", "7")


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    grade = CommandGrader(f"sh -c 'sleep 600 & echo $$ $! > {pids}; wait'", time_limit=2).grade("7", "7")
    assert (grade.right, grade.detail) == (False, "took longer than 2 s to judge")
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    assert eventually(lambda: not any(_runs(pid) for pid in started))


def test_closing_ends_a_command_that_still_runs(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    grader = judge(tmp_path, f"open({str(ready)!r}, 'w').close(); time.sleep(600)", time_limit=600)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            grader.grade("7", "7")
        except ConfigError as e:
            caught.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(ready.exists)
    grader.close()
    thread.join()
    assert "signal 9" in str(caught[0])


def test_what_a_command_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    body = f"open({str(pid)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid)); sys.exit(0)"
    assert judge(tmp_path, body).grade("7", "7").right
    assert eventually(lambda: not _runs(int(pid.read_text())))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # its new parent may be slow to notice
    except psutil.NoSuchProcess:
        return False


def test_a_shell_is_used_only_where_it_is_asked_for(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    assert CommandGrader(f"echo $HOME; touch {marker}").grade("7", "7").detail == f"$HOME; touch {marker}"
    assert not marker.exists()
    assert CommandGrader(f"sh -c 'touch {marker}; exit 1'").grade("7", "7").right is False
    assert marker.exists()
