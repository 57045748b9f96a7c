"""One problem with its right answer, and the split that it belongs to."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Literal

from relay_integrations.chat.messages import Message

Split = Literal["train", "calibration", "validation", "test"]

Grading = Literal["box", "word", "whole"]
r"""The last `\boxed{…}` holds the answer; it stands anywhere in the text as a whole word; or the text is that of the trace and no other."""

SPLITS: tuple[Split, ...] = ("train", "calibration", "validation", "test")

_BUCKETS = 32
_SPLIT_OF_BUCKET: dict[int, Split] = {0: "test", 1: "validation", 2: "calibration"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """What tools returned, and what the model writes then."""

    results: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    r"""One problem.

    Attributes:
        family: The kind of problem.
        question: What the model is asked, last.
        answer: The right answer.
        trace: A complete right response, think tags and boxed answer included; with tools, what leads to the first call.
        steps: How many operations it takes.
        history: What was said before the question.
        tools: Tools in OpenAI's format.
        exchanges: With tools, how it goes on.
        thinking: Whether the model may reason.
        grading: Where the right answer must stand.
    """

    family: str
    question: str
    answer: str
    trace: str
    steps: int
    history: tuple[Message, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    thinking: bool = True
    grading: Grading = "box"

    @property
    def messages(self) -> list[Message]:
        """The conversation up to the question."""
        return [*self.history, Message(role="user", content=self.question)]

    @property
    def answer_text(self) -> str:
        """The text of the answer, as the trace has it."""
        last = self.exchanges[-1].text if self.exchanges else self.trace
        return last.rpartition("</think>")[2].strip()


def split_of(skeleton: object) -> Split:
    """The one split that a problem may be used in: a matter of what has to be worked out, not of wording or seed.

    So no problem that was trained on is ever measured with, whatever the phrases and the seeds (and in `amounts` the names). 29 of 32
    problems belong to `train`, one to each of the others. A conversation is one problem, whatever the splits of its turns alone.

    Args:
        skeleton: The numbers and operations of the problem; its `repr` counts.
    """
    bucket = hashlib.sha256(repr(skeleton).encode()).digest()[0] % _BUCKETS
    return _SPLIT_OF_BUCKET.get(bucket, "train")


def is_right(problem: Problem, text: str) -> bool:
    """Whether the text of an answer is right."""
    match problem.grading:
        case "whole":
            return text.strip() == problem.answer_text
        case "word":
            return re.search(rf"(?<![\w.\-−]){re.escape(problem.answer)}(?!\w|[.,]\d)", text) is not None
        case "box":
            boxes = re.findall(r"\\boxed\{([^{}]*)\}", text)
            return bool(boxes) and boxes[-1].strip() == problem.answer
