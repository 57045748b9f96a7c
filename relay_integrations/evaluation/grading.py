"""The graders of a set of items, each made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.data import Item
from relay_integrations.evaluation.graders import Grade, Grader, make_grader


class ItemGraders:
    """Judges answers to items, each with the item's own grader, or the one for all. A context manager.

    Args:
        items: What will be judged; every reference is checked at once, so that nothing is generated in vain.
        default: For items that name none, as `make_grader` takes it.

    Raises:
        ConfigError: An item has no grader, its grader cannot work, or its reference is none for it; names the item.
    """

    def __init__(self, items: Sequence[Item], default: str | None = None) -> None:
        self._default = default
        self._graders: dict[str, Grader] = {}
        for item in items:
            try:
                self.of(item).check(item.reference)
            except ConfigError as e:
                raise ConfigError(f"item {item.id!r}: {e}") from e

    def of(self, item: Item) -> Grader:
        """The grader of an item."""
        spec = item.grader or self._default
        if spec is None:
            raise ConfigError("it names no grader, and there is none for all: choose one, e.g. --grader math (or exact, regex, command:…)")
        if spec not in self._graders:
            self._graders[spec] = make_grader(spec)
        return self._graders[spec]

    def grade(self, item: Item, answer: str) -> Grade:
        """Judges an answer to an item."""
        return self.of(item).grade(answer, item.reference, item.question)

    def close(self) -> None:
        """Ends what the graders have started."""
        for grader in self._graders.values():
            grader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
