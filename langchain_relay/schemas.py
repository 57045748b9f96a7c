"""Schemas, functions and response formats, from the forms that LangChain knows to those of the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.tools import BaseTool, create_schema_from_function
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel

from relay_integrations import ConfigError

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_OF_TEXTS = ("pattern", "format", "minLength", "maxLength")
_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_ARRAYS = ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems")
_OF_OBJECTS = ("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties")
_OF_ANYTHING = ("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "if")
_OF_SCHEMAS = {*_OF_TEXTS, *_OF_NUMBERS, *_OF_ARRAYS, *_OF_OBJECTS, *_OF_ANYTHING}
"""Keywords of which a JSON schema that says something has one."""

_OF_FUNCTIONS = {"name", "function", "parameters", "input_schema", "toolSpec"}
"""Keys by which a dict is a function, as one of the providers writes it, and no schema."""


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
    made = {"name": re.sub(r"[^\w-]+", "_", name), "schema": schema}
    return {"type": "json_schema", "json_schema": made if strict is None else {**made, "strict": strict}}


def _name_and_schema(asked: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(asked, Mapping) and not asked.keys() & _OF_FUNCTIONS:
        if not is_schema(asked):
            raise ConfigError(f"response_format={dict(asked)!r} is no JSON schema, nor a format with type json_object, json_schema or text")
        return str(asked.get("title") or "answer"), dict(asked)
    try:
        schema = _schema_of_class(asked)
        if schema is not None:
            return str(schema.get("title") or asked.__name__), schema
        function = read_function(asked)
        if not isinstance(function.get("parameters"), dict):
            raise ValueError("a function without parameters")
        return function["name"], function["parameters"]
    except Exception as e:
        raise ConfigError(
            f"response_format={asked!r} is no schema{reason(e)}: give a Pydantic class, a TypedDict, or a JSON schema; "
            'or {"type": "json_object"}'
        ) from e


def read_function(asked: Any, strict: bool | None = None) -> dict[str, Any]:
    """A function in OpenAI's format, from anything that LangChain takes for one.

    Raises:
        Exception: It takes this for none. Of any type: LangChain and Pydantic stumble in many ways over what they do not know.
    """
    plain = dict(asked) if isinstance(asked, Mapping) else asked
    if isinstance(plain, dict) and plain.get("type") == "function" and "function" not in plain:
        del plain["type"]  # as OpenAI's newer interface has it; LangChain knows the rest
    function = convert_to_openai_tool(plain, strict=strict).get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("it is no function with a name")
    own = _own_schema(plain)
    # LangChain writes a class into the place where it is referred to, and nothing where that has no end; and of a dict without properties
    # it takes nothing at all.
    if own is None or ("parameters" in function and not is_recursive(own)):
        return function
    parameters = {key: value for key, value in own.items() if key not in ("title", "description")}
    return {**function, "parameters": parameters} if parameters else function


def _own_schema(asked: Any) -> Mapping[str, Any] | None:
    """The schema that something has of itself, before LangChain makes it one of a function; None where it has none."""
    if isinstance(asked, BaseTool):
        asked = asked.tool_call_schema
    elif callable(asked) and not isinstance(asked, type):
        asked = create_schema_from_function(
            asked.__name__, asked, filter_args=(), parse_docstring=True, error_on_invalid_docstring=False, include_injected=False
        )
    if isinstance(asked, Mapping):
        return None if asked.keys() & _OF_FUNCTIONS else asked
    return _schema_of_class(asked)


def _schema_of_class(asked: Any) -> dict[str, Any] | None:
    """Of a Pydantic class, of either version."""
    if not isinstance(asked, type) or not is_basemodel_subclass(asked):
        return None
    made: dict[str, Any] = asked.model_json_schema() if issubclass(asked, BaseModel) else asked.schema()  # type: ignore[attr-defined]  # of version 1
    return made


def reason(error: Exception) -> str:
    """Why something is no function, to be put behind that it is none: the first line of an error."""
    said = str(error).partition("\n")[0] or type(error).__name__
    return "" if said == "Unsupported function" else f" ({said})"


def is_schema(asked: Any) -> bool:
    """Whether something is a JSON schema that says anything, and no function."""
    if not isinstance(asked, Mapping) or asked.keys() & _OF_FUNCTIONS or not asked.keys() & _OF_SCHEMAS:
        return False
    kind = asked.get("type", "object")
    return all(name in _TYPES for name in (kind if isinstance(kind, list) else [kind]))


def is_of_objects(schema: Any, whole: Mapping[str, Any] | None = None, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a schema describes objects and nothing else. One that does not say what it describes counts as one that does.

    Args:
        schema: The schema.
        whole: Where its references lead to, if that is not itself.
        seen: References on the way here.
    """
    whole = schema if whole is None else whole
    if not isinstance(schema, Mapping):
        return schema is True
    if "type" in schema:
        return schema["type"] in ("object", ["object"])
    if "const" in schema or isinstance(schema.get("enum"), list):
        return all(isinstance(value, Mapping) for value in ([schema["const"]] if "const" in schema else schema["enum"]))
    if isinstance(ref := schema.get("$ref"), str) and ref not in seen and not is_of_objects(_referred(ref, whole), whole, seen | {ref}):
        return False
    for key, combined in (("anyOf", all), ("oneOf", all), ("allOf", any)):
        if isinstance(schema.get(key), list) and not combined(is_of_objects(part, whole, seen) for part in schema[key]):
            return False
    return not schema.keys() & {*_OF_TEXTS, *_OF_NUMBERS, *_OF_ARRAYS}


def _referred(ref: str, whole: Any) -> Any:
    """What a reference leads to; anything where that is nowhere: whoever reads the schema will say so."""
    for part in ref.removeprefix("#").split("/")[1:]:
        whole = whole.get(part, True) if isinstance(whole, Mapping) else True
    return whole


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
