"""LlamaIndex's agent and query engine on the tiny pair's problems: tools are really called, contexts are really retrieved."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.tools import FunctionTool
from pydantic import create_model

from llamaindex_relay import Relay
from relay_integrations.evaluation.statistics import Pairs
from relay_integrations.tiny.sets import problem_set
from relay_integrations.tiny.tasks import Problem, is_right
from tests.integration.recording import recording
from tests.unit.llamaindex_support import HashEmbedding

TYPES = {"string": str, "integer": int, "number": float}


@dataclass(slots=True)
class Attempt:
    """What an agent made of a problem.

    Attributes:
        calls: What its tools returned, in order.
        text: Of its answer.
        pieces: In how many pieces its reasoning and its answers were streamed.
    """

    problem: Problem
    calls: list[str] = field(default_factory=list)
    text: str = ""
    pieces: int = 0

    @property
    def right(self) -> bool:
        """Whether a tool was called and the answer is right."""
        return bool(self.calls) and is_right(self.problem, self.text)


def attempts(model: Relay, n: int) -> list[Attempt]:
    """Lets the agent solve `n` test problems."""

    async def solve_all() -> list[Attempt]:
        return [await _attempt(model, problem) for problem in problem_set("calculator", n)]

    return asyncio.run(solve_all())


async def _attempt(model: Relay, problem: Problem) -> Attempt:
    made = Attempt(problem)
    agent: Any = FunctionAgent(llm=model, tools=tools_of(problem, made.calls))
    *before, last = (ChatMessage(role=message.role, content=message.content) for message in problem.messages)
    handler = agent.run(user_msg=last, chat_history=before, memory=ChatMemoryBuffer.from_defaults(tokenizer_fn=str.split))
    async for event in handler.stream_events():
        if isinstance(event, AgentStream) and (event.delta or event.thinking_delta):
            made.pieces += 1
    made.text = (await handler).response.content or ""
    return made


def tools_of(problem: Problem, calls: list[str]) -> list[Any]:
    """The tools of a problem, which write down what they return."""

    def made(name: str, description: str, parameters: dict[str, Any]) -> FunctionTool:
        fields: dict[str, Any] = {key: (TYPES[about["type"]], ...) for key, about in parameters["properties"].items()}
        return FunctionTool.from_defaults(
            recording(name, calls), name=name, description=description, fn_schema=create_model(name, **fields)
        )

    functions = [tool["function"] for tool in problem.tools]
    return [made(function["name"], function["description"], function["parameters"]) for function in functions]


def compare_query_engines(model: Relay, n: int) -> Pairs:
    """On how many of `n` questions about documents the relay and its large model alone are right."""
    alone = model.model_copy(update={"policy": "large-only"})
    both = first = second = neither = 0
    for problem in problem_set("retrieval", n):
        one, other = (is_right(problem, ask(made, problem)) for made in (model, alone))
        both, first, second, neither = both + (one and other), first + (one > other), second + (other > one), neither + (not one | other)
    return Pairs(both, first, second, neither)


def ask(model: Relay, problem: Problem) -> str:
    """Puts the context of a problem into an index, and its question to a query engine."""
    documents, question = documents_of(problem)
    index = VectorStoreIndex.from_documents(documents, embed_model=HashEmbedding())
    engine = index.as_query_engine(
        llm=model, embed_model=HashEmbedding(), similarity_top_k=len(documents), response_mode=ResponseMode.COMPACT
    )
    return str(engine.query(question))


def documents_of(problem: Problem) -> tuple[list[Document], str]:
    """The documents of a problem, with the files that they are from, and its question."""
    system, user = problem.messages[0].content, problem.messages[-1].content
    asked = re.search(r"Query: (.*)\nAnswer: $", user)
    context = re.search(r"-{20,}\n(.*)\n-{20,}|documents for the context:\n\n  (.*?)\n\n  Instruction", f"{system}\n{user}", re.DOTALL)
    assert context, f"no context in {system}"
    pieces = re.findall(r"(?:file_path: (\S+)\n\n)?(.+?)(?:\n\n|$)", context[1] or context[2])
    return [Document(text=text, metadata={"file_path": path} if path else {}) for path, text in pieces], asked[1] if asked else user
