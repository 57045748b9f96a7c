"""JSON that the answer has to be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KINDS = ("text", "json_object", "json_schema")


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The schema that the answer follows.

    Attributes:
        schema: JSON text of the schema.
        name: What it is called, for errors.
    """

    schema: str
    name: str = "response_format"

    @classmethod
    def read(cls, asked: Any) -> ResponseFormat | None:
        """Reads `response_format` as in OpenAI's API; None for text.

        A schema is always kept to, whatever `strict` says.

        Raises:
            ValueError: It is malformed; says what is missing.
        """
        if asked is None or isinstance(asked, ResponseFormat):
            return asked
        kind = asked.get("type") if isinstance(asked, Mapping) else None
        if kind not in _KINDS:
            raise ValueError(f'give {{"type": …}} with one of: {", ".join(_KINDS)}')
        if kind == "text":
            return None
        if kind == "json_object":
            return cls('{"type": "object"}')
        described = asked.get("json_schema")
        schema = described.get("schema") if isinstance(described, Mapping) else None
        if not isinstance(schema, Mapping):
            raise ValueError('json_schema needs a schema: {"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}')
        try:
            return cls(json.dumps(schema, ensure_ascii=False), f"response_format {described.get('name') or ''}".strip())
        except (TypeError, ValueError, RecursionError) as e:
            raise ValueError(f"its schema is no JSON: {e}") from e
