"""Which model wrote the wrong step of a wrong answer? A guess, and on what it rests."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Literal

from relay_integrations.evaluation.arithmetic import Equation, first_wrong, spell
from relay_integrations.evaluation.boxed import last_box
from relay_integrations.roles import Role

Basis = Literal["equation", "first mention", "last words"]
"""The first wrong equation; where the wrong answer first appears; who wrote the end of it."""

Written = Sequence[tuple[Role, str]]
"""Who wrote what, in order: the raw texts of a result's segments."""

_AROUND = 30


@dataclass(frozen=True, slots=True)
class Blame:
    """Who wrote the wrong step.

    Attributes:
        role: Whose it was.
        basis: What this rests on.
        excerpt: The place, in short.
    """

    role: Role
    basis: Basis
    excerpt: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def find_blame(written: Written, found: str | None) -> Blame | None:
    """Who wrote the wrong step.

    The first wrong equation of plain arithmetic counts, and who wrote the first wrong digit of its result. Without one, the first place
    where the wrong answer stands; without that, the last box, or the end.

    Args:
        written: Who wrote what.
        found: The wrong answer, as the grader found it.

    Returns:
        None where nothing was written.
    """
    text = "".join(part for _, part in written)
    if not text.strip():
        return None
    wrong = first_wrong(text)
    if wrong is not None:
        return Blame(role_at(written, _wrong_digit(text, wrong)), "equation", f"{wrong.text} (it is {spell(wrong.value)})")
    place = _mention(text, found) if found else None
    if place is not None:
        return Blame(role_at(written, place), "first mention", _excerpt(text, place))
    box = last_box(text)
    end = box.start if box is not None else len(text.rstrip()) - 1
    return Blame(role_at(written, end), "last words", _excerpt(text, end))


def role_at(written: Written, position: int) -> Role:
    """Who wrote the character at a position of the joined text."""
    ends = list(accumulate(len(part) for _, part in written))
    return written[min(bisect_right(ends, position), len(written) - 1)][0]


def _wrong_digit(text: str, wrong: Equation) -> int:
    """Where the result of an equation departs from the right one: two may have written a number."""
    result = text[wrong.result_start : wrong.start + len(wrong.text)]
    pairs = enumerate(zip(result, spell(wrong.value), strict=False))
    return wrong.result_start + next((number for number, (is_, should_be) in pairs if is_ != should_be), len(result) - 1)


def _mention(text: str, found: str) -> int | None:
    """Where an answer first stands as a whole: 12 is not in 112, 1.12, 12.5 or 12,500."""
    place = text.find(found)
    while place >= 0:
        behind = place + len(found)
        if not _goes_on_before(text[max(0, place - 2) : place], found[0]) and not _goes_on_behind(text[behind : behind + 2], found[-1]):
            return place
        place = text.find(found, place + 1)
    return None


def _goes_on_before(before: str, first: str) -> bool:
    if not before or not first.isalnum():
        return False
    return before[-1].isalnum() or before[-1] in "_." or (before[-1] == "," and before[:-1].isdigit())


def _goes_on_behind(behind: str, last: str) -> bool:
    if not behind or not last.isalnum():
        return False
    return behind[0].isalnum() or behind[0] == "_" or (behind[0] in ".," and behind[1:].isdigit())


def _excerpt(text: str, place: int) -> str:
    return " ".join(text[max(0, place - _AROUND) : place + _AROUND].split())
