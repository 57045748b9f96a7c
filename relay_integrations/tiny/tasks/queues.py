"""Problems about the order of people in a queue, in German, with their reasoning traces: the second family.

Nothing is computed here; each step makes a new list out of the last one, which is hard to write, and says something about it that can
be read off, which is easy. Nothing in this project was chosen by looking at this family: it shows whether what was found on the first one
is a property of that one template.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from relay_integrations.tiny.tasks.problem import Problem

FAMILY = "queues"

NAMES = tuple("Anna Bernd Clara David Emil Frieda Gerd Hanna Ingo Jana Karl Lotte Moritz Nora Otto Paula".split())

_ORDINALS = ("erster", "zweiter", "dritter", "vierter", "fünfter", "sechster", "siebter")
_OPENERS = ("Zuerst", "Dann", "Danach", "Nun", "Dann", "Danach")
_LONGEST, _SHORTEST = 6, 3


@dataclass(frozen=True, slots=True)
class Step:
    """One move in the queue: its sentence, what the trace calls it, and the order after it."""

    sentence: str
    action: str
    after: tuple[str, ...]


def draw(rng: Random, steps: int) -> tuple[Problem, object]:
    """Draws one problem, with its skeleton."""
    names = rng.sample(NAMES, len(NAMES))
    start = tuple(names[: rng.randint(_SHORTEST, 5)])
    chain: list[Step] = []
    queue = start
    for _ in range(steps):
        chain.append(_draw_step(rng, queue, [name for name in names if name not in queue]))
        queue = chain[-1].after
    place = rng.randrange(len(queue))
    answer = queue[place]
    ask = f"Wer steht an {_ORDINALS[place]} Stelle?"
    question = " ".join([f"In der Schlange stehen {_spell(start)}.", *(step.sentence for step in chain), ask])
    return Problem(FAMILY, question, answer, _trace(rng, start, chain, place), steps), (FAMILY, start, *(s.after for s in chain), place)


def draw_moves(rng: Random) -> list[tuple[str, bool]]:
    """Draws a list and four moves in it, for practice: pieces of text, each with whether it is to be learned (the new orders are)."""
    names = rng.sample(NAMES, len(NAMES))
    queue = tuple(names[: rng.randint(_SHORTEST, _LONGEST)])
    pieces = [(f"Reihe: {_spell(queue)}.", False)]
    for _ in range(4):
        step = _draw_step(rng, queue, [name for name in names if name not in queue])
        queue = step.after
        pieces += [(f" {step.action}. Reihe:", False), (f" {_spell(queue)}.", True)]
    return pieces


def _draw_step(rng: Random, queue: tuple[str, ...], others: list[str]) -> Step:
    """A move that leaves between three and six people in the queue."""
    moves = ["back", "front", "swap"]
    if len(queue) < _LONGEST:
        moves += ["join", "join_before"]
    if len(queue) > _SHORTEST:
        moves += ["leave"]
    x, y = rng.sample(queue, 2)
    z = others[0]
    rest = tuple(name for name in queue if name != x)
    match rng.choice(moves):
        case "back":
            return Step(f"{x} geht ans Ende.", f"{x} geht ans Ende", (*rest, x))
        case "front":
            return Step(f"{x} darf nach vorne.", f"{x} geht nach vorne", (x, *rest))
        case "swap":
            swapped = {x: y, y: x}
            return Step(f"{x} und {y} tauschen.", f"{x} tauscht mit {y}", tuple(swapped.get(name, name) for name in queue))
        case "join":
            return Step(f"{z} stellt sich hinten an.", f"{z} kommt hinten dazu", (*queue, z))
        case "join_before":
            at = queue.index(y)
            return Step(f"{z} stellt sich vor {y}.", f"{z} kommt vor {y} dazu", (*queue[:at], z, *queue[at:]))
        case _:
            return Step(f"{x} geht nach Hause.", f"{x} geht weg", rest)


def _trace(rng: Random, start: tuple[str, ...], chain: list[Step], place: int) -> str:
    queue = chain[-1].after
    paragraphs = [f"Gut, am Anfang ist die Reihe {_spell(start)}."]
    paragraphs += [_paragraph(rng, step, i) for i, step in enumerate(chain)]
    count = ", ".join(f"{i + 1} {name}" for i, name in enumerate(queue))
    paragraphs.append(f"Alle Schritte sind getan. Folglich {rng.choice(('zählen wir', 'zählt man'))}: {count}.")
    paragraphs.append(f"Daher ist die Antwort {queue[place]}.")
    reasoning = "\n\n".join(paragraphs)
    answer = f"An {_ORDINALS[place]} Stelle steht {queue[place]}.\n\n**Antwort:** \\boxed{{{queue[place]}}}"
    return f"<think>\n{reasoning}\n</think>\n\n{answer}"


def _paragraph(rng: Random, step: Step, index: int) -> str:
    """The new order, which is hard; what can be read off it, which is easy; perhaps the order once more."""
    order = _spell(step.after)
    opener = _OPENERS[index] if rng.random() < 0.8 else rng.choice(_OPENERS)
    hard = rng.choice((f"{opener}: {step.action}. Reihe: {order}.", f"{opener}: {step.action}, also {order}."))
    first, last = step.after[0], step.after[-1]
    easy = (f"Somit steht {first} ganz vorne.", f"Das heißt, am Ende steht {last}.", f"Also ist {first} zuerst an der Reihe.")
    sentences = [hard, rng.choice(easy)]
    if rng.random() < 0.4:
        backwards = _spell(step.after[::-1])
        sentences.append(rng.choice((f"Moment, von hinten gelesen: {backwards}.", f"Hmm, rückwärts ist das {backwards}.")))
        sentences.append(f"Okay, die Reihe bleibt {order}.")
    return " ".join(sentences)


def _spell(names: tuple[str, ...]) -> str:
    return ", ".join(names)
