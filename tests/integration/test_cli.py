"""The terminal commands as a person runs them: real processes, the tiny pair, pipes and a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from relay_integrations import event_from_dict, fold
from relay_integrations.tiny import LARGE, SMALL, model_path
from relay_integrations.tiny.tasks import is_right, problems

RELAY = [sys.executable, "-c", "from relay_integrations.cli.main import main; main()"]
PROBLEM = problems(1, 4, (3,))[0]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | {
    "HF_HUB_OFFLINE": "1",
    "TERM": "xterm-256color",
}
COLOUR = re.compile(r"\x1b\[[0-9;]*38;5;(166|32)m")


def run(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RELAY, *args], capture_output=True, text=True, timeout=100, env=ENVIRONMENT, **options)  # type: ignore[call-overload, no-any-return]


def in_terminal(*args: str, press: Callable[[str], bytes | None] = lambda shown: None, **environment: str) -> tuple[str, int]:
    """Runs a command on a terminal of its own; `press` may answer to what it shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(RELAY[0], [*RELAY, *args], ENVIRONMENT | {"COLUMNS": "60"} | environment)
    shown, until = b"", time.monotonic() + 100
    while time.monotonic() < until and select.select([terminal], [], [], 100)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other end has gone
            break
        shown += data
        if keys := press(shown.decode(errors="ignore")):
            os.write(terminal, keys)
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_demo_is_right_and_says_so() -> None:
    result = run("demo", "--seed", "4", "--steps", "3")
    assert (result.returncode, result.stderr) == (0, "")
    assert PROBLEM.question in result.stdout
    assert f"right (it is {PROBLEM.answer})" in result.stdout
    assert "⟦" in result.stdout
    assert "\x1b" not in result.stdout


def test_the_demo_on_a_terminal_has_colours_and_lines_of_its_width() -> None:
    shown, code = in_terminal("demo", "--seed", "4")
    assert code == 0
    assert {match[1] for match in COLOUR.finditer(shown)} == {"166", "32"}
    text = shown[shown.index("problem") : shown.index("utilisation")]
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).splitlines()) <= 60


def test_no_color_is_honoured_on_a_terminal() -> None:
    shown, code = in_terminal("demo", "--seed", "4", NO_COLOR="1")
    assert code == 0
    assert not COLOUR.search(shown)
    assert "⟦" in shown


def test_json_lines_of_a_run_fold_to_the_right_answer() -> None:
    result = run("run", PROBLEM.question, "--json")
    assert result.returncode == 0
    folded = fold(event_from_dict(json.loads(line)) for line in result.stdout.splitlines())
    assert is_right(PROBLEM, folded.text)
    assert folded.usage.large_tokens > 0 < folded.usage.small_tokens
    assert len(folded.handoffs) >= 3
    assert "tiny pair" in result.stderr


def test_a_run_on_a_terminal_shows_the_reasoning_but_pipes_the_answer() -> None:
    shown, code = in_terminal("run", PROBLEM.question, "--stats")
    assert code == 0
    assert "All steps are done." in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert "utilisation" in shown
    piped = run("run", PROBLEM.question)
    assert is_right(PROBLEM, piped.stdout)
    assert "All steps are done." not in piped.stdout + piped.stderr


def test_a_reader_that_leaves_ends_the_run_quietly() -> None:
    command = [*RELAY, "run", PROBLEM.question, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["type"] == "segment_started"
        process.stdout.close()
        assert process.stderr.read().count("\n") == 1  # the note about the tiny pair
        assert process.wait(60) == 128 + signal.SIGPIPE


def test_a_conversation_on_a_terminal() -> None:
    """Ctrl-C stops an answer and stays, Ctrl-D leaves."""
    steps: list[tuple[str, bytes]] = [
        ("you: ", PROBLEM.question.encode() + b"\n"),
        ("reasoning", b"\x03"),
        ("stopped", b""),
        ("you: ", b"/stats\n"),
        ("utilisation", b""),
        ("you: ", b"\x04"),
    ]
    seen = 0

    def press(shown: str) -> bytes | None:
        nonlocal seen
        while steps:
            mark, keys = steps[0]
            at = len(shown) if mark == "reasoning" and "First" in shown[seen:] else shown.find(mark, seen)
            if at < 0:
                return None
            seen = at + len(mark) if mark != "reasoning" else at
            steps.pop(0)
            if keys:
                return keys
        return None

    _, code = in_terminal("chat", press=press)
    assert code == 0
    assert not steps


def test_a_folder_without_a_model_is_one_line_and_2(tmp_path: object) -> None:
    result = run("run", "hi", "--large", str(tmp_path), "--small", str(tmp_path))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: folder ")
    assert result.stderr.count("\n") == 1


def test_the_accuracy_bench() -> None:
    result = run("bench", "accuracy", "--n", "1", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    rows = {row["policy"]: row for row in json.loads(result.stdout)["rows"]}
    assert (rows["large-only"]["accuracy"], rows["large-only"]["utilisation"]) == (1, 1)
    assert 0 < rows["relaygen"]["utilisation"] < 1


def test_the_accuracy_bench_tells_who_writes_an_agents_turns() -> None:
    turns = [word for name in ("small", "rule", "large") for word in ("--turns", name)]
    result = run("bench", "accuracy", "--n", "3", "--family", "calculator", "--policy", "relaygen", *turns, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    small, rule, large = json.loads(result.stdout)["rows"]
    assert small["utilisation"] < rule["utilisation"] < large["utilisation"]
    assert rule["accuracy"] == large["accuracy"] == 1


def test_a_shipped_model_goes_by_its_name_beside_a_folder() -> None:
    models = ["--large", str(model_path(LARGE)), "--small", SMALL]
    result = run("run", PROBLEM.question, *models, "--temperature", "0")
    assert result.returncode == 0, result.stderr
    assert is_right(PROBLEM, result.stdout)
