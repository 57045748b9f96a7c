"""Tools, tool choices and response formats, from the forms that LangChain knows to those of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from relay_integrations import ConfigError

ToolLike = Mapping[str, Any] | type | Callable[..., Any] | BaseTool

_CHOICES = {"auto": "auto", "none": "none", "any": "required", "required": "required"}


def read_tools(tools: Sequence[ToolLike], strict: bool | None = None) -> list[dict[str, Any]]:
    """Tools in OpenAI's format, from anything that LangChain takes for a tool."""
    return [convert_to_openai_tool(dict(tool) if isinstance(tool, Mapping) else tool, strict=strict) for tool in tools]


def read_tool_choice(choice: Any, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """A tool choice as the engine takes it: "auto", "none", "required", the name of a tool, or None where nothing was said.

    Args:
        choice: "any", "required" or True (some call), "auto", "none", a tool's name, or a choice in OpenAI's or Anthropic's format.
        tools: The tools at hand, in OpenAI's format.

    Raises:
        ConfigError: It is no choice, or names no tool at hand, or there is none.
    """
    if choice is None or choice is False or choice == "":
        return None
    if isinstance(choice, Mapping):
        choice = _name_in(choice)
    names = [tool.get("function", {}).get("name") for tool in tools]
    if isinstance(choice, str) and choice in names:
        return choice
    read = "required" if choice is True else _CHOICES.get(choice) if isinstance(choice, str) else None
    if read == "required" and not tools:
        raise ConfigError(f"tool_choice={choice!r} asks for a call, but there are no tools")
    if read is None:
        raise ConfigError(
            f"tool_choice={choice!r} is unknown: give 'auto', 'none', 'any', or the name of a tool: {', '.join(names) or '(none)'}"
        )
    return read


def read_response_format(asked: Any, strict: bool | None = None) -> dict[str, Any] | None:
    """A response format as the engine takes it: OpenAI's `json_object` or `json_schema`; None where text is meant.

    Args:
        asked: A format of OpenAI's; or a schema: a Pydantic class, a TypedDict or a JSON schema.
        strict: Goes into the format of a schema.
    """
    if asked is None:
        return None
    if isinstance(asked, Mapping) and asked.get("type") in ("json_object", "json_schema", "text"):
        return None if asked["type"] == "text" else dict(asked)
    function = convert_to_openai_tool(dict(asked) if isinstance(asked, Mapping) else asked, strict=strict)["function"]
    schema = {"name": function["name"], "schema": function["parameters"]}
    return {"type": "json_schema", "json_schema": schema if strict is None else {**schema, "strict": strict}}


def _name_in(choice: Mapping[str, Any]) -> Any:
    """The name in `{"type": "function", "function": {"name": …}}` or `{"type": "tool", "name": …}`, else the type: "auto", "any"."""
    function = choice.get("function")
    named = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    return named or choice.get("type")
