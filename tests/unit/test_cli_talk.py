"""`relay demo` and `relay chat` with scripted models."""

from __future__ import annotations

from dataclasses import dataclass, field

from relay_integrations.backends.scripted import Reply
from relay_integrations.cli.terminal import Terminal
from relay_integrations.tiny.tasks import problems
from tests.unit.cli_support import ANSWER, Bench, interrupt_when_shown
from tests.unit.support import continuing

# --- demo


def test_the_demo_shows_roles_cues_and_figures() -> None:
    result = Bench().run("demo", "--seed", "1", "--steps", "2")
    assert result.exit_code == 0
    text = result.stdout
    assert "First we add 3.5 and 4. *So*,⟦" not in text  # the space stays outside the brackets
    assert "First we add 3.5 and 4. *So*, ⟦Mia now has 7.5 coins.⟧ Then we go on with it. *Thus* we ⟦know it.⟧\n" in text
    assert "⟦The answer is 7.5.⟧\n" in text
    for label in ("tokens", "utilisation", "handoffs", "ms a handoff", "tokens/s", "answer         wrong"):
        assert f"\n{label}" in text
    assert "--seed 1 --steps 2" in text


def test_the_demo_marks_a_right_answer() -> None:
    right = problems(1, 7, (3,))[0]
    result = Bench(right.trace).run("demo", "--seed", "7")
    assert right.question in result.stdout
    assert f"answer         right (it is {right.answer})" in result.stdout


def test_the_demo_takes_another_problem_whose_answer_it_does_not_know() -> None:
    bench = Bench()
    result = bench.run("demo", "--problem", "What is 3.5 and 4?", "--policy", "small-only")
    assert bench.asked == []
    assert "What is 3.5 and 4?" in result.stdout
    assert "\nanswer    " not in result.stdout


# --- chat


def test_a_piped_conversation_keeps_its_history_and_prints_answers_only() -> None:
    bench = Bench()
    result = bench.run("chat", "--system", "Be brief.", input="one\n\ntwo\n/reset\nthree\n")
    assert result.exit_code == 0
    assert result.stdout == (ANSWER + "\n") * 3
    assert "you:" not in result.output
    system, said = ("system", "Be brief."), ("assistant", ANSWER)
    assert bench.asked == [[system, ("user", "one")], [system, ("user", "one"), said, ("user", "two")], [system, ("user", "three")]]


def test_a_conversation_ends_at_quit() -> None:
    bench = Bench()
    bench.run("chat", input="one\n/quit\ntwo\n")
    assert len(bench.asked) == 1


def test_stats_of_the_last_answer() -> None:
    result = Bench().run("chat", input="/stats\none\n/stats\n/help\n")
    assert "no answer yet" in result.stderr
    assert "utilisation" in result.stderr
    assert "/reset forgets" in result.stderr
    assert result.stdout == ANSWER + "\n"


def test_a_failed_answer_is_taken_back_and_the_conversation_goes_on() -> None:
    replies = iter([Reply("The ans", fail_after=1), Reply("The ans", fail_after=1)])
    bench = Bench(lambda so_far, request: next(replies, None) or continuing("Yes.")(so_far, request))
    result = bench.run("chat", "--policy", "large-only", input="one\ntwo\n")
    assert result.exit_code == 1
    assert result.stdout.endswith("Yes.\n")
    assert result.stderr.count("error:") == 1
    assert bench.asked == [[("user", "one")], [("user", "two")]]


@dataclass
class Person(Terminal):
    """A terminal at which somebody types lines, or presses Ctrl-C where a line is None."""

    lines: list[str | None] = field(default_factory=list)

    @property
    def interactive(self) -> bool:
        return True

    def read_line(self, prompt: str) -> str | None:
        if not self.lines:
            return None
        line = self.lines.pop(0)
        if line is None:
            raise KeyboardInterrupt
        return line


def test_ctrl_c_at_the_prompt_does_not_leave() -> None:
    bench = Bench()
    result = bench.run("chat", terminal=Person(open=bench.open, lines=[None, "one"]))
    assert result.exit_code == 0
    assert len(bench.asked) == 1


def test_ctrl_c_stops_the_answer_without_leaving_and_keeps_it() -> None:
    replies = iter([Reply("The answer is seven and a half.", stall_after=6)])
    bench = Bench(lambda so_far, request: next(replies, None) or Reply("Yes."))
    interrupt_when_shown("The answer is seven and a")
    result = bench.run("chat", "--policy", "large-only", terminal=Person(open=bench.open, lines=["one", "two"]))
    assert result.exit_code == 0
    assert "stopped" in result.stderr
    assert bench.asked[1] == [("user", "one"), ("assistant", "The answer is seven and a"), ("user", "two")]
