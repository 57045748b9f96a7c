"""What a user is to see of a raw text, by a few lines that know the whole of it: neither chunks nor segments."""

from __future__ import annotations

import re
from collections.abc import Sequence


def both_channels(text: str, stops: Sequence[str]) -> tuple[str, str]:
    """Reasoning and answer of a text that begins with the open tag, cut at the first stop sequence."""
    reasoning, closing, rest = text.removeprefix("<think>").lstrip("\n").partition("</think>")
    seen, stopped = cut(reasoning, stops)
    if stopped or not closing or not rest.strip():
        return seen, ""
    if rest.lstrip().startswith("<think>"):
        more, answer = both_channels(rest.lstrip(), stops)
        return seen + more, answer
    return seen, answer_of(rest, stops)[0]


def answer_of(rest: str, stops: Sequence[str], *, begun: bool = False) -> tuple[str, str]:
    """The answer, and what a stop sequence cut off: a closing tag without an open one is dropped with the line breaks behind it.

    `begun`: no tag stands in front, so that line breaks there are text.
    """
    shown, opened, stray = "", 0, not begun
    for part in re.split("(</?think>)", rest):
        if part == "<think>":
            shown, opened, stray = shown + part, opened + 1, False
        elif part == "</think>":
            shown, opened, stray = shown + part * bool(opened), max(0, opened - 1), not opened
        elif part:
            part = part.lstrip("\n") if stray else part
            stray = stray and not part
            seen, stopped = cut(part, stops)
            shown += seen
            if stopped:
                return shown, stopped
    return shown, ""


def cut(text: str, stops: Sequence[str]) -> tuple[str, str]:
    ends = [(text.find(s) + len(s), text.find(s)) for s in stops if s in text]
    return (text[: min(ends)[1]], text[min(ends)[1] :]) if ends else (text, "")
