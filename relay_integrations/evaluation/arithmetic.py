"""Finds the equations in a text that are plain arithmetic, such as `48+6*7=90`, and says which are wrong.

Only numbers, the four operations and brackets count. Where a letter, a power, a unit or a formula stands next to it, an equation may
mean something else and is left alone: better to miss a wrong one than to call a right one wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

_NUMBER = r"\d{1,3}(?:,\d{3}){1,9}(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?|\.\d+"
_BOLD = r"(?<![^\s=(])\*\*(?=[\d(-])|(?<=[\d)])\*\*(?![^\s=.,;:!?)])"  # in Markdown; no operator
_TOKEN = re.compile(  # the longer dash is a minus, but for 3–5, which is a range
    rf"(?P<number>{_NUMBER})|(?P<space>[^\S\n]+|{_BOLD})|(?P<equals>(?<![<>!:=])=(?![=>]))|(?P<plus>\+)|(?P<minus>[-−]|(?<!\d)–)"
    r"|(?P<times>(?<!\*)\*(?!\*)|[×·⋅∙]|\\times\b|\\cdot\b|(?<=\s)x(?=\s))|(?P<divide>(?<!/)/(?!/)|÷|\\div\b)|(?P<open>\()|(?P<close>\))"
)

# With this in front of it, an equation has more on its left, or its first number is only a number in a list.
_MORE_BEFORE = re.compile(
    r"(?:[\w)\]}^_|!°%'’√∛∜±∓⌋⌉]|\d[,:]|[-+*/×·÷^=<>≤≥≠≈∼~]\s*\$?\s*|\\[A-Za-z]+\s*|(?<![^\W\d_])[^\W\d_]\s+"
    r"|(?i:\b(?:step|part|case|problem|question|exercise|example|equation|line|page|chapter|section|version|from|between)s?)\s+"
    r"|(?i:\b(?:of|by|over|than|twice|thrice|half|double|triple|squared?|cubed?|root|times|plus|minus|less|percent))\s+)\Z"
)
# With this behind it, it has more on its right: another term, a remainder, the rest of a mixed number, a modulus, a base, a doubt.
_MORE_BEHIND = re.compile(
    r"[\w^_\\{!%°'’/²³]|[,:]\d|\.\\(?:overline|dot|bar)"
    r"|\s*(?:\.\.|…|\\l?dots|\?|[\u00bc-\u00be\u2150-\u215e]|\\[dt]?frac|\\sqrt|\\pi\b|o['’]clock|[ap]\.?m\b)"
    r"|\s+and\s+(?:(?:a|one)\s+(?:half|third|quarter|fifth)|\d+/\d)"
    r"|[,;]?\s*\(?(?:with|rem(?:ainder|aining)?|rest|[rR])\b"
    r"|\s*\\?\s*\(?\s*(?:\\text\s*\{\s*)?\\?[bp]?mod(?:ulo)?\b"
    r"|\s*\(?(?:in\s+)?(?:binary|base|hex\w*|octal)\b"
)
_WORD_BEHIND = re.compile(r"\s*(?:[^\W\d_]|%)")
_LINE_START = re.compile(r"(?:\A|\n)\s*\Z")
_LOOK = 40

_MAX_DIGITS = 30
_MAX_TOKENS = 100
_MAX_NESTED = 20

_FACTORS = frozenset(map(Fraction, (7, 12, 24, 60, 100, 365, 1000, 3600, 10**6, 10**9)))
"""Of one unit in another."""

_EXACT = Fraction(1, 10**9)
"""Nearer than that, decimals are as good as equal: 0.1+0.2=0.30000000000000004."""

_PADDED = re.compile(r"0\d")
_GROUPED = re.compile(r"[1-9]\d{0,2}\.\d{3}")


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Equation:
    """One equation of plain arithmetic: two neighbours in what may be a chain, `48+6*7=48+42=90`.

    Attributes:
        text: As it stands.
        start: Where it begins.
        result_start: Where its right side begins.
        value: What its left side amounts to.
        right: Whether its right side amounts to the same; decimals may be rounded.

    What may be right in a way that cannot be told is none: 30+30 = 1 hour, 5+3=8+2=10, 1.000+500 = 1.500.
    """

    text: str
    start: int
    result_start: int
    value: Fraction
    right: bool


def equations(text: str) -> Iterator[Equation]:
    """The equations of plain arithmetic in a text, in order."""
    for run in _runs(text):
        for left, right in pairwise(_sides(text, run)):
            equation = _equation(text, left, right)
            if equation is not None:
                yield equation


def first_wrong(text: str) -> Equation | None:
    """The first equation that is wrong."""
    return next((equation for equation in equations(text) if not equation.right), None)


def spell(value: Fraction) -> str:
    """A value as people write it."""
    try:
        return str(value) if value.denominator == 1 else f"{float(value):.6g}"
    except (OverflowError, ValueError):  # more digits than anybody reads
        return "a number of very many digits"


def _runs(text: str) -> Iterator[list[_Token]]:
    """Tokens without a gap between them, with an equals sign among them."""
    run: list[_Token] = []
    for match in _TOKEN.finditer(text):
        if run and run[-1].end != match.start():
            yield from _with_equals(run)
            run = []
        run.append(_Token(str(match.lastgroup), match[0], match.start(), match.end()))
    yield from _with_equals(run)


def _with_equals(run: list[_Token]) -> Iterator[list[_Token]]:
    if any(token.kind == "equals" for token in run):
        yield run


def _sides(text: str, run: Sequence[_Token]) -> list[list[_Token]]:
    """What stands between the equals signs; an outer side is emptied where there may be more of it outside."""
    sides: list[list[_Token]] = [[]]
    for token in run:
        if token.kind == "equals":
            sides.append([])
        else:
            sides[-1].append(token)
    sides[0] = _first_side(text, sides[0])
    sides[1:] = [[token for token in side if token.kind != "space"] for side in sides[1:]]
    if sides[-1] and _MORE_BEHIND.match(text, sides[-1][-1].end, sides[-1][-1].end + _LOOK):
        sides[-1] = []
    return sides


def _first_side(text: str, side: list[_Token]) -> list[_Token]:
    tokens = [token for token in side if token.kind != "space"]
    if tokens and tokens[0].kind in ("plus", "minus", "times"):
        sign, spaced = tokens[0], text[tokens[0].end : tokens[0].end + 1].isspace()
        if spaced and _LINE_START.search(text, max(0, sign.start - _LOOK), sign.start):
            return tokens[1:]  # it only marks an entry of a list
        if spaced:
            return []
    if tokens:
        start = side[0].start if side[0].text == "**" else tokens[0].start
        if _MORE_BEFORE.search(text, max(0, start - _LOOK), start):
            return []
    return tokens


def _equation(text: str, left: list[_Token], right: list[_Token]) -> Equation | None:
    """The equation of two sides; None where it is not plain arithmetic, means something else, or leaves nothing to work out."""
    left, right = _unwrapped(left, right)
    if not 3 <= len(left) <= _MAX_TOKENS or not 1 <= len(right) <= _MAX_TOKENS:
        return None
    value, result = _Reader(left).value(), _Reader(right).value()
    if value is None or result is None:
        return None
    start, result_start, end = left[0].start, right[0].start, right[-1].end
    correct = result == value or _rounded(value, result, left, right)
    if not correct and (_runs_on(value, right) or _other_unit(text, value, result, end) or _other_points(left, right)):
        return None
    return Equation(text[start:end], start, result_start, value, correct)


def _runs_on(value: Fraction, right: Sequence[_Token]) -> bool:
    """Whether a running total is written as one chain: 5+3=8+2=10."""
    first = 2 if right[0].kind == "minus" else 1
    return len(right) > first and _Reader(right[:first]).value() == value


def _other_unit(text: str, value: Fraction, result: Fraction, end: int) -> bool:
    """Whether the right side may be in another unit: 30+30 = 1 hour, 3/4 = 75 percent."""
    if not value or not result or not _WORD_BEHIND.match(text, end, end + _LOOK):
        return False
    return value / result in _FACTORS or result / value in _FACTORS


def _other_points(left: Sequence[_Token], right: Sequence[_Token]) -> bool:
    """Whether it is right where points group the digits: 1.000 + 500 = 1.500."""
    value, result = (_Reader([_without_points(token) for token in side]).value() for side in (left, right))
    return value is not None and value == result


def _without_points(token: _Token) -> _Token:
    return token._replace(text=token.text.replace(".", "")) if _GROUPED.fullmatch(token.text) else token


def _unwrapped(left: list[_Token], right: list[_Token]) -> tuple[list[_Token], list[_Token]]:
    """Without the brackets around the whole equation."""
    opened = _until(left, "open")
    closed = _until(right[::-1], "close")
    return left[min(opened, max(0, _balance(left))) :], right[: len(right) - min(closed, max(0, -_balance(right)))]


def _until(side: Sequence[_Token], kind: str) -> int:
    """How many tokens of a kind it begins with."""
    return next((number for number, token in enumerate(side) if token.kind != kind), len(side))


def _balance(side: Sequence[_Token]) -> int:
    return sum((token.kind == "open") - (token.kind == "close") for token in side)


def _rounded(value: Fraction, result: Fraction, left: Sequence[_Token], right: Sequence[_Token]) -> bool:
    """Whether a quotient, or what came of decimals, is given with fewer decimals than it has."""
    decimals = len(right[-1].text.partition(".")[2])
    inexact = any(token.kind == "divide" or "." in token.text for token in left)
    plain = all(token.kind in ("number", "minus") for token in right)
    return decimals > 0 and inexact and plain and abs(value - result) < max(Fraction(1, 10**decimals), abs(value) * _EXACT)


class _Reader:
    """Works out one side, by precedence."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nested = 0

    def value(self) -> Fraction | None:
        """What it amounts to; None where it is not plain arithmetic."""
        try:
            value = self._sum()
        except (ValueError, ZeroDivisionError, IndexError):
            return None
        return value if self._at == len(self._tokens) else None

    def _sum(self) -> Fraction:
        value = self._product()
        while (kind := self._next()) in ("plus", "minus"):
            self._at += 1
            term = self._product()
            value = value + term if kind == "plus" else value - term
        return value

    def _product(self) -> Fraction:
        value = self._factor()
        while (kind := self._next()) in ("times", "divide"):
            self._at += 1
            factor = self._factor()
            value = value * factor if kind == "times" else value / factor
        return value

    def _factor(self) -> Fraction:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "number" and len(token.text) <= _MAX_DIGITS:
            if _PADDED.match(token.text):
                raise ValueError("a number that begins with 0 is part of a date, or of a time")
            return Fraction(token.text.replace(",", ""))
        self._nested += 1
        if self._nested > _MAX_NESTED:
            raise ValueError("too many signs and brackets")
        if token.kind == "minus":
            return -self._factor()
        if token.kind != "open":
            raise ValueError(f"{token.text!r} begins no term")
        value = self._sum()
        if self._next() != "close":
            raise ValueError("the bracket is not closed")
        self._at += 1
        return value

    def _next(self) -> str | None:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else None
