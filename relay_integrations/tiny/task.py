"""The word problems that the tiny pair was trained on, with their reasoning traces.

A problem is a chain of one to six steps on a two-digit number. Its trace computes each step in a sentence that is hard to
write ("Hence, 48+6*7=90."), restates the result in one that is easy ("So, Mia now has 90 coins."), and now and then checks it.
The wording of an easy sentence follows from its first words alone; that of a hard one is drawn from several.

Seeds: the pair was trained on what `Random(1 * 7919)` drew, mixed with drills of bare expressions, and watched on `Random(999)`.
`HELD_OUT_SEED` is neither of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

HELD_OUT_SEED = 424242
"""Seed of problems to measure with; nothing was trained or chosen on it."""

Operation = Literal["add", "subtract", "multiply", "add_product", "add_subtract"]

OPERATIONS: tuple[Operation, ...] = ("add", "subtract", "multiply", "add_product", "add_subtract")

_NAMES = ("Mia", "Tom", "Ava", "Leo", "Zoe", "Max", "Eva", "Sam", "Ida", "Ben", "Amy", "Dan")
_ITEMS = ("coins", "apples", "books", "cards", "stamps", "shells", "marbles", "pens")

_QUESTIONS: dict[Operation, tuple[str, ...]] = {
    "add": ("{name} finds {b} more.", "{name} buys {b} more."),
    "subtract": ("{name} loses {b}.", "{name} sells {b}."),
    "multiply": ("The number becomes {d} times as large.",),
    "add_product": ("{name} gets {d} boxes with {b} {items} each.",),
    "add_subtract": ("{name} wins {b} and gives away {c}.",),
}

_EXPRESSIONS: dict[Operation, str] = {
    "add": "{a}+{b}",
    "subtract": "{a}-{b}",
    "multiply": "{a}*{d}",
    "add_product": "{a}+{d}*{b}",
    "add_subtract": "{a}+{b}-{c}",
}

_ACTIONS: dict[Operation, str] = {
    "add": "we add {b} {items}",
    "subtract": "we take away {b} {items}",
    "multiply": "we multiply by {d}",
    "add_product": "we add {d} times {b} {items}",
    "add_subtract": "we add {b} and subtract {c}",
}

_OPENERS = ("First,", "Next,", "Then,", "After that,", "Now,", "Next,", "Then,", "Now,")

_RESTATEMENTS: dict[Operation, str] = {  # each operation has its usual one, any may follow
    "add": "So, {name} now has {result} {items}.",
    "subtract": "Thus, at this point the number of {items} is {result}.",
    "multiply": "Therefore, {name} has {result} {items} in total after this step.",
    "add_product": "This means {name} is holding {result} {items} right now.",
    "add_subtract": "In other words, the count of {items} stands at {result}.",
}

_CHECK_RATE: dict[Operation, float] = {"add": 0.15, "subtract": 0.15, "multiply": 0.5, "add_product": 0.6, "add_subtract": 0.6}
_CHECK_CUES: dict[Operation, str] = {
    "add": "Wait",
    "subtract": "Hmm",
    "multiply": "Hmm",
    "add_product": "Alternatively",
    "add_subtract": "Wait",
}
_CHECK_WORDINGS: dict[str, tuple[str, str]] = {
    "Wait": ("Wait, let me check: {check}.", "Wait, {check}."),
    "Hmm": ("Hmm, {check}.", "Hmm, let me check: {check}."),
    "Alternatively": ("Alternatively, we get {check}.", "Alternatively, {check}."),
}

_MAX_TRIES = 100  # a step that cannot stay within two digits ("multiply" at 60) is drawn again; then the whole problem is


@dataclass(frozen=True, slots=True)
class Problem:
    """One word problem.

    Attributes:
        question: What the model is asked.
        answer: The right number.
        trace: A complete right response, think tags and boxed answer included.
        steps: How many operations it takes.
    """

    question: str
    answer: int
    trace: str
    steps: int


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation on the running value `a`; `words` fills the templates above."""

    operation: Operation
    words: dict[str, str | int]

    @property
    def result(self) -> int:
        return int(self.words["result"])

    @property
    def equation(self) -> str:
        return _EXPRESSIONS[self.operation].format(**self.words) + f"={self.result}"


def problem(rng: Random | int, steps: int | None = None) -> Problem:
    """Draws one problem.

    Args:
        rng: A generator, or the seed of a new one.
        steps: How many operations; drawn from 1 to 5 if None.
    """
    rng = Random(rng) if isinstance(rng, int) else rng
    steps = steps or rng.choice((1, 2, 3, 4, 5))
    while True:
        name, items, start = rng.choice(_NAMES), rng.choice(_ITEMS), rng.randint(11, 60)
        sentences, chain = _draw_chain(rng, steps, start, name, items)
        if len(chain) == steps:
            break
    question = " ".join([f"{name} has {start} {items}.", *sentences, f"How many {items} does {name} have?"])
    answer = chain[-1].result
    return Problem(question, answer, _trace(rng, chain, name, items, answer), steps)


def problems(n: int, seed: int = HELD_OUT_SEED, steps: Sequence[int] = (3, 4, 5)) -> list[Problem]:
    """Draws `n` different problems whose numbers of operations are drawn from `steps`."""
    rng = Random(seed)
    found: dict[str, Problem] = {}
    while len(found) < n:
        drawn = problem(rng, rng.choice(steps))
        found.setdefault(drawn.question, drawn)
    return list(found.values())


def is_right(problem: Problem, text: str) -> bool:
    r"""Whether the last `\boxed{…}` of a response holds the right integer. No box is wrong."""
    boxes = re.findall(r"\\boxed\{([^{}]*)\}", text)
    return bool(boxes) and re.fullmatch(r"\s*-?[0-9]+\s*", boxes[-1]) is not None and int(boxes[-1]) == problem.answer


def _draw_chain(rng: Random, steps: int, start: int, name: str, items: str) -> tuple[list[str], list[_Step]]:
    """The question's sentences and its steps; fewer than asked for where one could not be drawn."""
    sentences: list[str] = []
    chain: list[_Step] = []
    value = start
    for _ in range(steps):
        step = _draw_step(rng, value, name, items)
        if step is None:
            break
        sentences.append(rng.choice(_QUESTIONS[step.operation]).format(**step.words))
        chain.append(step)
        value = step.result
    return sentences, chain


def _draw_step(rng: Random, value: int, name: str, items: str) -> _Step | None:
    """A step from `value` whose result has two digits, or None if none was found."""
    for _ in range(_MAX_TRIES):
        operation = rng.choice(OPERATIONS)
        if operation == "add_product":
            b, c, d = rng.randint(2, 9), 0, rng.randint(2, 9)
        else:
            b, c, d = rng.randint(11, 88), rng.randint(11, 88), rng.randint(2, 6)
        result = _apply(operation, value, b, c, d)
        if 10 <= result <= 99:
            return _Step(operation, {"name": name, "items": items, "a": value, "b": b, "c": c, "d": d, "result": result})
    return None


def _apply(operation: Operation, a: int, b: int, c: int, d: int) -> int:
    results = {"add": a + b, "subtract": a - b, "multiply": a * d, "add_product": a + d * b, "add_subtract": a + b - c}
    return results[operation]


def _trace(rng: Random, chain: Sequence[_Step], name: str, items: str, answer: int) -> str:
    paragraphs = [_paragraph(rng, step, i) for i, step in enumerate(chain)]
    paragraphs.append(f"All steps are done. Therefore, the final answer is {answer}.")
    reasoning = "\n\n".join(paragraphs)
    return f"<think>\n{reasoning}\n</think>\n\nAfter all the steps, {name} has {answer} {items}.\n\n**Final answer:** \\boxed{{{answer}}}"


def _paragraph(rng: Random, step: _Step, index: int) -> str:
    """What the trace writes for one step: the computation, its restatement, perhaps a check."""
    sentences = [_computation(rng, step, index)]
    restated = step.operation if rng.random() < 0.7 else rng.choice(OPERATIONS)
    sentences.append(_RESTATEMENTS[restated].format(**step.words))
    if rng.random() < _CHECK_RATE[step.operation]:
        sentences.append(_check(rng, step))
        sentences.append("Okay, the number of {items} is still {result}.".format(**step.words))
    return " ".join(sentences)


def _computation(rng: Random, step: _Step, index: int) -> str:
    """The hard sentence: opener and wording are drawn, so that the model is unsure of them."""
    equation = step.equation
    if index > 0 and step.operation in ("subtract", "add_product") and rng.random() < 0.65:
        return rng.choice((f"Hence, {equation}.", f"Hence, we get {equation}.", f"Hence, this step gives {equation}."))
    opener = _OPENERS[index] if rng.random() < 0.8 else rng.choice(_OPENERS)
    action = _ACTIONS[step.operation].format(**step.words)
    plain = f"{opener} {action}. {equation}."
    return rng.choice((plain, plain, f"{opener} {action}, which gives {equation}."))


def _check(rng: Random, step: _Step) -> str:
    """A sentence that computes the step again in another way."""
    cue = _CHECK_CUES[step.operation] if rng.random() < 0.75 else rng.choice(tuple(_CHECK_WORDINGS))
    check = rng.choice(_other_ways(step))
    first, second = (wording.format(check=check) for wording in _CHECK_WORDINGS[cue])
    return rng.choice((first, second))


def _other_ways(step: _Step) -> list[str]:
    a, b, c, d = (int(step.words[key]) for key in "abcd")
    result = step.result
    match step.operation:
        case "add":
            return [f"{b}+{a}={result}", f"{result}-{b}={a}"]
        case "subtract":
            return [f"{result}+{b}={a}", f"{a}-{result}={b}"]
        case "multiply":
            return [f"{d}*{a}={result}"]
        case "add_product":
            return [f"{d}*{b}={d * b} and {a}+{d * b}={result}", f"{b}*{d}+{a}={result}"]
        case "add_subtract":
            ways = [f"{result}+{c}-{b}={a}"]
            if a - c >= 10:  # the intermediate value, too, has two digits
                ways.append(f"{a}-{c}={a - c} and {a - c}+{b}={result}")
            return ways
