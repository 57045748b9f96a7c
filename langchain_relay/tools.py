"""Tools and tool choices, from the forms that LangChain knows to those of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from langchain_relay.schemas import is_of_objects, is_schema, read_function, reason
from relay_integrations import ConfigError

ToolLike = Mapping[str, Any] | type | Callable[..., Any] | BaseTool

_OTHERWISE = "or ask for JSON instead of a call: with_structured_output(…, method='json_schema'), or response_format=…"
_CHOICES = {"auto": "auto", "none": "none", "any": "required", "required": "required"}


def read_tools(tools: Sequence[ToolLike], strict: bool | None = None) -> list[dict[str, Any]]:
    """Tools in OpenAI's format, from anything that LangChain takes for a tool.

    Raises:
        ConfigError: One is no tool, or its arguments are no object.
    """
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Sequence):
        raise ConfigError(f"tools must be a list of tools, not {type(tools).__name__}")
    return [_read_tool(number, tool, strict) for number, tool in enumerate(tools)]


def _read_tool(number: int, tool: ToolLike, strict: bool | None) -> dict[str, Any]:
    if is_schema(tool) and isinstance(tool, Mapping):
        _check_objects(number, tool.get("title", "a JSON schema"), tool)
        if not tool.get("title"):
            raise ConfigError(f"tools[{number}] is a JSON schema without a title, which would be the tool's name: add one, {_OTHERWISE}")
    try:
        function = read_function(tool, strict)
    except Exception as e:
        raise ConfigError(
            f"tools[{number}] is no tool{reason(e)}: give a function, a Pydantic class, a TypedDict, a BaseTool, "
            "or a function in OpenAI's format"
        ) from e
    _check_objects(number, function["name"], function.get("parameters") or {})
    return {"type": "function", "function": function}


def _check_objects(number: int, name: Any, schema: Any) -> None:
    # What is no mapping is no schema either; the engine says so.
    if isinstance(schema, Mapping) and not is_of_objects(schema):
        raise ConfigError(
            f"tools[{number}] ({name!r}): the arguments of a tool are an object, and this schema describes something else; "
            f"make it a property of an object, {_OTHERWISE}"
        )


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
    asked, choice = choice, _name_in(choice) if isinstance(choice, Mapping) else choice
    names = [tool.get("function", {}).get("name") for tool in tools]
    if isinstance(choice, str) and choice in names:
        return choice
    read = "required" if choice is True else _CHOICES.get(choice) if isinstance(choice, str) else None
    if read == "required" and not tools:
        raise ConfigError(f"tool_choice={choice!r} asks for a call, but there are no tools")
    if read is None:
        raise ConfigError(
            f"tool_choice={asked!r} is unknown: give 'auto', 'none', 'any', or the name of a tool: {', '.join(names) or '(none)'}"
        )
    return read


def _name_in(choice: Mapping[str, Any]) -> Any:
    """The name in `{"type": "function", "function": {"name": …}}` or `{"type": "tool", "name": …}`, else the type: "auto", "any"."""
    function = choice.get("function")
    named = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    return named or choice.get("type")
