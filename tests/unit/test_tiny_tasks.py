"""The problems of the tiny models: repeatable, right, in one split only, graded strictly."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import islice
from random import Random

import pytest

from relay_integrations.tiny.tasks import FAMILIES, SPLITS, Problem, is_right, problems, queues, split_of, stream

EQUATION = re.compile(r"([\d+*-]+)=(\d+)")


def worked_out(problem: Problem) -> str:
    """What a problem of one step asks to work out, read off its text."""
    if problem.family == "queues":
        return problem.question
    computed = EQUATION.search(problem.trace)
    assert computed
    return computed[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_repeats_its_problems_and_more_begin_with_the_fewer(family: str) -> None:
    assert problems(20, seed=1, family=family) == problems(20, seed=1, family=family)
    assert problems(20, seed=1, family=family) != problems(20, seed=2, family=family)
    assert problems(30, family=family)[:10] == problems(10, family=family)


@pytest.mark.parametrize("family", FAMILIES)
def test_problems_differ_and_have_the_steps_asked_for(family: str) -> None:
    drawn = problems(300, seed=2, family=family)
    assert len({p.question for p in drawn}) == 300
    assert {p.steps for p in drawn} == {3, 4, 5}
    assert {p.steps for p in problems(50, seed=2, steps=(1, 2), family=family)} == {1, 2}
    assert {p.family for p in drawn} == {family}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_problem_is_in_two_splits_whatever_the_seed(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "NAMES", queues.NAMES[:6])  # so few that two draws often ask the same
    found = {
        split: {worked_out(p) for p in problems(1500 if split == "train" else 250, seed, (1,), split=split, family=family)}
        for seed, split in enumerate(SPLITS)
    }
    for one in SPLITS:
        for other in SPLITS:
            assert one == other or not found[one] & found[other]


def test_a_split_is_a_matter_of_the_numbers_not_of_names_and_words() -> None:
    drawn = [FAMILIES["amounts"](Random(seed), 1) for seed in range(4000)]
    splits: dict[str, set[str]] = {}
    questions: dict[str, set[str]] = {}
    for problem, skeleton in drawn:
        splits.setdefault(worked_out(problem), set()).add(split_of(skeleton))
        questions.setdefault(worked_out(problem), set()).add(problem.question)
    assert all(len(found) == 1 for found in splits.values())
    assert max(len(found) for found in questions.values()) > 1


def test_most_problems_are_for_training() -> None:
    shares = [split_of(("x", i)) for i in range(4000)]
    assert shares.count("train") / 4000 == pytest.approx(29 / 32, abs=0.02)
    assert all(shares.count(split) > 60 for split in SPLITS)


def test_every_equation_of_a_trace_holds_and_stays_within_two_digits() -> None:
    for p in problems(300, seed=5, steps=(1, 2, 3, 4, 5, 6)):
        equations = EQUATION.findall(p.trace)
        assert len(equations) >= p.steps
        for expression, value in equations:
            assert eval(expression) == int(value)
            assert 0 <= int(value) <= 99
        assert p.trace.startswith("<think>\n")
        assert p.trace.count("</think>") == 1
        assert is_right(p, p.trace)


def test_a_queue_changes_as_its_question_says() -> None:
    for p in problems(200, seed=5, steps=(1, 2, 3, 4, 5, 6), family="queues"):
        start, *moves, ask = re.split(r"(?<=[.?]) ", p.question)
        queue = start.removeprefix("In der Schlange stehen ").rstrip(".").split(", ")
        for move in moves:
            queue = moved(queue, move)
        places = ("erster", "zweiter", "dritter", "vierter", "fünfter", "sechster")
        place = places.index(ask.split()[3])
        assert queue[place] == p.answer, p.question
        assert is_right(p, p.trace)
        assert not is_right(p, p.trace.replace(p.answer, "Niemand"))


def moved(queue: list[str], move: str) -> list[str]:
    """A queue after a move in words; written apart from the generator."""
    words = move.rstrip(".").split()
    who = words[0]
    rest = [name for name in queue if name != who]
    if "tauschen" in move:
        other = words[2]
        return [{who: other, other: who}.get(name, name) for name in queue]
    if "geht ans Ende" in move or "hinten an" in move:
        return [*rest, who]
    if "darf nach vorne" in move:
        return [who, *rest]
    if "geht nach Hause" in move:
        return rest
    at = queue.index(words[-1])
    return [*queue[:at], who, *queue[at:]]


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
    assert all(len(said) == 1 for opener, said in wordings.items() if opener != "Okay,")
    assert len(wordings["Okay,"]) == 2  # one opens the reasoning, one follows a check


def test_the_same_opener_stands_before_easy_and_before_hard_sentences_of_the_second_family() -> None:
    text = " ".join(p.trace for p in problems(50, family="queues"))
    assert "Also ist" in text
    assert ", also " in text


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (r"\boxed{42}", True),
        (r"\boxed{7} then \boxed{42}", True),
        (r"\boxed{42} then \boxed{7}", False),
        (r"\boxed{42} then \boxed{many}", False),
        (r"\boxed{ 42 }", True),
        (r"\boxed{042}", False),
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
def test_grading_with_a_box(text: str, right: bool) -> None:
    assert is_right(Problem("amounts", "?", "42", "", 1), text) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Mia has 42 coins.", True),
        ("It is 42.", True),
        ("42", True),
        ("Mia has 142 coins.", False),
        ("Mia has 42.5 coins.", False),
        ("Mia has 3.42 coins.", False),
        ("Mia has 42,000 coins.", False),
        ("Mia has 42, I think.", True),
        ("It is -42.", False),
        ("It is −42.", False),
        ("", False),
    ],
)
def test_grading_without_a_box(text: str, right: bool) -> None:
    assert is_right(Problem("calculator", "?", "42", "", 1, grading="word"), text) is right


def test_a_stream_of_problems_of_one_step_does_not_repeat_itself() -> None:
    drawn = list(islice(stream(Random(1), (1,), "train", "amounts"), 500))
    assert len({p.question for p in drawn}) == 500


def test_the_tasks_and_formats_need_no_torch() -> None:
    program = "import sys, relay_integrations.tiny.sets; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
