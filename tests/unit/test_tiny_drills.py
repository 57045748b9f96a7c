"""The short exercises that the tiny models are trained on beside problems: what is to be learned in them is right."""

from __future__ import annotations

from random import Random

import pytest

from relay_integrations.tiny.formats import context
from relay_integrations.tiny.tasks import queues
from relay_integrations.tiny.training.drills import draw_drill

SEEDS = pytest.mark.parametrize("seed", range(40))


def test_every_kind_of_drill_is_drawn_and_has_something_to_learn() -> None:
    drawn = [draw_drill(Random(seed)) for seed in range(100)]
    assert all(any(learned for _, learned in pieces) and not pieces[0][1] for pieces in drawn)
    texts = ["".join(text for text, _ in pieces) for pieces in drawn]
    for mark in ("=", "The context says:", "Reihe:"):
        assert any(mark in text for text in texts), mark


@SEEDS
def test_the_results_of_sums_are_right(seed: int) -> None:
    pieces = draw_drill(Random(seed))
    if "=" not in pieces[0][0]:
        return
    questions, results = pieces[::2], pieces[1::2]
    assert all(eval(question.strip(" =")) == int(result) for (question, _), (result, _) in zip(questions, results, strict=True))


@SEEDS
def test_what_is_looked_up_stands_in_the_context_or_nothing_does(seed: int) -> None:
    (shown, _), *rest = context.draw_lookups(Random(seed))
    absent = 0
    for (question, _), (answer, learned) in zip(rest[::2], rest[1::2], strict=True):
        assert learned
        items, name = question.partition("about the ")[2].partition(".")[0].split(" of ")
        if answer == " Nothing about that.":
            absent += 1
            assert not any(name in line and items in line and any(c.isdigit() for c in line) for line in shown.split("."))
        else:
            assert answer.strip() in shown
            assert name in answer
            assert items in answer
    assert absent == 1


@SEEDS
def test_the_new_orders_of_moves_follow_from_the_last_ones(seed: int) -> None:
    (start, _), *rest = queues.draw_moves(Random(seed))
    before = names(start)
    for (move, _), (after, learned) in zip(rest[::2], rest[1::2], strict=True):
        assert learned
        assert after != f" {', '.join(before)}." or "geht" in move  # who stands there already may go to the end
        changed = set(before) ^ set(names(after))
        assert changed <= set(move.replace(".", " ").replace(",", " ").split())
        before = names(after)
    assert 3 <= len(before) <= 6


def names(order: str) -> list[str]:
    return order.strip(" .").removeprefix("Reihe: ").split(", ")
