"""JSON schemas as data: a walk over all schemas within one, and objects that are closed unless they say otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value maps names to schemas."""

_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE = (
    "items",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
)

_COMPOSING = ("allOf", "anyOf", "oneOf", "not", "if", "$ref", "dependentSchemas", "unevaluatedProperties")
"""Beside `properties`, these may speak of further ones."""


def change_all(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of a schema with all schemas within it, and then itself, changed; values that are no schemas stay as they are."""
    if not isinstance(schema, Mapping):
        return schema
    changed = dict(schema)
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            changed[key] = {name: change_all(inner, change) for name, inner in value.items()}
        elif key in _LISTS and isinstance(value, list):
            changed[key] = [change_all(inner, change) for inner in value]
        elif key in _SINGLE:
            changed[key] = change_all(value, change)
    return change(changed)


def closed(schema: Any) -> Any:
    """The schema with every object that lists its properties closed to others, unless it says what else it may hold.

    What is valid by it is valid by the schema. Where schemas are put together so that one may speak of another's properties,
    nothing is closed: it could leave nothing that is valid.
    """
    if any("allOf" in inner or ("properties" in inner and any(key in inner for key in _COMPOSING)) for inner in _all(schema)):
        return schema
    return change_all(schema, _close)


def _close(schema: dict[str, Any]) -> dict[str, Any]:
    open_to = ("additionalProperties", "patternProperties")
    return {**schema, "additionalProperties": False} if "properties" in schema and not any(key in schema for key in open_to) else schema


def _all(schema: Any) -> list[dict[str, Any]]:
    """All schemas within one, and itself."""
    found: list[dict[str, Any]] = []

    def note(inner: dict[str, Any]) -> dict[str, Any]:
        found.append(inner)
        return inner

    change_all(schema, note)
    return found
