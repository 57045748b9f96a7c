"""Schemas and response formats, from the forms that LangChain knows to those of the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel

from relay_integrations import ConfigError

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_OF_SCHEMAS = ("type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "pattern")
"""Keywords of which a JSON schema that says something has one."""


def read_response_format(asked: Any, strict: bool | None = None) -> dict[str, Any] | None:
    """A response format as the engine takes it: OpenAI's `json_object` or `json_schema`; None where text is meant.

    Args:
        asked: A format of OpenAI's; or a schema: a Pydantic class, a TypedDict or a JSON schema of anything.
        strict: Goes into the format of a schema.

    Raises:
        ConfigError: It is neither.
    """
    if asked is None:
        return None
    if isinstance(asked, Mapping) and asked.get("type") in ("json_object", "json_schema", "text"):
        return None if asked["type"] == "text" else dict(asked)
    name, schema = _name_and_schema(asked)
    made = {"name": name, "schema": schema}
    return {"type": "json_schema", "json_schema": made if strict is None else {**made, "strict": strict}}


def _name_and_schema(asked: Any) -> tuple[str, dict[str, Any]]:
    schema = own_schema(asked)
    if schema is not None:
        return str(schema.get("title") or asked.__name__), schema
    if isinstance(asked, Mapping) and "function" not in asked and "parameters" not in asked:
        if not any(key in asked for key in _OF_SCHEMAS) or not _names_types(asked.get("type", "object")):
            raise ConfigError(f"response_format={dict(asked)!r} is no JSON schema, nor a format with type json_object, json_schema or text")
        return re.sub(r"\W+", "_", str(asked.get("title") or "answer")), dict(asked)
    try:
        function = convert_to_openai_tool(dict(asked) if isinstance(asked, Mapping) else asked)["function"]
    except (ValueError, TypeError) as e:
        raise ConfigError(f"response_format={asked!r} is no schema: give a Pydantic class, a TypedDict, or a JSON schema") from e
    return function["name"], function["parameters"]


def _names_types(kind: Any) -> bool:
    return all(name in _TYPES for name in (kind if isinstance(kind, list) else [kind]))


def own_schema(asked: Any) -> dict[str, Any] | None:
    """The schema that a Pydantic class, of either version, has of itself; None for anything else."""
    if not isinstance(asked, type) or not is_basemodel_subclass(asked):
        return None
    made: dict[str, Any] = asked.model_json_schema() if issubclass(asked, BaseModel) else asked.schema()  # type: ignore[attr-defined]  # of version 1
    return made


def is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether a schema refers to itself, at once or by way of others."""
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    refers = {name: set(_references(definition)) for name, definition in definitions.items()}
    for _ in refers:
        refers = {name: names.union(*(refers.get(other, set()) for other in names)) for name, names in refers.items()}
    return any(name in names for name, names in refers.items()) or "#" in set(_references(schema))


def _references(schema: Any) -> Iterator[str]:
    """The last parts of all references in a schema."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
