"""Whether JSON follows a schema, by a few lines that know the keywords of the tests and no grammar."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def follows(value: Any, schema: Any, root: Any = None) -> bool:
    """Whether a value is valid by a schema."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and not follows(value, _resolve(schema["$ref"], root), root):
        return False
    kinds = schema.get("type", [])
    if kinds and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "anyOf" in schema and not any(follows(value, inner, root) for inner in schema["anyOf"]):
        return False
    if "allOf" in schema and not all(follows(value, inner, root) for inner in schema["allOf"]):
        return False
    if isinstance(value, dict):
        return _object_follows(value, schema, root)
    if isinstance(value, list):
        fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return fits and all(follows(item, schema.get("items", True), root) for item in value)
    if isinstance(value, str):
        fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        return fits and re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _object_follows(value: dict[str, Any], schema: dict[str, Any], root: Any) -> bool:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    return all(name in value for name in schema.get("required", ())) and all(
        follows(item, properties.get(name, others), root) for name, item in value.items()
    )


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _resolve(reference: str, root: Any) -> Any:
    for part in reference.removeprefix("#").strip("/").split("/"):
        root = root[part] if part else root
    return root
