"""Tools and their calls, between LlamaIndex's forms and the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, ToolCallBlock
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from pydantic_core import from_json

from relay_integrations import ConfigError


def read_tools(tools: Sequence[BaseTool | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools in OpenAI's format; those that are in it already stay as they are.

    Raises:
        ConfigError: One is no tool; says which.
    """
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Sequence):
        raise ConfigError(f"tools must be a list of tools, not {type(tools).__name__}")
    return [_read_tool(number, tool) for number, tool in enumerate(tools)]


def _read_tool(number: int, tool: Any) -> dict[str, Any]:
    if isinstance(tool, Mapping):
        return dict(tool)
    if not isinstance(tool, BaseTool):
        raise ConfigError(f"tools[{number}] is a {type(tool).__name__}: give a LlamaIndex tool, or a dict in OpenAI's format")
    read: dict[str, Any] = tool.metadata.to_openai_tool(skip_length_check=True)
    parameters = read["function"]["parameters"]
    if "type" not in parameters and tool.metadata.fn_schema is not None:
        read["function"]["parameters"] = _written_out(tool.metadata.fn_schema.model_json_schema())
    return read


def _written_out(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to at its top in its place; LlamaIndex drops such a reference, which a class makes to itself."""
    definitions = schema.get("$defs", {})
    top = definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], {})
    return {**top, "$defs": definitions} if top else schema


def selections(response: ChatResponse) -> list[ToolSelection]:
    """The calls in a response. While it streams, arguments that break off are taken as far as they go."""
    blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
    return [
        ToolSelection(tool_id=block.tool_call_id or block.tool_name, tool_name=block.tool_name, tool_kwargs=_arguments(block.tool_kwargs))
        for block in blocks
    ]


def why_no_call(response: ChatResponse) -> str:
    """What to say where a call was wanted and there is none."""
    relay = response.raw.get("relay", {}) if isinstance(response.raw, dict) else {}
    broken = relay.get("invalid_tool_calls")
    if not broken:
        return f"the model called no tool, but answered: {response.message.content!r}"
    cut = "; max_tokens cut it off, make it larger" if relay.get("finish_reason") == "length" else ""
    return f"the model's call of {broken[0]['name']!r} is not whole or no JSON: {broken[0]['arguments']!r}{cut}"


def _arguments(written: dict[str, Any] | str) -> dict[str, Any]:
    if not isinstance(written, str):
        return written
    try:
        read = from_json(written, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
