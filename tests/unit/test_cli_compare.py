"""`relay compare` over scripted models: what it prints, keeps and says, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner, Result

from relay_integrations import RelayEngine
from relay_integrations.cli.main import app
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.terminal import Terminal
from relay_integrations.config import Prices
from relay_integrations.evaluation.answers import AnswerFile
from tests.unit.cli_support import ESCAPE, failing
from tests.unit.compare_support import engine
from tests.unit.support import backend, eventually, requests

QUESTIONS = ("easy 1", "tricky 2", "easy 3", "hard 4")


class Shop:
    """Runs the command over scripted models; remembers what it opened."""

    def __init__(self, **reply: Any) -> None:
        self.reply = reply
        self.choices: list[ModelChoice] = []
        self.engines: list[RelayEngine] = []

    def open(self, choice: ModelChoice) -> RelayEngine:
        self.choices.append(choice)
        self.engines.append(engine(settings={"policy": choice.make_policy(), "prices": choice.prices}, **self.reply))
        return self.engines[-1]

    def run(self, *args: str, terminal: Terminal | None = None) -> Result:
        return CliRunner().invoke(app, ["compare", *args], obj=terminal or Terminal(open=self.open))


@pytest.fixture
def data(tmp_path: Path) -> str:
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"id": q, "question": q, "answer": 15}) + "\n" for q in QUESTIONS))
    return str(file)


def test_help_shows_data_graders_and_examples() -> None:
    text = " ".join(Shop().run("--help").stdout.split())
    for word in ("relay compare --data", "gpqa-diamond", "command:PROGRAM", r"\boxed{…}", "min_large_tokens=5"):
        assert word in text


def test_a_table_with_the_difference_and_the_disagreements(data: str) -> None:
    result = Shop().run("--data", data, "--grader", "math", "--large", "a", "--small", "b")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("compare: big with tiny on scripted")
    assert lines[2].split() == "policy n failed right 95 % utilisation handoffs tokens s".split()
    assert lines[3].split()[:5] == ["large-only", "4", "0", "75", "%"]
    assert lines[4].split()[:5] == ["relaygen", "4", "0", "50", "%"]
    assert re.match(r"relaygen − large-only: −25\.0 points, 95 % −\S+ to \+\S+ \(Newcombe's paired score interval\); better on 0", lines[6])
    assert lines[8] == "Where they disagree (1)"
    assert lines[10].split()[:6] == ["tricky", "2", "large-only", "15", "15", "16"]
    assert "small (equation: 7*2=15 (it is 14))" in lines[10]
    assert "the small model's in 1" in result.stdout
    assert ESCAPE not in result.output


def test_json_is_one_object(data: str) -> None:
    result = Shop().run("--data", data, "-g", "exact", "--json")
    report = json.loads(result.stdout)
    assert set(report) == {"bench", "pair", "backend", "machine", "versions", "rows", "difference", "disagreements", "failures"}
    assert [row["policy"] for row in report["rows"]] == ["large-only", "relaygen"]
    assert (report["difference"]["value"], len(report["disagreements"])) == (-0.25, 1)
    assert "tiny pair" in result.stderr


def test_what_stands_in_the_data_is_no_markup(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"id": "[b]2[/b]", "question": "tricky 2", "answer": 15}))
    assert "[b]2[/b]  large-only" in Shop().run("--data", str(file), "--grader", "math").stdout


@pytest.mark.parametrize("marks", ["\x1b[31m", "\x1b]0;x\x07", "\x9b31m", "\r", "\b\b", "\x00", "\u202e", "\x7f"])
def test_whatever_stands_in_the_data_or_in_an_answer_does_nothing_to_a_terminal(tmp_path: Path, marks: str) -> None:
    file = tmp_path / "mine.jsonl"
    line = {"id": f"a{marks}b", "question": "easy", "answer": f"1{marks}5", "family": marks, "grader": "exact"}
    file.write_text(json.dumps(line))
    said = f"<think>\nSo, {marks}.\n</think>\n\n\\boxed{{1{marks}5}}"

    def open(choice: ModelChoice) -> RelayEngine:
        return engine(large=lambda question: [said], small=lambda question: [said.replace("5}", "6}"), said])

    result = Shop().run("--data", str(file), "--grader", "exact", "--large", "a", "--small", "b", terminal=Terminal(open=open))
    assert result.exit_code == 0
    assert "Where they disagree (1)" in result.stdout
    assert not any(mark in result.stdout for mark in marks if not mark.isalnum() and mark not in "[];")


def test_settings_reach_the_request_and_the_models(data: str) -> None:
    shop = Shop()
    args = ["--large", "a", "--small", "b", "--policy", "random", "--set", "p=1", "--temperature", "0.5", "--top-k", "7", "--n", "2"]
    args += ["--large-price", "1,10", "--small-price", "0.1,1,0.01", "--samples", "2", "--concurrency", "2", "--max-tokens", "60"]
    result = shop.run("--data", data, "--grader", "math", *args, "--json")
    report = json.loads(result.stdout)
    prices = {"large": Prices(input=1, output=10), "small": Prices(input=0.1, output=1, cached_input=0.01)}
    assert shop.choices == [ModelChoice("a", "b", policy="random", settings=["p=1"], prices=prices)]
    sampling = backend(shop.engines[0], "large").requests[0].sampling
    assert (sampling.temperature, sampling.top_k) == (0.5, 7)
    assert [(row["policy"], row["n"]) for row in report["rows"]] == [("large-only", 2), ("random", 2)]
    assert report["rows"][0]["cost"] > report["rows"][1]["cost"] > 0
    assert report["difference"]["samples"] == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--grader", "math"], ["--data"]),
        (["--data", "/no/such/file", "--grader", "math"], ["/no/such/file", "math-500"]),
        (["--data", "DATA"], ["no grader", "--grader"]),
        (["--data", "DATA", "--grader", "maths"], ["maths", "exact"]),
        (["--data", "DATA", "--grader", "math", "--policy", "large-only"], ["large-only", "--policy relaygen"]),
        (["--data", "DATA", "--grader", "math", "--large", "a"], ["--small"]),
        (["--data", "DATA", "--grader", "math", "--temperature", "-1"], ["temperature"]),
        (["--data", "DATA", "--grader", "math", "--samples", "0"], ["--samples"]),
        (["--data", "DATA", "--grader", "math", "--large-price", "1,2"], ["--small-price is missing"]),
        (["--data", "DATA", "--grader", "math", "--large-price", "1", "--small-price", "1,2"], ["--large-price", "INPUT,OUTPUT"]),
        (["--data", "DATA", "--grader", "math", "--large-price", "x,1", "--small-price", "1,2"], ["--large-price", "input"]),
        (["--data", "DATA", "--grader", "math", "--out", "DATA"], ["holds something else"]),
    ],
)
def test_bad_usage_is_one_line_and_2(data: str, args: list[str], words: list[str]) -> None:
    before = Path(data).read_text()
    result = Shop().run(*(data if arg == "DATA" else arg for arg in args))
    assert (result.exit_code, result.stdout) == (2, "")
    lines = [line for line in result.stderr.splitlines() if not line.startswith("note:")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert all(word in lines[0] for word in words)
    assert Path(data).read_text() == before


@pytest.mark.parametrize(
    "option", [["--temperature", "nan"], ["--max-tokens", "0"], ["--stop", ""], ["--top-p", "2"], ["--large-token-budget", "-1"]]
)
def test_a_bad_option_is_found_before_a_model_is_loaded(data: str, option: list[str]) -> None:
    result = Shop().run("--data", data, "--grader", "math", *option, terminal=Terminal(open=failing(AssertionError())))
    assert (result.exit_code, result.stdout) == (2, "")
    assert option[0][2:].replace("-", "_") in result.stderr


def test_bad_data_is_found_before_a_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "a"}\n')
    result = Shop().run("--data", str(tmp_path / "bad.jsonl"), "--grader", "math", terminal=Terminal(open=failing(AssertionError())))
    assert result.exit_code == 2
    assert "line 1: no answer" in result.stderr


def test_a_file_that_cannot_be_used_is_found_before_a_model_is_loaded(data: str, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text("my notes\n")
    busy = AnswerFile(tmp_path / "busy.jsonl")
    for out in (tmp_path / "none" / "answers.jsonl", tmp_path, tmp_path / "other.jsonl", busy.path, Path("/dev/null")):
        args = ["--data", data, "--grader", "math", "--out", str(out)]
        result = Shop().run(*args, terminal=Terminal(open=failing(AssertionError())))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "choose another" in result.stderr
    busy.close()


def test_a_reference_that_says_nothing_is_found_before_a_model_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    for grader in ("exact", "regex", "regex:x", "math"):
        file.write_text(json.dumps({"id": "q7", "question": "a", "answer": " "}))
        result = Shop().run("--data", str(file), "--grader", grader, terminal=Terminal(open=failing(AssertionError())))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "item 'q7': the reference" in result.stderr


def test_the_same_command_goes_on_and_another_is_refused(data: str, tmp_path: Path) -> None:
    out = str(tmp_path / "answers.jsonl")
    shop = Shop()
    args = ["--data", data, "--grader", "math", "--out", out, "--json"]
    few = json.loads(shop.run(*args, "--n", "2").stdout)
    again = json.loads(shop.run(*args, "--n", "2").stdout)
    assert requests(shop.engines[1]) == 0
    assert again["rows"] == few["rows"]
    assert json.loads(shop.run(*args).stdout)["difference"]["n"] == 4
    assert len(backend(shop.engines[2], "large").rendered) == 4
    refused = shop.run(*args, "--temperature", "0.5", "--set", "answer_role=large")
    assert refused.exit_code == 2
    assert "temperature was None, is 0.5" in refused.stderr
    assert "set answer_role was 'small', is 'large'" in refused.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_shows_what_there_is_and_the_next_run_goes_on(data: str, tmp_path: Path, number: signal.Signals, code: int) -> None:
    out = str(tmp_path / "answers.jsonl")
    shop = Shop(delay=0.005)
    before = signal.getsignal(number)
    thread = send(number, lambda: shop.engines and requests(shop.engines[0]) >= 8)
    result = shop.run("--data", data, "--grader", "math", "--out", out, "--json")
    thread.join()
    assert result.exit_code == code
    difference = json.loads(result.stdout)["difference"]
    assert 1 <= difference["n"] < 4
    assert difference["complete"] is False
    assert backend(shop.engines[0], "small").running == backend(shop.engines[0], "large").running == 0
    assert signal.getsignal(number) is before
    shop.reply = {}
    whole = shop.run("--data", data, "--grader", "math", "--out", out)
    assert whole.exit_code == 0
    assert "Not complete" not in whole.stdout
    assert len(Path(out).read_text().splitlines()) == 9
    assert len(backend(shop.engines[1], "large").rendered) < 8


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_programs_of_a_grader(data: str, tmp_path: Path, number: signal.Signals, code: int) -> None:
    pid = tmp_path / "pid"
    thread = send(number, lambda: pid.exists() and pid.read_text().strip())
    result = Shop().run("--data", data, "--grader", f"command:sh -c 'echo $$ > {pid}; sleep 600'", "--json")
    thread.join()
    assert (result.exit_code, result.stdout) == (code, "")
    assert eventually(lambda: not psutil.pid_exists(int(pid.read_text())))


def send(number: signal.Signals, when: Callable[[], object]) -> threading.Thread:
    """Sends a signal to the main thread as soon as something is so."""
    main = threading.main_thread().ident
    assert main is not None

    def wait() -> None:
        assert eventually(when)
        signal.pthread_kill(main, number)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_error_shows_what_there_is_too(data: str, tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = f"command:sh -c 'echo x >> {count}; test $(wc -l < {count}) -lt 4 || exit 9'"
    result = Shop().run("--data", data, "--grader", command)
    assert result.exit_code == 2
    assert "exit code 9" in result.stderr
    assert "Not complete: 1 of 4 pairs of answers." in result.stdout


def test_failed_answers_are_listed_and_the_command_ends_well(data: str) -> None:
    def open(choice: ModelChoice) -> RelayEngine:
        return engine(settings={"on_failure": "raise"}, fail_after=0)

    result = Shop().run("--data", data, "--grader", "math", terminal=Terminal(open=open))
    assert result.exit_code == 0
    assert "Answers that failed, counted as wrong (4)" in result.stdout
    assert "scripted failure" in result.stdout


def test_progress_is_shown_on_a_terminal_alone(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ["--data", data, "--grader", "math", "--large", "a", "--small", "b"]
    assert "8/8" not in Shop(delay=0.001).run(*args).stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = Shop(delay=0.001).run(*args)
    assert "8/8" in shown.stderr
    assert "8/8" not in shown.stdout
