"""Tools and their calls, between LlamaIndex's forms and the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, ToolCallBlock
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from pydantic_core import from_json


def read_tools(tools: Sequence[BaseTool | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools in OpenAI's format; those that are in it already stay as they are."""
    return [dict(tool) if isinstance(tool, Mapping) else tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]


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
