"""The items that models are asked and judged by: from a file of yours, or a named set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from relay_integrations.chat.messages import Message, read_messages, read_tools
from relay_integrations.errors import ConfigError, RelayError
from relay_integrations.evaluation.graders import make_grader
from relay_integrations.evaluation.json_line import kind, read_object, short

QUESTION_KEYS = ("question", "prompt", "messages")
REFERENCE_KEYS = ("answer", "reference")

_KEYS = (*QUESTION_KEYS, *REFERENCE_KEYS, "id", "grader", "family", "tools")
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to ask.

    Attributes:
        id: Unique in its set.
        messages: What the model is asked.
        reference: The right answer, or what the grader takes for it.
        grader: As `make_grader` takes it; None leaves the choice to the caller.
        family: What kind of question it is.
        tools: Tools that the model may call, in OpenAI's format.
    """

    id: str
    messages: tuple[Message, ...]
    reference: str
    grader: str | None = None
    family: str | None = None
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def question(self) -> str:
        """The last user message."""
        return next((m.content for m in reversed(self.messages) if m.role == "user"), "")


def find_data(spec: str | Path, seed: int = 0, n: int | None = None) -> list[Item]:
    """The items of a file or of a named set.

    Args:
        spec: Path of a file as `load_jsonl` takes it, or one of `named_data.NAMED`.
        seed: Draws the items where `n` is fewer than there are, and what a set leaves to chance.
        n: How many; None for all. With the same seed a larger `n` draws the same items and more.

    Raises:
        ConfigError: There is no such file or set, or it cannot be used.
    """
    from relay_integrations.evaluation.named_data import NAMED, load_named

    # As `os.path` sees it: a name that is too long, or a folder that may not be entered, is no file, and no error of ours.
    if os.path.exists(spec) and not os.path.isdir(spec):  # a pipe will do: `--data <(…)`
        items = load_jsonl(spec)
    elif str(spec) in NAMED:
        items = load_named(str(spec), seed)
    elif os.path.isdir(spec):
        raise ConfigError(f"{str(spec)!r} is a folder: name a file in it, with one JSON object a line")
    else:
        raise ConfigError(f"there is no file {str(spec)!r}, and no set of that name; the sets are: {', '.join(NAMED)}")
    return draw(items, seed, n)


def draw(items: Sequence[Item], seed: int, n: int | None) -> list[Item]:
    """`n` of the items, in their order; with the same seed a larger `n` draws the same items and more."""
    if n is None or n >= len(items):
        return list(items)
    numbers = list(range(len(items)))
    Random(f"{seed}/order").shuffle(numbers)
    return [items[number] for number in sorted(numbers[:n])]


def load_jsonl(path: str | Path) -> list[Item]:
    """Reads a file with one JSON object a line.

    Each has a question (`question` or `prompt`: text; or `messages`: a conversation, OpenAI-style) and what the answer is held against
    (`answer` or `reference`: text or a number). It may have `id`, `grader` (but no command: a file of data must not run programs),
    `family` and `tools`. Other keys are ignored.

    Raises:
        ConfigError: Names the file and the line, and says what is wrong or missing.
    """
    path = Path(path)
    items: dict[str, Item] = {}
    for number, line in _lines(path):
        where = f"{str(path)!r}, line {number}"
        try:
            item = _read_item(line, str(number))
        except RelayError as e:
            raise ConfigError(f"{where}: {e}") from e
        if item.id in items:
            raise ConfigError(f"{where}: the id {short(item.id)} stands on a line before it; each item needs its own (or none has any)")
        items[item.id] = item
    if not items:
        raise ConfigError(f"{str(path)!r} holds no items: one JSON object a line is needed, with a question and an answer")
    return list(items.values())


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except OSError as e:
        raise ConfigError(f"{str(path)!r} cannot be read: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{str(path)!r} is not UTF-8 text, somewhere after line {number}: {e.reason}") from e


def _read_item(line: str, number: str) -> Item:
    data = read_object(line, _KEYS)
    key, question = _one_of(data, QUESTION_KEYS, "question")
    if key == "question" and not isinstance(question, str):
        raise ConfigError(f'"question" must be text, not {kind(question)}; a conversation goes under "messages"')
    return Item(
        id=_text(data, "id") or number,
        messages=tuple(read_messages(question)),
        reference=_reference(*_one_of(data, REFERENCE_KEYS, "answer")),
        grader=_grader(_text(data, "grader")),
        family=_text(data, "family"),
        tools=tuple(read_tools(_tools(data))),
    )


def _one_of(data: Mapping[str, Any], keys: Sequence[str], what: str) -> tuple[str, Any]:
    given = [key for key in keys if data.get(key) is not None]
    if len(given) != 1:
        names = " or ".join(f'"{key}"' for key in keys)
        found = ", ".join(f'"{key}"' for key in given or data)
        there = found if len(found) <= _SHOWN else f"{found[: _SHOWN - 1]}…"
        raise ConfigError(f"{'more than one' if given else 'no'} {what}: give one of {names} (there is: {there or 'nothing'})")
    return given[0], data[given[0]]


def _reference(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f'"{key}" must be text or a number, not {kind(value)}')
    return str(value)


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigError(f'"{key}" must be text, not {kind(value)}')
    return str(value)


def _grader(spec: str | None) -> str | None:
    if spec is None:
        return None
    if spec.startswith("command"):
        raise ConfigError("a file of data cannot name a command to run: give it yourself, as the grader of all items")
    if spec != "math":  # it may lack its package, which is no fault of the file
        make_grader(spec)
    return spec


def _tools(data: Mapping[str, Any]) -> list[Any]:
    tools = data.get("tools")
    if not isinstance(tools, list | None):
        raise ConfigError(f'"tools" must be a list, not {kind(tools)}')
    return tools or []
