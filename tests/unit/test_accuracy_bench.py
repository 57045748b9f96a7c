"""The bench of accuracy on scripted models: what it counts, how it matches the random baseline, tools, processes, plots."""

from __future__ import annotations

import json
import multiprocessing
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from relay_integrations import RelayEngine
from relay_integrations.backends.scripted import ScriptedBackend
from relay_integrations.cli.main import app
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.terminal import Terminal
from relay_integrations.errors import ConfigError
from relay_integrations.evaluation import accuracy
from relay_integrations.evaluation.accuracy import AccuracySettings, Interrupted, WorkerDied, accuracy_bench, match_utilisation
from relay_integrations.evaluation.crew import Assignment, Crew
from relay_integrations.evaluation.plot import check_plot, plot_accuracy
from relay_integrations.evaluation.solving import MAX_ROUNDS, Outcome, solve
from relay_integrations.evaluation.statistics import wilson
from relay_integrations.evaluation.tally import Tally
from relay_integrations.policies import LargeOnly, RandomPolicy, RelayGen, SmallOnly
from relay_integrations.tiny.formats.frameworks import tool
from relay_integrations.tiny.sets import problem_set
from relay_integrations.tiny.tasks import Problem, problems
from tests.unit.accuracy_support import CUES, open_knowing


def settings(**changes: Any) -> AccuracySettings:
    return AccuracySettings(**{"n": 8, "seed": 5, **changes})


@pytest.fixture(autouse=True)
def _short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "SEARCH_PROBLEMS", 12)


def test_it_holds_the_policies_against_each_other() -> None:
    made = accuracy_bench(partial(open_knowing, False), settings())
    assert made.pair == {"large": "L", "small": "S"}
    assert made.backend == "scripted"
    rows = {row["policy"]: row for row in made.rows}
    assert list(rows) == ["large-only", "small-only", "relaygen", "all-cues", "random"]
    large, small, relayed = (rows[name] for name in ("large-only", "small-only", "relaygen"))
    assert (large["accuracy"], small["accuracy"], relayed["accuracy"]) == (1, 0, 1)
    assert (large["utilisation"], small["utilisation"]) == (1, 0)
    assert 0 < relayed["utilisation"] < 1
    assert (large["handoffs"], relayed["handoffs"] > 5) == (0, True)
    assert relayed["accuracy_ci"] == list(wilson(8, 8))
    assert "difference" not in large
    assert (small["difference"], relayed["difference"]) == (-1, 0)
    assert small["difference_ci"][1] < 0 <= relayed["difference_ci"][1]
    assert abs(rows["random"]["utilisation"] - relayed["utilisation"]) < 0.2


def test_each_family_has_rows_of_its_own() -> None:
    made = accuracy_bench(
        partial(open_knowing, True, "amounts", "queues"), settings(n=4, families=("amounts", "queues"), policies=("large-only", "relaygen"))
    )
    assert [(row["family"], row["policy"]) for row in made.rows] == [
        (family, policy) for family in ("amounts", "queues") for policy in ("large-only", "relaygen")
    ]
    assert all(row["accuracy"] == 1 and row["n"] == 4 for row in made.rows)


def test_relaygen_is_measured_with_each_way_to_write_what_follows_the_reasoning() -> None:
    chosen = settings(n=4, policies=("large-only", "relaygen"), turns=("large", "rule", "small"))
    made = accuracy_bench(partial(open_knowing, True), chosen)
    assert [row.get("case") for row in made.rows] == [None, "turns: large", "turns: rule", "turns: small"]
    whole, large, rule, small = (row["utilisation"] for row in made.rows)
    assert whole > large > rule == small  # no tools, no calls: by the rule the small model answers
    assert any("turns: " in note for note in made.notes)


def test_processes_at_once_find_what_one_finds() -> None:
    def figures(jobs: int) -> list[dict[str, Any]]:
        made = accuracy_bench(partial(open_knowing, False), settings(n=6, policies=("large-only", "small-only", "relaygen"), jobs=jobs))
        return [{key: value for key, value in row.items() if not key.startswith(("seconds", "ms_"))} for row in made.rows]

    assert figures(2) == figures(1)


def test_the_random_baseline_is_matched_to_the_utilisation_of_relaygen() -> None:
    drawn = problems(20, 5)
    with Crew(partial(open_knowing, True)) as crew:
        p = match_utilisation(crew, RelayGen(cues=CUES), drawn, {}, lambda what, done, total: None)
        pairs = [out for _, out in crew.work([Assignment(i, d, (RelayGen(cues=CUES), RandomPolicy(p=p)), {}) for i, d in enumerate(drawn)])]
    shares = [sum(out[i].large_tokens for out in pairs) / sum(out[i].tokens for out in pairs) for i in (0, 1)]
    assert shares[0] == pytest.approx(shares[1], abs=0.03)


def test_tools_are_run_until_the_model_answers() -> None:
    drawn = [p for p in problem_set("calculator", 20, 5) if p.exchanges]
    with open_knowing(True, "calculator") as engine:
        outcomes = [solve(engine, problem, LargeOnly()) for problem in drawn]
        one = engine.generate(drawn[0].messages, tools=drawn[0].tools, policy="large-only")
    assert all(outcome.right for outcome in outcomes)
    assert outcomes[0].tokens > one.usage.completion_tokens


@pytest.mark.parametrize("inside", ["nonsense", '{"name": "NAME", "arguments": [1, 2]}', '{"name": "NAME", "arguments": {"a": }}'])
def test_a_call_that_cannot_be_read_is_none(inside: str) -> None:
    problem = next(p for p in problem_set("calculator", 20, 5) if p.exchanges)
    text = f"<tool_call>\n{inside.replace('NAME', problem.tools[0]['function']['name'])}\n</tool_call>"
    large, small = (ScriptedBackend(text, name=name) for name in "LS")
    with RelayEngine(large, small, cue_profile=CUES) as engine:
        assert not solve(engine, problem, LargeOnly()).right
    assert len(large.rendered) == 1


def test_a_conversation_that_outgrows_the_window_is_wrong() -> None:
    call = '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>'
    drawn = next(p for p in problem_set("calculator", 20, 5) if p.exchanges)
    tools = tuple(tool("langchain", f"tool {number}", "", {}, "string") for number in range(100))  # the error names all of them
    large, small = (ScriptedBackend(call, name=name, context_window=150) for name in "LS")
    with RelayEngine(large, small, cue_profile=CUES) as engine:
        outcome = solve(engine, replace(drawn, tools=tools), LargeOnly())
    assert not outcome.right
    assert outcome.tokens > 0
    assert len(large.rendered) == 2


def test_a_model_that_calls_for_ever_is_wrong() -> None:
    call = '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>'
    problem = next(p for p in problem_set("calculator", 20, 5) if p.exchanges)
    backends = [ScriptedBackend(call, name=name) for name in ("L", "S")]
    with RelayEngine(*backends, cue_profile=CUES) as engine:
        outcome = solve(engine, problem, LargeOnly())
    assert not outcome.right
    assert len(backends[0].rendered) == MAX_ROUNDS
    assert "there is no tool 'nothing'" in backends[0].rendered[-1][0][-1].content


def test_an_interrupt_reports_what_is_done() -> None:
    def stop_after_three(what: str, number: int, total: int) -> None:
        if what == "amounts" and number == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as interrupted:
        accuracy_bench(partial(open_knowing, True), settings(policies=("large-only", "small-only")), stop_after_three)
    made = interrupted.value.report
    assert [row["n"] for row in made.rows] == [3, 3]
    assert made.notes[0].startswith("Interrupted")


def test_where_a_worker_is_killed_what_was_done_is_reported() -> None:
    def kill_after_three(what: str, number: int, total: int) -> None:
        if what == "amounts" and number >= 3:
            for worker in multiprocessing.active_children():
                worker.kill()

    with pytest.raises(WorkerDied, match="worker processes died") as died:
        accuracy_bench(partial(open_knowing, True), settings(n=200, policies=("large-only", "small-only"), jobs=2), kill_after_three)
    made = died.value.report
    assert made is not None
    assert 3 <= made.rows[0]["n"] < 200
    assert made.rows[0]["n"] == made.rows[1]["n"]
    assert made.notes[0].startswith("Interrupted")


def test_the_difference_is_explained_where_there_is_one() -> None:
    def notes(*policies: str) -> str:
        return " ".join(accuracy_bench(partial(open_knowing, True), settings(n=2, policies=policies)).notes)

    assert "vs large" in notes("large-only", "small-only")
    assert "vs large" not in notes("small-only")


def test_an_interrupt_amid_a_problem_drops_it_for_all_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopping(list[Outcome]):
        def append(self, outcome: Outcome) -> None:
            if len(self) == 2:
                raise KeyboardInterrupt
            super().append(outcome)

    def line_up(*given: Any) -> list[Tally]:
        return [Tally(LargeOnly(), "amounts"), Tally(SmallOnly(), "amounts", outcomes=Stopping())]

    monkeypatch.setattr(accuracy, "_line_up", line_up)
    with pytest.raises(Interrupted) as interrupted:
        accuracy_bench(partial(open_knowing, True), settings())
    assert [row["n"] for row in interrupted.value.report.rows] == [2, 2]


def test_an_interrupt_before_anything_is_done_reports_nothing() -> None:
    def stop(what: str, number: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupted:
        accuracy_bench(partial(open_knowing, True), settings(), stop)
    assert not isinstance(interrupted.value, Interrupted)


def test_an_interrupt_shows_what_is_done_and_is_told_by_the_exit_code(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    solved: list[int] = []

    def solve_two(engine: RelayEngine, problem: Problem, policy: Any, seed: int, options: Any) -> Outcome:
        solved.append(seed)
        if len(solved) == 3:
            raise KeyboardInterrupt
        return solve(engine, problem, policy, seed, options)

    monkeypatch.setattr("relay_integrations.evaluation.crew.solve", solve_two)
    arguments = ["bench", "accuracy", "--n", "8", "--seed", "5", "--policy", "large-only", "--json", "--plot", str(tmp_path / "plot.svg")]
    result = CliRunner().invoke(app, arguments, obj=terminal)
    assert result.exit_code == 130
    assert [row["n"] for row in json.loads(result.stdout)["rows"]] == [2]
    assert not (tmp_path / "plot.svg").exists()


def test_unknown_names_are_refused() -> None:
    for wrong in ({"families": ("sums",)}, {"policies": ("best",)}, {"turns": ("nobody",)}):
        with pytest.raises(ConfigError, match=r"there is no .* to measure; there are: "):
            accuracy_bench(partial(open_knowing, True), settings(**wrong))


def test_other_models_are_told_to_box_their_answers_and_get_what_room_there_is() -> None:
    with open_knowing(True, "follow-up") as engine:
        report = accuracy_bench(lambda: engine, settings(n=2, families=("follow-up",), policies=("large-only",), tiny=False))
        asked = [call[0] for call in engine.backends["large"].rendered]  # type: ignore[attr-defined]
    assert report.rows[0]["accuracy"] == 1
    assert all(messages[0].role == "system" and r"\boxed{}" in messages[0].content for messages in asked)
    assert all([message.role for message in messages[1:3]] == ["user", "assistant"] for messages in asked)
    assert settings(tiny=False).requests == {}
    assert settings().requests == {"max_tokens": 700}
    assert settings(tiny=False, options={"max_tokens": 9}).requests == {"max_tokens": 9}


def test_a_system_prompt_that_is_there_is_kept() -> None:
    drawn = settings(tiny=False).draw("calculator", 20, "test")
    plain = settings().draw("calculator", 20, "test")
    told = [(a, b) for a, b in zip(drawn, plain, strict=True) if b.grading == "box" and b.history]
    assert told
    for mine, before in told:
        assert [m.role for m in mine.history] == ["system"]
        assert mine.history[0].content.startswith(before.history[0].content + "\n")


@pytest.mark.parametrize("family", ["retrieval", "refine", "condense", "system"])
def test_formats_that_know_one_wording_are_refused_for_other_models(family: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    models = ["--large", str(tmp_path / "a"), "--small", str(tmp_path / "b")]
    result = CliRunner().invoke(app, ["bench", "accuracy", "--family", family, *models])
    assert result.exit_code == 2
    assert f"{family}: right is an answer in the tiny models' own words" in " ".join(result.output.split())


def test_policies_take_turns_in_being_first(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noted(engine: object, problem: object, policy: Any, *rest: object) -> Outcome:
        order.append(policy.name)
        return Outcome(policy.name == "large-only", 1, 1, 1, 0)

    monkeypatch.setattr("relay_integrations.evaluation.crew.solve", noted)
    policies = (LargeOnly(), SmallOnly())
    work = [Assignment(i, problem, policies, {}).work(None) for i, problem in enumerate(problems(2, 5))]  # type: ignore[arg-type]
    assert order == ["large-only", "small-only", "small-only", "large-only"]
    assert [[o.right for o in outcomes] for outcomes in work] == [[True, False], [True, False]]


@pytest.fixture
def terminal() -> Terminal:
    def open(choice: ModelChoice) -> RelayEngine:
        assert choice.tiny
        return open_knowing(True)

    return Terminal(open=open)


def test_it_prints_a_table_and_draws_a_plot(terminal: Terminal, tmp_path: Path) -> None:
    plot = tmp_path / "accuracy.svg"
    result = CliRunner().invoke(app, ["bench", "accuracy", "--n", "2", "--seed", "5", "--plot", str(plot)], obj=terminal)
    assert result.exit_code == 0, result.output
    assert "large-only" in result.stdout
    assert "100 %" in result.stdout
    assert result.stderr == ""
    assert "relaygen" in plot.read_text()


def test_as_json_it_prints_one_object(terminal: Terminal) -> None:
    arguments = ["bench", "accuracy", "--n", "2", "--seed", "5", "--policy", "relaygen", "--json"]
    result = CliRunner().invoke(app, arguments, obj=terminal)
    data = json.loads(result.stdout)
    assert [row["policy"] for row in data["rows"]] == ["relaygen"]


def test_a_plot_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    made = accuracy_bench(partial(open_knowing, True), settings(n=1, policies=("large-only",)))
    for path in (tmp_path / "no" / "folder.png", tmp_path / "plot.docx"):
        for refused in (lambda path: plot_accuracy(made, path), check_plot):
            with pytest.raises(ConfigError, match="cannot be written"):
                refused(path)
    check_plot(tmp_path / "plot.png")


def test_the_same_figures_give_the_same_plot(tmp_path: Path) -> None:
    made = accuracy_bench(partial(open_knowing, True), settings(n=1, policies=("large-only",)))
    for name in ("one.svg", "two.svg"):
        plot_accuracy(made, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--family", "sums"], "there is no family 'sums' to measure"),
        (["--plot", "accuracy.docx"], "cannot be written to 'accuracy.docx'"),
        (["--plot", "nowhere/accuracy.png"], "there is no folder 'nowhere'"),
    ],
)
def test_what_cannot_work_is_refused_before_a_model_is_opened(wrong: list[str], said: str) -> None:
    def open(choice: ModelChoice) -> RelayEngine:
        raise AssertionError("opened")

    result = CliRunner().invoke(app, ["bench", "accuracy", *wrong], obj=Terminal(open=open))
    assert result.exit_code == 2
    assert said in result.output


def test_workers_end_when_their_parent_is_killed() -> None:
    program = """
import os, signal
from functools import partial
from relay_integrations.evaluation.crew import Assignment, Crew
from relay_integrations.policies import LargeOnly
from relay_integrations.tiny.tasks import problems
from tests.unit.accuracy_support import open_knowing

if __name__ == "__main__":
    crew = Crew(partial(open_knowing, True), 2)
    list(crew.work([Assignment(i, problem, (LargeOnly(),), {}) for i, problem in enumerate(problems(4, 5))]))
    print(*crew._pool._processes, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    workers = [int(pid) for pid in killed.stdout.split()]
    assert len(workers) >= 1
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
