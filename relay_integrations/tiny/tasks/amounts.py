"""Word problems about amounts, in English, with their reasoning traces.

A problem is a chain of one to six steps on a number of at most two digits. Its trace computes each step in a sentence that is hard to
write ("Hence, 48+6*7=90."), restates the result in one that is easy ("So, Mia now has 90 coins."), and now and then checks it.
The wording of an easy sentence follows from its first words alone; that of a hard one is drawn from several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from relay_integrations.tiny.tasks.problem import Problem

FAMILY = "amounts"

Operation = Literal["add", "subtract", "multiply", "add_product", "add_subtract"]

OPERATIONS: tuple[Operation, ...] = ("add", "subtract", "multiply", "add_product", "add_subtract")

NAMES = tuple("Mia Tom Ava Leo Zoe Max Eva Sam Ida Ben Amy Dan Lia Kai Joe Ann Eli Fay Gus Ivy".split())
ITEMS = tuple("coins apples books cards stamps shells marbles pens stickers beads tickets oranges".split())

_QUESTIONS: dict[Operation, tuple[str, ...]] = {
    "add": ("{name} finds {b} more.", "{name} buys {b} more.", "{name} gets {b} more from a friend."),
    "subtract": ("{name} loses {b}.", "{name} sells {b}.", "{name} gives away {b}."),
    "multiply": ("The number becomes {d} times as large.", "Now {name} has {d} times as many."),
    "add_product": ("{name} gets {d} boxes with {b} {items} each.", "{name} buys {d} bags of {b} {items}."),
    "add_subtract": ("{name} wins {b} and gives away {c}.", "{name} finds {b} and loses {c}."),
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

_MAX_TRIES = 100  # a step that cannot stay within two digits ("multiply" at 60) is drawn again; then the whole story is


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on the running value `a`; `words` fills the templates above."""

    operation: Operation
    words: dict[str, str | int]

    @property
    def result(self) -> int:
        """The value after the step."""
        return int(self.words["result"])

    @property
    def expression(self) -> str:
        """What is computed, as `48+6*7`."""
        return _EXPRESSIONS[self.operation].format(**self.words)

    @property
    def equation(self) -> str:
        """With its result."""
        return f"{self.expression}={self.result}"

    @property
    def action(self) -> str:
        """What is done, in words."""
        return _ACTIONS[self.operation].format(**self.words)

    @property
    def skeleton(self) -> tuple[object, ...]:
        """What the step does, without names and words."""
        return (self.expression,)

    def say(self, rng: Random) -> str:
        """A sentence of the question."""
        return rng.choice(_QUESTIONS[self.operation]).format(**self.words)

    def restate(self, rng: Random) -> str:
        """An easy sentence: the result in words."""
        restated = self.operation if rng.random() < 0.7 else rng.choice(OPERATIONS)
        return _RESTATEMENTS[restated].format(**self.words)


@dataclass(frozen=True, slots=True)
class Story:
    """Whose amount of what goes through which steps."""

    name: str
    items: str
    start: int
    steps: tuple[Step, ...]

    @property
    def result(self) -> int:
        """The amount at the end."""
        return self.steps[-1].result

    @property
    def skeleton(self) -> tuple[object, ...]:
        """What has to be worked out, without names and words."""
        return (FAMILY, *(step.expression for step in self.steps))

    @property
    def opening(self) -> str:
        """The first sentence of the question."""
        return f"{self.name} has {self.start} {self.items}."

    @property
    def ask(self) -> str:
        """The last sentence of the question."""
        return f"How many {self.items} does {self.name} have?"

    @property
    def conclusion(self) -> str:
        """The answer's text."""
        return f"After all the steps, {self.name} has {self.result} {self.items}.\n\n**Final answer:** \\boxed{{{self.result}}}"

    def question(self, rng: Random) -> str:
        """The problem in words."""
        return " ".join([self.opening, *(step.say(rng) for step in self.steps), self.ask])


def draw_story(rng: Random, steps: int) -> Story:
    """Draws a story of so many steps."""
    while True:
        name, items, start = rng.choice(NAMES), rng.choice(ITEMS), rng.randint(2, 70)
        if chain := draw_steps(rng, steps, start, name, items):
            return Story(name, items, start, chain)


def draw_steps(rng: Random, steps: int, value: int, name: str, items: str) -> tuple[Step, ...]:
    """Draws steps from a value on; none at all where one could not be found."""
    chain: list[Step] = []
    for _ in range(steps):
        step = _draw_step(rng, value, name, items)
        if step is None:
            return ()
        chain.append(step)
        value = step.result
    return tuple(chain)


def draw(rng: Random, steps: int) -> tuple[Problem, object]:
    """Draws one problem, with its skeleton."""
    story = draw_story(rng, steps)
    question = story.question(rng)
    return Problem(FAMILY, question, str(story.result), respond(rng, story), steps), story.skeleton


def respond(rng: Random, story: Story, opening: str = "Okay, {name} starts with {start} {items}.") -> str:
    """A complete right response.

    Args:
        rng: Draws the wordings.
        story: What to work out.
        opening: The easy sentence that half of all traces begin with.
    """
    paragraphs = [_paragraph(rng, step, i) for i, step in enumerate(story.steps)]
    if rng.random() < 0.5:
        paragraphs.insert(0, opening.format(name=story.name, start=story.start, items=story.items))
    paragraphs.append(f"All steps are done. Therefore, the final answer is {story.result}.")
    reasoning = "\n\n".join(paragraphs)
    return f"<think>\n{reasoning}\n</think>\n\n{story.conclusion}"


def respond_without_thinking(story: Story) -> str:
    """A right answer that computes in the answer itself, for when reasoning is switched off."""
    lines = [f"{_OPENERS[i]} {step.equation}." for i, step in enumerate(story.steps)]
    return " ".join(lines) + f"\n\n{story.conclusion}"


def _draw_step(rng: Random, value: int, name: str, items: str) -> Step | None:
    """A step from `value` whose result has at most two digits, or None if none was found."""
    for _ in range(_MAX_TRIES):
        operation = rng.choice(OPERATIONS)
        if operation == "add_product":
            b, c, d = rng.randint(2, 9), 0, rng.randint(2, 9)
        else:
            b, c, d = rng.randint(2, 88), rng.randint(2, 88), rng.randint(2, 6)
        result = _apply(operation, value, b, c, d)
        if 2 <= result <= 99:
            return Step(operation, {"name": name, "items": items, "a": value, "b": b, "c": c, "d": d, "result": result})
    return None


def _apply(operation: Operation, a: int, b: int, c: int, d: int) -> int:
    results = {"add": a + b, "subtract": a - b, "multiply": a * d, "add_product": a + d * b, "add_subtract": a + b - c}
    return results[operation]


def _paragraph(rng: Random, step: Step, index: int) -> str:
    """What the trace writes for one step: the computation, its restatement, perhaps a check."""
    sentences = [_computation(rng, step, index), step.restate(rng)]
    if rng.random() < _CHECK_RATE[step.operation]:
        sentences.append(_check(rng, step))
        sentences.append("Okay, the number of {items} is still {result}.".format(**step.words))
    return " ".join(sentences)


def _computation(rng: Random, step: Step, index: int) -> str:
    """The hard sentence: opener and wording are drawn, so that the model is unsure of them."""
    equation = step.equation
    if index > 0 and step.operation in ("subtract", "add_product") and rng.random() < 0.65:
        return rng.choice((f"Hence, {equation}.", f"Hence, we get {equation}.", f"Hence, this step gives {equation}."))
    opener = _OPENERS[index] if rng.random() < 0.8 else rng.choice(_OPENERS)
    plain = f"{opener} {step.action}. {equation}."
    return rng.choice((plain, plain, f"{opener} {step.action}, which gives {equation}."))


def _check(rng: Random, step: Step) -> str:
    """A sentence that computes the step again in another way."""
    cue = _CHECK_CUES[step.operation] if rng.random() < 0.75 else rng.choice(tuple(_CHECK_WORDINGS))
    check = rng.choice(_other_ways(step))
    first, second = (wording.format(check=check) for wording in _CHECK_WORDINGS[cue])
    return rng.choice((first, second))


def _other_ways(step: Step) -> Sequence[str]:
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
            if a - c >= 1:  # the intermediate value, too, is positive
                ways.append(f"{a}-{c}={a - c} and {a - c}+{b}={result}")
            return ways
