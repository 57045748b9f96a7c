r"""Graders: is an answer right? One of four kinds, each by a short text, so that a command line and a data file can name it.

`exact`: the last `\boxed{…}`, or the whole answer, is the reference. `regex`: the reference is a pattern, found in the answer.
`regex:PATTERN`: what the pattern found last is the reference. `math`: the last box equals the reference, as mathematics.
`command:PROGRAM`: a program of yours says so.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Protocol, Self

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.boxed import last_box

GRADERS = ("exact", "regex", "regex:PATTERN", "math", "command:PROGRAM")
"""What `make_grader` takes."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one answer.

    Attributes:
        right: Whether it is right.
        found: What was taken as the answer; None if nothing could be.
        detail: Why it was judged so.
    """

    right: bool
    found: str | None
    detail: str


class Grader(Protocol):
    """Judges answers. May be used from several threads at once; in an asyncio program call `grade` through `asyncio.to_thread`.

    Attributes:
        name: As in `make_grader`.
    """

    name: str

    def grade(self, answer: str, reference: str, question: str = "") -> Grade:
        """Judges one answer; no text makes it fail.

        Args:
            answer: What the model said.
            reference: The right answer, or what stands for it.
            question: What the model was asked, for graders that want to know.

        Raises:
            ConfigError: The grader itself cannot work.
        """
        ...

    def check(self, reference: str) -> None:
        """Checks that answers can be held against a reference.

        Raises:
            ConfigError: Says what is wrong with it.
        """
        return None

    def close(self) -> None:
        """Ends what the grader has started. May be called twice; it may be used again."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def make_grader(spec: str, *, time_limit: float | None = None) -> Grader:
    r"""Makes a grader; close it when done.

    Args:
        spec: One of `GRADERS`, e.g. "math", r"regex:answer is (\d+)", "command:./judge --strict".
        time_limit: Seconds for one answer, in `math` and `regex` (5 by default) and `command` (60).

    Raises:
        ConfigError: There is no such grader, or it cannot work; says why.
    """
    kind, colon, argument = spec.partition(":")
    limits = {} if time_limit is None else {"time_limit": time_limit}
    match kind, bool(colon):
        case "exact", False:
            return ExactGrader()
        case "regex", False:
            from relay_integrations.evaluation.regex_grader import RegexGrader

            return RegexGrader(**limits)
        case "regex", True:
            from relay_integrations.evaluation.regex_grader import PatternGrader

            return PatternGrader(argument, **limits)
        case "math", False:
            from relay_integrations.evaluation.math_grader import MathGrader

            return MathGrader(**limits)
        case "command", True:
            from relay_integrations.evaluation.command_grader import CommandGrader

            return CommandGrader(argument, **limits)
    raise ConfigError(f"there is no grader {spec!r}; there are: {', '.join(GRADERS)}")


class ExactGrader(Grader):
    """Compares text with text: same characters (Unicode NFC), same case; any white space is one space, and none at the ends."""

    name = "exact"

    def grade(self, answer: str, reference: str, question: str = "") -> Grade:
        """As in `Grader`."""
        return compared(plain_text(boxed_or_whole(answer)), plain_text(boxed_or_whole(reference)))

    def check(self, reference: str) -> None:
        """As in `Grader`."""
        check_not_blank(boxed_or_whole(reference))


def boxed_or_whole(text: str) -> str:
    """What stands in the last box; all of it where there is no box."""
    box = last_box(text)
    return text if box is None else box.content


def plain_text(text: str) -> str:
    """Text as it is compared: Unicode NFC, any white space as one space."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def compared(found: str, reference: str) -> Grade:
    """The verdict where text is compared with text."""
    return Grade(found == reference, found, "it is the reference" if found == reference else "it is not the reference")


def check_not_blank(reference: str) -> None:
    """Checks that a reference says something: one that is left empty would make empty answers right, or all of them.

    Raises:
        ConfigError: It does not.
    """
    if not reference.strip():
        raise ConfigError(f"the reference {reference!r} is blank: give the right answer")
