"""What LlamaIndex's agents and query engines make of the tiny pair's problems, with tools that are really run and context that is retrieved."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

from llama_index.core import QueryBundle
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool, ToolMetadata

from relay_integrations.tiny.formats.calculator import run_tool
from relay_integrations.tiny.sets import problem_set
from relay_integrations.tiny.tasks import Problem, is_right

_QUESTION = re.compile(r"Context information is below\.\n-+\n(.*)\n-+\n.*Query: (.*)\nAnswer:", re.DOTALL)


@dataclass(slots=True)
class Attempt:
    """What an agent made of a problem.

    Attributes:
        calls: What its tools returned, in order.
        text: Of its answer.
        deltas, thoughts: What of the answer and of the reasoning was streamed.
        speakers: Who wrote the streamed pieces.
    """

    problem: Problem
    calls: list[str] = field(default_factory=list)
    text: str = ""
    deltas: str = ""
    thoughts: str = ""
    speakers: set[str] = field(default_factory=set)

    @property
    def right(self) -> bool:
        """Whether a tool was called and the answer is right."""
        return bool(self.calls) and is_right(self.problem, self.text)


class _Given(ToolMetadata):
    """Of a tool whose definition is given in OpenAI's format."""

    def __init__(self, tool: dict[str, Any]) -> None:
        super().__init__(description=tool["function"]["description"], name=tool["function"]["name"])
        self._tool = tool

    def to_openai_tool(self, skip_length_check: bool = False) -> dict[str, Any]:
        return self._tool


def agent_attempts(llm: LLM, n: int) -> list[Attempt]:
    """Lets FunctionAgent solve `n` test problems with a calculator."""

    async def solve_all() -> list[Attempt]:
        return [await _solve(llm, problem) for problem in problem_set("calculator", n)]

    return asyncio.run(solve_all())


async def _solve(llm: LLM, problem: Problem) -> Attempt:
    made = Attempt(problem)
    history = [ChatMessage(role=message.role, content=message.content) for message in problem.history]
    handler = FunctionAgent(llm=llm, tools=[_tool(tool, made.calls) for tool in problem.tools]).run(problem.question, chat_history=history)
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            made.deltas += event.delta
            made.thoughts += event.thinking_delta or ""
            made.speakers.add(event.raw["relay"].get("role", "both"))
    made.text = (await handler).response.content or ""
    return made


def _tool(tool: dict[str, Any], calls: list[str]) -> FunctionTool:
    def run(**arguments: Any) -> str:
        try:
            result = run_tool(tool["function"]["name"], arguments)
        except (ValueError, TypeError) as e:
            result = f"Error: {e}"
        calls.append(result)
        return result

    return FunctionTool(fn=run, metadata=_Given(tool))


class _Found(BaseRetriever):
    """Finds one text, whatever is asked."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=self._text), score=1.0)]


def context_problems(n: int) -> list[tuple[Problem, str, str]]:
    """`n` test problems that a query engine can ask: each with its context and its question."""
    found: list[tuple[Problem, str, str]] = []
    for problem in problem_set("retrieval", 4 * n):
        match = _QUESTION.search(problem.question)
        if match:
            found.append((problem, match[1], match[2]))
    assert len(found) >= n
    return found[:n]


def answers_from_context(llm: LLM, n: int, *, streaming: bool = False) -> list[bool]:
    """Whether a query engine answers each of `n` problems right, from the context that its retriever finds."""
    rights = []
    for problem, context, question in context_problems(n):
        synthesizer = get_response_synthesizer(llm=llm, response_mode=ResponseMode.COMPACT, streaming=streaming)
        engine = RetrieverQueryEngine(_Found(context), response_synthesizer=synthesizer)
        rights.append(is_right(problem, str(engine.query(question))))
    return rights
