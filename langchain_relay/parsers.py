"""LangChain's parsers of structured output, which take no answer that was cut off.

LangChain mends JSON that breaks off. For what is shown while it streams that is right, but as a result it would be half of the answer,
or a number that lacks its last digits, and nobody would know.
"""

from __future__ import annotations

import json
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.utils.pydantic import TBaseModel  # noqa: F401 - pydantic's mypy plugin looks for it here
from pydantic import BaseModel


class WholeCall(JsonOutputKeyToolsParser):
    """The arguments of a call of one tool."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """As LangChain's; raises `OutputParserException` where the answer was cut off."""
        refuse_cut(result)
        return super().parse_result(result, partial=partial)


class WholePydanticCall(PydanticToolsParser):
    """The call of a tool as an instance of the tool's class."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """As LangChain's; raises `OutputParserException` where the answer was cut off."""
        refuse_cut(result)
        return super().parse_result(result, partial=partial)


class WholeJson(JsonOutputParser):
    """JSON as it is."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """As LangChain's; raises `OutputParserException` where the answer was cut off."""
        refuse_cut(result)
        return super().parse_result(result, partial=partial)


class WholePydantic(PydanticOutputParser[BaseModel]):
    """JSON as an instance of a class."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """As LangChain's; raises `OutputParserException` where the answer was cut off."""
        refuse_cut(result)
        return super().parse_result(result, partial=partial)


def refuse_cut(result: list[Generation]) -> None:
    """Checks that an answer is whole, as far as it is known to have ended.

    Raises:
        OutputParserException: It was cut off; says by what.
    """
    generation = result[0]
    message = generation.message if isinstance(generation, ChatGeneration) else None
    if not isinstance(message, AIMessage):
        return
    how = _cut_by(message.response_metadata)
    if how and not message.tool_calls and not _is_json(message.text):
        raise OutputParserException(f"the answer is not whole: {how}", llm_output=message.text)


def _cut_by(metadata: dict[str, Any]) -> str | None:
    if metadata.get("finish_reason") == "length":
        return (
            "it ran into max_tokens, or into the end of the context window; allow more tokens, set reasoning_budget if it was the "
            "reasoning that took them, or bound the schema (maxLength, maxItems)"
        )
    stop = metadata.get("relay", {}).get("stop_sequence")
    return f"the stop sequence {stop!r} ended it; call the model without it" if stop else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
