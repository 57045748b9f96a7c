"""The terminal commands, over scripted backends: what goes to stdout and what to stderr, exit codes, colours."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from relay_integrations import CueProfile, RelayEngine, __version__, event_from_dict, fold
from relay_integrations.backends.scripted import ScriptedBackend
from relay_integrations.cli.models import ModelChoice, open_engine, read_settings
from relay_integrations.cli.terminal import Terminal
from relay_integrations.errors import ConfigError, ModelLoadError
from relay_integrations.policies import RandomPolicy
from tests.unit.cli_support import ANSWER, ESCAPE, REASONING, Bench, failing, interrupt_when_shown
from tests.unit.support import MATHS, continuing

# --- the front


def test_the_version() -> None:
    result = Bench().run("--version")
    assert (result.exit_code, result.stdout) == (0, f"relay {__version__}\n")


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["run"], ["chat"], ["bench"], ["bench", "engine"], ["bench", "langchain"], ["bench", "accuracy"]]
)
def test_help_shows_examples(command: list[str]) -> None:
    result = Bench().run(*command, "--help")
    assert result.exit_code == 0
    assert "relay" in result.stdout
    assert command == ["bench"] or "Examples:" in result.stdout


def test_help_names_every_policy_and_its_settings() -> None:
    text = " ".join(Bench().run("run", "--help").stdout.split())
    for word in ("relaygen", "large-only", "min_large_tokens=5", 'segments=[["large",20],["small",10]]'):
        assert word in text


def test_help_loads_no_model_library() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from relay_integrations.cli.main import app\n"
        "assert CliRunner().invoke(app, ['run', '--help']).exit_code == 0\n"
        "sys.exit(','.join(m for m in ('torch', 'transformers', 'langchain_core', 'llama_index', 'vllm') if m in sys.modules) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_a_command_the_help_is_shown_as_for_any_bad_usage() -> None:
    result = Bench().run()
    assert result.exit_code == 2
    assert "Usage" in result.output
    assert "error:" not in result.output


# --- run: what goes where


def test_the_answer_alone_goes_to_stdout() -> None:
    result = Bench().run("run", "hi")
    assert result.exit_code == 0
    assert result.stdout == ANSWER + "\n"
    assert REASONING not in result.stderr


def test_the_reasoning_goes_to_stderr_if_asked_for() -> None:
    result = Bench().run("run", "hi", "--show-reasoning", "--large", "a", "--small", "b")
    assert result.stdout == ANSWER + "\n"
    assert result.stderr == REASONING + "\n"


def test_the_tiny_pair_says_that_it_is_one() -> None:
    assert "tiny pair" in Bench().run("run", "hi").stderr
    assert Bench().run("run", "hi", "--large", "a", "--small", "b").stderr == ""


def test_json_lines_are_the_events() -> None:
    result = Bench().run("run", "hi", "--json", "--seed", "3")
    events = [event_from_dict(json.loads(line)) for line in result.stdout.splitlines()]
    folded = fold(events)
    assert (folded.text, folded.reasoning.strip(), folded.seed) == (ANSWER, REASONING, 3)
    assert [h.reason for h in folded.handoffs] == ["cue", "sentence_end", "cue", "sentence_end", "think_end"]
    assert folded.finish_reason == "stop"


def test_several_answers_stand_under_their_numbers() -> None:
    assert Bench().run("run", "hi", "--n", "2").stdout == f"--- 1 of 2 ---\n{ANSWER}\n--- 2 of 2 ---\n{ANSWER}\n"


def test_stats_go_to_stderr() -> None:
    result = Bench().run("run", "hi", "--stats")
    assert result.stdout == ANSWER + "\n"
    for pattern in (
        r"tokens +\d+ +\d+ +\d+",
        r"utilisation +\d+ %",
        r"handoffs +5: cue 2 · sentence end 2 · think end 1",
        r"ms a handoff +\d",
    ):
        assert re.search(pattern, result.stderr)


def test_a_cut_answer_is_named_on_stderr() -> None:
    result = Bench().run("run", "hi", "--max-tokens", "5")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "limit of tokens, before an answer began" in result.stderr


def test_tool_calls_are_lines_of_json(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]))
    call = '<think>\nLook.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'
    result = Bench(call).run("run", "hi", "--tools", str(tools))
    parsed = json.loads(result.stdout)
    assert (parsed["name"], json.loads(parsed["arguments"])) == ("weather", {"city": "Bern"})


WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'


def answers(answer: str) -> Any:
    """A script that thinks, and gives the answer that it is held to."""
    free = continuing("<think>Look.</think>It is warm.")
    return lambda so_far, request: answer if request.constraint else free(so_far, request)


@pytest.mark.parametrize(("choice", "calls"), [("required", True), ("weather", True), ("auto", False), ("none", False)])
def test_a_tool_choice(tmp_path: Path, choice: str, calls: bool) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([WEATHER]))
    bench = Bench(answers(CALL), constraints=True)
    result = bench.run("run", "hi", "--tools", str(tools), "--tool-choice", choice)
    assert result.exit_code == 0
    assert ('"weather"' in result.stdout) == calls
    assert ("It is warm." in result.stdout) == (not calls)


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    ("content", "schema", "about"),
    [
        (SCHEMA, {**SCHEMA, "additionalProperties": False}, "response_format city"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array"}}}, {"type": "array"}, "response_format x"),
        (None, {"type": "object"}, "response_format"),
    ],
    ids=["schema", "format", "json"],
)
def test_a_response_format(tmp_path: Path, content: Any, schema: Any, about: str) -> None:
    file = tmp_path / "city.json"
    file.write_text(json.dumps(content))
    bench = Bench(answers('{"city": "Bern"}'), constraints=True)
    result = bench.run("run", "hi", "--response-format", "json" if content is None else str(file))
    assert (result.exit_code, result.stdout.strip()) == (0, '{"city": "Bern"}')
    large = bench.engines[0].backends["large"]
    assert isinstance(large, ScriptedBackend)
    (piece,) = large.constraints_checked[0].rows[0].pieces
    assert (json.loads(piece.schema), piece.about) == (schema, about)


# --- run: where the prompt comes from


def test_a_prompt_from_stdin_a_file_and_an_argument_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("how many?\n")
    for args, given in ((["how many?"], None), (["--file", str(file)], None), ([], "how many?\n"), (["-"], "how many?\n")):
        bench = Bench()
        assert bench.run("run", *args, input=given).exit_code == 0
        assert bench.asked == [[("user", "how many?")]]


@pytest.mark.parametrize("wrapped", [False, True])
def test_messages_come_from_a_file_or_stdin(tmp_path: Path, wrapped: bool) -> None:
    turns = [("user", "a"), ("assistant", "b"), ("user", "c")]
    messages: Any = [{"role": role, "content": content} for role, content in turns]
    text = json.dumps({"messages": messages} if wrapped else messages)
    file = tmp_path / "messages.json"
    file.write_text(text)
    for source, given in ((str(file), None), ("-", text)):
        bench = Bench()
        assert bench.run("run", "--messages", source, "--system", "Be brief.", input=given).exit_code == 0
        assert bench.asked == [[("system", "Be brief."), *turns]]


# --- run: settings


def test_settings_reach_the_request_and_the_policy() -> None:
    bench = Bench()
    args = ["--policy", "random", "--set", "p=1", "--set", "answer-role=large", "--temperature", "0.5", "--top-p", "0.9", "--top-k", "7"]
    result = bench.run("run", "hi", *args, "--min-p", "0.1", "--stop", "answer", "--stop", "never", "--seed", "4", "--no-reasoning")
    assert result.stdout == "The \n"
    engine = bench.engines[0]
    assert engine.policy == RandomPolicy(p=1, answer_role="large")
    large = engine.backends["large"]
    assert isinstance(large, ScriptedBackend)
    sampling = large.requests[0].sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 7, 0.1)
    assert large.rendered[0][2].reasoning is False


def test_budgets_reach_the_request() -> None:
    result = Bench().run("run", "hi", "--max-tokens", "30", "--large-token-budget", "0.2", "--json")
    usage = fold(event_from_dict(json.loads(line)) for line in result.stdout.splitlines()).usage
    assert usage.large_tokens == 6
    result = Bench().run("run", "hi", "--reasoning-budget", "5", "--json")
    assert '"by": "budget"' in result.stdout


def test_models_and_places_are_passed_on() -> None:
    bench = Bench()
    bench.run("run", "hi", "--large", "a", "--small", "b", "--device", "cuda:1", "--dtype", "bfloat16", "--cues", "generic")
    assert bench.choices == [ModelChoice("a", "b", cues="generic", device="cuda:1", dtype="bfloat16")]


def test_policy_settings_are_json_where_they_can_be() -> None:
    read = read_settings(["p=0.4", "answer_role=large", 'segments=[["large", 2]]', "min-large-tokens=3", "on=true"])
    assert read == {"p": 0.4, "answer_role": "large", "segments": [["large", 2]], "min_large_tokens": 3, "on": True}


# --- exit codes


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "hi", "--policy", "nope"], ["nope", "relaygen"]),
        (["run", "hi", "--set", "p"], ["--set", "key=value"]),
        (["run", "hi", "--set", "x=1"], ["x", "min_large_tokens"]),
        (["run", "hi", "--policy", "random", "--set", "p=2"], ["random", "p"]),
        (["run", "hi", "--large", "a"], ["--large", "--small"]),
        (["run", "hi", "--policy", "large-only", "--cues", "generic"], ["large-only", "--cues"]),
        (["run", "hi", "--temperature", "-1"], ["temperature"]),
        (["run", "hi", "--large-token-budget", "0.5"], ["large_token_budget", "max_tokens"]),
        (["run", "hi", "--file", "x"], ["--file", "argument"]),
        (["run", "--file", "/no/such/file"], ["/no/such/file", "No such file"]),
        (["run", "--messages", "/no/such/file"], ["/no/such/file"]),
        (["run", "hi", "--tools", "/no/such/file"], ["--tools"]),
        (["run", "hi", "--tool-choice", "required"], ["tool_choice", "tools"]),
        (["run", "hi", "--response-format", "/no/such/file"], ["--response-format", "/no/such/file"]),
        (["run", "hi", "--response-format", "json"], ["constrained output", "big"]),
        (["run", "hi", "--nope"], ["--nope", "relay run --help"]),
        (["run", "hi", "--seed", "x"], ["--seed", "x"]),
        (["run", "hi", "there"], ["there"]),
        (["demmo"], ["demmo", "demo"]),
        (["demo", "--steps", "9"], ["--steps", "6"]),
        (["chat", "--set", "p"], ["key=value"]),
    ],
)
def test_bad_usage_is_one_line_and_2(args: list[str], words: list[str]) -> None:
    result = Bench().run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("note:")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_prompt_is_bad_usage(text: str) -> None:
    result = Bench().run("run", input=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "blank" in result.stderr


@pytest.mark.parametrize("text", ["{", "3", '{"a": 1}', '[{"role": "nobody", "content": "x"}]', "[]"])
def test_malformed_messages_are_bad_usage(text: str) -> None:
    result = Bench().run("run", "--messages", "-", input=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")


def test_a_model_that_cannot_be_loaded_is_2() -> None:
    result = Bench().run("run", "hi", terminal=Terminal(open=failing(ModelLoadError("no folder 'x'"))))
    assert result.exit_code == 2
    assert "error: no folder 'x'\n" in result.stderr


def test_a_failed_generation_is_1_and_keeps_what_there_was() -> None:
    broken = continuing(MATHS, fail_after=5)
    result = Bench(broken).run("run", "hi", "--policy", "large-only", "--show-reasoning")
    assert result.exit_code == 1
    *_, reasoning, error = result.stderr.splitlines()
    assert REASONING.startswith(reasoning)
    assert error.startswith("error: the large model 'big' failed")
    events = Bench(broken).run("run", "hi", "--policy", "large-only", "--json")
    assert events.exit_code == 1
    assert json.loads(events.stdout.splitlines()[-1])["type"] == "relay_failed"


def test_partial_text_stays_on_the_screen() -> None:
    broken = continuing("The answer is seven and a half.", fail_after=4)
    assert Bench(broken).run("run", "hi", "--policy", "large-only").stdout.startswith("The answer is seven")


def test_a_surprise_is_one_line_and_a_traceback_only_on_request() -> None:
    terminal = Terminal(open=failing(ZeroDivisionError("oh")))
    result = Bench().run("run", "hi", terminal=terminal)
    assert result.exit_code == 1
    assert "ZeroDivisionError: oh" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in Bench().run("--debug", "run", "hi", terminal=terminal).stderr


def test_a_prompt_that_is_too_long_is_2() -> None:
    def open(choice: ModelChoice) -> RelayEngine:
        return RelayEngine(ScriptedBackend("x", context_window=3), ScriptedBackend("x"), policy="large-only")

    result = Bench().run("run", "one two three four", terminal=Terminal(open=open))
    assert result.exit_code == 2
    assert "no room" in result.stderr


def test_ctrl_c_is_130_stops_the_model_and_keeps_the_text() -> None:
    bench = Bench(continuing("The answer is seven and a half.", stall_after=6))
    interrupt_when_shown("The answer is seven and a")
    result = bench.run("run", "hi", "--policy", "large-only")
    assert result.exit_code == 130
    assert result.stdout == "The answer is seven and a\n"
    large = bench.engines[0].backends["large"]
    assert isinstance(large, ScriptedBackend)
    assert large.running == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- warnings and colours


def test_a_warning_is_one_line_on_stderr() -> None:
    def open(choice: ModelChoice) -> RelayEngine:
        return RelayEngine(ScriptedBackend(MATHS, name="Qwen3-x", family="qwen3"), ScriptedBackend(MATHS), cue_profile=CueProfile.of("So"))

    result = Bench().run("run", "hi", "--temperature", "0", "--large", "a", "--small", "b", terminal=Terminal(open=open))
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: greedy decoding")
    assert result.stderr.count("\n") == 1


def test_no_control_codes_without_a_terminal() -> None:
    for args in (["run", "hi", "--show-reasoning", "--stats"], ["demo", "--seed", "1"], ["run", "hi", "--nope"]):
        assert ESCAPE not in Bench().run(*args).output


def test_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    result = Bench().run("demo", "--seed", "1")
    assert "\x1b[38;5;166m" in result.stdout
    assert "\x1b[38;5;32m" in result.stdout
    assert "\x1b[1;7;38;5;166mSo" in result.stdout
    assert "⟦" not in result.stdout


def test_no_color_wins_and_brackets_tell_the_roles_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    result = Bench().run("demo", "--seed", "1")
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9])", result.stdout)
    assert "⟦tiny⟧" in result.stdout


# --- choices without a model


def test_a_choice_is_checked_before_anything_is_loaded() -> None:
    for choice in (ModelChoice(large="a"), ModelChoice(policy="nope"), ModelChoice(policy="small-only", cues="generic")):
        with pytest.raises(ConfigError):
            open_engine(choice)


def test_consoles_leave_a_broken_pipe_to_the_command() -> None:
    class Gone:
        encoding = "utf-8"

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    console: Console = type(Terminal().out)(file=Gone())  # type: ignore[arg-type]
    with pytest.raises(BrokenPipeError):
        console.print("x")
