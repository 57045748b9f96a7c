"""Named sets of problems. All but the tiny pair's own come from the Hugging Face hub, by the package `datasets`."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from relay_integrations.chat.messages import Message
from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.data import Item

Row = Mapping[str, Any]
MakeItem = Callable[[Row, str, int], Item]
"""From a row, the id of its item and the seed."""

BOXED = r"Please reason step by step, and put your final answer within \boxed{}."
BOXED_LETTER = r"Please reason step by step, and put the letter of the right option within \boxed{}."

LETTERS = "ABCD"
TINY_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class HubSet:
    """Where a set is on the hub, and how its rows become items.

    Attributes:
        repo: Id on the hub.
        config, split: Part of it.
        id_column: Names the items; None: their numbers do.
        make: Makes an item.
        gated: Whether its terms have to be accepted on the hub first.
    """

    repo: str
    config: str | None
    split: str
    id_column: str | None
    make: MakeItem
    gated: bool = False


def _problem(row: Row, id: str, seed: int) -> Item:
    """A problem with a number or formula as its answer."""
    messages = (Message(role="user", content=f"{row['problem'].strip()}\n\n{BOXED}"),)
    family = row.get("subject")
    return Item(id, messages, str(row["answer"]), grader="math", family=None if family is None else str(family))


def _choice(row: Row, id: str, seed: int) -> Item:
    """A question with four options, shuffled: by the seed and its own id, so that neither order nor number of items matter."""
    right = row["Correct Answer"].strip()
    options = [right, *(row[f"Incorrect Answer {number}"].strip() for number in (1, 2, 3))]
    order = list(range(len(options)))
    Random(f"{seed}/{id}").shuffle(order)
    listed = "\n".join(f"{letter}) {options[number]}" for letter, number in zip(LETTERS, order, strict=True))
    messages = (Message(role="user", content=f"{row['Question'].strip()}\n\n{listed}\n\n{BOXED_LETTER}"),)
    return Item(id, messages, LETTERS[order.index(0)], grader="math", family=row.get("High-level domain"))


HUB_SETS = {
    "aime24": HubSet("HuggingFaceH4/aime_2024", None, "train", "id", _problem),
    "aime25": HubSet("math-ai/aime25", None, "test", "id", _problem),
    "math-500": HubSet("HuggingFaceH4/MATH-500", None, "test", "unique_id", _problem),
    "gpqa-diamond": HubSet("Idavidrein/gpqa", "gpqa_diamond", "train", "Record ID", _choice, gated=True),
}

NAMED = (*HUB_SETS, "tiny")
"""What `load_named` knows."""

Loader = Callable[[HubSet], Iterable[Row]]


def hub_rows(source: HubSet) -> Iterable[Row]:
    """The rows of a set, downloaded once and kept by `datasets`.

    Raises:
        ConfigError: The package is missing, or the set cannot be had; says what to do.
    """
    if importlib.util.find_spec("datasets") is None:
        raise ConfigError(f"{source.repo!r} is read with the package datasets: pip install 'relay-integrations[evaluate]'")
    datasets: Any = importlib.import_module("datasets")
    try:
        rows: Iterable[Row] = datasets.load_dataset(source.repo, source.config, split=source.split)
    except Exception as e:  # the hub, the network and the files all fail in ways of their own
        raise ConfigError(f"the set {source.repo!r} cannot be had from the hub: {_way_out(source)} ({type(e).__name__}: {e})") from e
    return rows


def load_named(name: str, seed: int = 0, loader: Loader = hub_rows) -> list[Item]:
    """All items of a named set.

    Args:
        name: One of `NAMED`.
        seed: Shuffles options; draws the problems of "tiny".
        loader: Gets the rows of a set.

    Raises:
        ConfigError: The set is unknown, cannot be had, or has changed.
    """
    if name == "tiny":
        return _tiny(seed)
    if name not in HUB_SETS:
        raise ConfigError(f"there is no set {name!r}; there are: {', '.join(NAMED)}")
    source = HUB_SETS[name]
    items = []
    for number, row in enumerate(loader(source)):
        try:
            id = f"{name}/{number if source.id_column is None else row[source.id_column]}"
            items.append(source.make(row, id, seed))
        except (KeyError, AttributeError) as e:
            raise ConfigError(
                f"row {number} of {source.repo!r} is not as this release expects ({type(e).__name__}: {e}); its columns: {', '.join(row)}"
            ) from e
    return items


def _tiny(seed: int) -> list[Item]:
    """Problems of the kind that the tiny pair was trained to solve, and that nothing was trained on; they need no download."""
    from relay_integrations.tiny.tasks import problems

    drawn = problems(TINY_PROBLEMS, seed)
    return [Item(f"tiny/{n}", tuple(p.messages), p.answer, "exact", f"{p.family}, {p.steps} steps") for n, p in enumerate(drawn)]


def _way_out(source: HubSet) -> str:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set and the set is not stored here; unset it for the first time"
    if source.gated:
        return f"accept its terms at https://huggingface.co/datasets/{source.repo} and log in with `hf auth login`"
    return "check the network"
