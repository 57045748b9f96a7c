r"""The box in which a model puts its final answer: `\boxed{…}`."""

from __future__ import annotations

import re
from typing import NamedTuple

# An escaped brace opens and closes nothing. Two backslashes are a line break; but some models write them before `boxed`.
_MARK = re.compile(r"\\boxed\s*\{|\\[{}]|\\\\(?!boxed)|[{}]")


class Box(NamedTuple):
    """What stands in a box, and where it begins and ends."""

    content: str
    start: int
    end: int


def last_box(text: str) -> Box | None:
    r"""The last `\boxed{…}` whose brace is closed; None if there is none. Of a box in a box, the inner one."""
    opened: list[int | None] = []  # where the content of each open box begins; None for any other brace
    found: Box | None = None
    for mark in _MARK.finditer(text):
        if mark[0].startswith("\\boxed"):
            opened.append(mark.end())
        elif mark[0] == "{":
            opened.append(None)
        elif mark[0] == "}" and opened:
            start = opened.pop()
            if start is not None and (found is None or start > found.start):
                found = Box(text[start : mark.start()], start, mark.start())
    return found


def is_balanced(text: str) -> bool:
    """Whether each brace in a text has its counterpart, so that it can stand in a box."""
    depth = 0
    for mark in _MARK.finditer(text):
        if mark[0].startswith("\\boxed") or mark[0] == "{":
            depth += 1
        elif mark[0] == "}":
            depth -= 1
            if depth < 0:
                return False
    return depth == 0
