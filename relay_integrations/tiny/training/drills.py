"""Short exercises beside the problems: bare arithmetic, facts to look up, lists to put in another order.

Nearly every token of a problem is easy to write. What is hard in it stands in a few places, and a drill has nothing but those.
No drill is a problem that is measured with: those have more steps, or fewer questions to one context.
"""

from __future__ import annotations

from random import Random

from relay_integrations.tiny.formats import context
from relay_integrations.tiny.tasks import amounts, queues

Piece = tuple[str, bool]
"""A part of a text, and whether it is to be learned."""

_SHARES = {"sums": 75, "lookups": 13, "moves": 12}
"""Share of the drills by kind, in percent."""

_SUMS: dict[amounts.Operation, int] = {"add": 2, "subtract": 2, "multiply": 1, "add_product": 2, "add_subtract": 5}  # the hardest most


def draw_drill(rng: Random) -> list[Piece]:
    """Draws a drill of a kind drawn by `_SHARES`."""
    kind = rng.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
    return {"sums": _sums, "lookups": context.draw_lookups, "moves": queues.draw_moves}[kind](rng)


def _sums(rng: Random) -> list[Piece]:
    """Five equations, of which the results are learned."""
    pieces: list[Piece] = []
    for operation in rng.choices(tuple(_SUMS), tuple(_SUMS.values()), k=5):
        question, result = _equation(rng, operation).split("=")
        pieces += [(f"{' ' if pieces else ''}{question}=", False), (result, True)]
    return pieces


def _equation(rng: Random, operation: amounts.Operation) -> str:
    while True:
        step = amounts.draw_story(rng, 1).steps[0]
        if step.operation == operation:
            return step.equation
