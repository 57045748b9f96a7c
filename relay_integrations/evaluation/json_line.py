"""A line of JSON that a person wrote, or a program that took no care: read strictly, with errors that say what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Self

from relay_integrations.errors import ConfigError

_MAX_NESTED = 100
"""Far more than any tool needs; templates and JSON's own writer fail somewhere above it."""

_SHOWN = 60


def read_object(line: str, keys: Sequence[str]) -> dict[str, Any]:
    """Reads an object. A number with a point or a power keeps its spelling, as `str` gives it.

    Args:
        line: The text.
        keys: What will be used of it, and so is checked to the bottom. Others may hold anything.

    Raises:
        ConfigError: Says what is wrong.
    """
    try:
        data = json.loads(line, parse_float=_Written, object_pairs_hook=_object)
    except json.JSONDecodeError as e:
        raise ConfigError(f"not JSON (each line must hold one object, and all of it): {e.msg} at character {e.pos + 1}") from e
    except ConfigError:
        raise
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"not JSON that can be read: {e}") from e
    if not isinstance(data, dict):
        raise ConfigError(f"a JSON object is needed, not {kind(data)}")
    for key in keys:
        _check(data.get(key), key)
    return data


def kind(value: Any) -> str:
    """What a value is, in JSON's words."""
    for types, name in ((dict, "an object"), (list, "a list"), (str, "text"), (bool, "true or false"), (int | float, "a number")):
        if isinstance(value, types):
            return name
    return "null"


def short(text: str) -> str:
    """A text in quotes, shortened."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


class _Written(float):
    """A number that is spelled as it stands in the file: 1.50, 1e22."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ConfigError(f"the key {short(key)} stands twice in one object: keep one")
        data[key] = value
    return data


def _check(value: Any, key: str, depth: int = 0) -> None:
    """Refuses what passes for JSON here, but would break down later: when it is sent, kept or shown."""
    if depth > _MAX_NESTED:
        raise ConfigError(f'"{key}" is nested more than {_MAX_NESTED} deep')
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as e:
            raise ConfigError(f'"{key}" holds a lone surrogate, which is no character, in {json.dumps(value)[:_SHOWN]}') from e
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f'"{key}" holds {float(value)}, which is no number')
    elif isinstance(value, dict):
        for pair in value.items():
            _check(list(pair), key, depth)
    elif isinstance(value, list):
        for part in value:
            _check(part, key, depth + 1)
