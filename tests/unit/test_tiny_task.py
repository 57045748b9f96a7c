"""The word problems of the tiny pair: repeatable, right, all different, graded strictly."""

from __future__ import annotations

import re
import subprocess
import sys
from random import Random

import pytest

from relay_integrations.tiny import pair_paths
from relay_integrations.tiny.task import HELD_OUT_SEED, Problem, is_right, problem, problems

EQUATION = re.compile(r"([\d+*-]+)=(\d+)")


def test_a_seed_repeats_its_problem() -> None:
    assert problem(3) == problem(3) == problem(Random(3))
    assert problem(3) != problem(4)
    assert problems(20, seed=1) == problems(20, seed=1)


def test_problems_differ_and_have_the_steps_asked_for() -> None:
    drawn = problems(500, seed=2)
    assert len({p.question for p in drawn}) == 500
    assert {p.steps for p in drawn} == {3, 4, 5}
    assert {p.steps for p in problems(50, seed=2, steps=(1, 2))} == {1, 2}
    assert len({p.question for p in problems(400, seed=2, steps=(1,))}) == 400


def test_more_problems_begin_with_the_fewer() -> None:
    assert problems(30)[:10] == problems(10)


def test_the_training_seed_draws_no_held_out_problem() -> None:
    held_out = {p.question for p in problems(300, HELD_OUT_SEED)}
    rng = Random(1 * 7919)
    assert not held_out & {problem(rng, rng.choice((3, 4, 5))).question for _ in range(2000)}


def test_every_equation_of_a_trace_holds_and_stays_within_two_digits() -> None:
    for p in problems(300, seed=5, steps=(1, 2, 3, 4, 5, 6)):
        equations = EQUATION.findall(p.trace)
        assert len(equations) >= p.steps
        for expression, value in equations:
            assert eval(expression) == int(value)
            assert 2 <= int(value) <= 99
        assert p.trace.startswith("<think>\n")
        assert p.trace.count("</think>") == 1
        assert is_right(p, p.trace)


def test_an_easy_sentence_follows_from_its_first_words() -> None:
    wordings: dict[str, set[str]] = {}
    for p in problems(200, seed=6):
        items = re.search(r"How many (\w+)", p.question)
        assert items
        for sentence in re.findall(r"(?:So|Thus|This means|In other words|Okay)\b[^.]*\.", p.trace):
            plain = re.sub(r"\d+", "9", sentence).replace(items[1], "items")
            plain = plain.replace(p.question.split()[0], "N")
            wordings.setdefault(sentence.split()[0], set()).add(plain)
    assert set(wordings) == {"So,", "Thus,", "This", "In", "Okay,"}
    assert all(len(said) == 1 for said in wordings.values())


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (r"\boxed{42}", True),
        (r"\boxed{7} then \boxed{42}", True),
        (r"\boxed{42} then \boxed{7}", False),
        (r"\boxed{42} then \boxed{many}", False),
        (r"\boxed{ 42 }", True),
        (r"\boxed{042}", True),
        (r"\boxed{42.0}", False),
        (r"\boxed{-42}", False),
        (r"\boxed{4_2}", False),
        (r"\boxed{٤٢}", False),
        (r"\boxed{}", False),
        ("42", False),
        ("boxed{42}", False),
        (r"\boxed{42", False),
        ("", False),
    ],
)
def test_grading(text: str, right: bool) -> None:
    assert is_right(Problem("?", 42, "", 1), text) is right


def test_the_pair_is_there() -> None:
    for folder in pair_paths():
        assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
            file.name for file in folder.iterdir()
        }
    assert [folder.name for folder in pair_paths()] == ["relay-tiny-large", "relay-tiny-small"]


def test_the_task_needs_no_torch() -> None:
    program = "import sys, relay_integrations.tiny.task; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
