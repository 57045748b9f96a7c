"""The grader that asks a program of the user's."""

from __future__ import annotations

import errno
import json
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.command_grader import CommandGrader
from relay_integrations.evaluation.graders import Grade
from tests.unit.support import eventually


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
