"""The prompts of LangChain and LlamaIndex, as `dump_prompts.py` found them, with places to fill in."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from relay_integrations.chat.messages import Message

Framework = Literal["langchain", "llamaindex"]

FRAMEWORKS: tuple[Framework, ...] = ("langchain", "llamaindex")

Parameter = Literal["integer", "string", "number"]

_PYTHON_TYPES: dict[Parameter, str] = {"integer": "int", "string": "str", "number": "float"}


@cache
def found() -> dict[str, Any]:
    """Everything in `frameworks.json`."""
    read: dict[str, Any] = json.loads((Path(__file__).parent.parent / "frameworks.json").read_text(encoding="utf-8"))
    return read


def fill(template: str, **fields: str) -> list[Message]:
    """The messages of a template, with the fields put in.

    Args:
        template: A key of `templates` in `frameworks.json`.
        **fields: A text for each of its places.
    """
    filled = []
    for message in found()["templates"][template]:
        text = message["content"]
        for name, value in fields.items():
            text = text.replace("{" + name + "}", value)
        filled.append(Message(role=message["role"], content=text))
    return filled


def tool(framework: Framework, name: str, description: str, parameters: dict[str, Parameter], returns: Parameter) -> dict[str, Any]:
    """A tool in OpenAI's format, spelt as a framework spells it for a plain Python function.

    Args:
        framework: Whose spelling.
        name: Of the function.
        description: Its docstring.
        parameters: Type by name.
        returns: Type of the result.
    """
    properties: dict[str, Any] = {p: {"type": kind} for p, kind in parameters.items()}
    if framework == "llamaindex":
        signature = ", ".join(f"{p}: {_PYTHON_TYPES[kind]}" for p, kind in parameters.items())
        description = f"{name}({signature}) -> {_PYTHON_TYPES[returns]}\n{description}"
        properties = {p: {"title": p.replace("_", " ").title(), "type": kind} for p, kind in parameters.items()}
    schema: dict[str, Any] = {"properties": properties}
    if parameters:
        schema["required"] = list(parameters)
    schema["type"] = "object"
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
