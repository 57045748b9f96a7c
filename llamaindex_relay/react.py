"""Tools called by text, for LLMs whose function calling is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_FUNCTION_CALLING = ("allow_parallel_tool_calls", "tool_required", "tool_choice", "error_on_no_tool_call", "error_on_tool_error")


def react_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `predict_and_call` for LlamaIndex's ReAct agent, which it hands no formatter and no parser of its own."""
    from llama_index.core.agent.react import ReActChatFormatter, ReActOutputParser

    kept = {key: value for key, value in kwargs.items() if key not in _OF_FUNCTION_CALLING}
    kept.setdefault("react_chat_formatter", ReActChatFormatter())
    kept.setdefault("output_parser", ReActOutputParser())
    return kept
