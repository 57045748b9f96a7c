"""Structured output that streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index.core.program.utils import get_program_for_llm
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode

if TYPE_CHECKING:
    from llamaindex_relay.llm import Relay


def streaming_program(llm: Relay, output_cls: type[Any], prompt: PromptTemplate) -> Any:
    """The program that fills in a class piece by piece.

    LlamaIndex forces the call of its tool where the object is returned whole, but leaves it to the model where it streams.
    """
    mode = llm.pydantic_program_mode
    calls = mode == PydanticProgramMode.FUNCTION or (mode == PydanticProgramMode.DEFAULT and llm.is_function_calling_model)
    forced = {"tool_choice": "required"} if calls else {}
    return get_program_for_llm(output_cls, prompt, llm, pydantic_program_mode=mode, **forced)
