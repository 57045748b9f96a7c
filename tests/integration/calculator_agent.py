"""LangChain's agent on the tiny pair's calculator problems, with tools that are really run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.tools import BaseTool, StructuredTool

from langchain_relay import ChatRelay
from relay_integrations.tiny.sets import problem_set
from relay_integrations.tiny.tasks import Problem, is_right
from tests.integration.recording import recording


@dataclass(slots=True)
class Attempt:
    """What an agent made of a problem.

    Attributes:
        calls: What its tools returned, in order.
        text: Of its answer; streamed, the chunks of the last message joined.
        pieces: In how many chunks the answer came.
    """

    problem: Problem
    calls: list[str] = field(default_factory=list)
    text: str = ""
    pieces: int = 1

    @property
    def right(self) -> bool:
        """Whether a tool was called and the answer is right."""
        return bool(self.calls) and is_right(self.problem, self.text)


def attempts(model: ChatRelay, n: int, *, streamed: bool) -> list[Attempt]:
    """Lets the agent solve `n` test problems."""
    return [attempt(model, problem, streamed=streamed) for problem in problem_set("calculator", n)]


def attempt(model: ChatRelay, problem: Problem, *, streamed: bool) -> Attempt:
    """Lets the agent solve a problem."""
    made = Attempt(problem)
    agent: Any = create_agent(model, tools_of(problem, made.calls))
    messages = {"messages": [(message.role, message.content) for message in problem.messages]}
    if not streamed:
        made.text = agent.invoke(messages)["messages"][-1].text
        return made
    answers: dict[str | None, list[AIMessageChunk]] = {}
    for message, _ in agent.stream(messages, stream_mode="messages"):
        if isinstance(message, AIMessageChunk):
            answers.setdefault(message.id, []).append(message)
        assert not isinstance(message, AIMessage) or isinstance(message, AIMessageChunk), "a whole message repeats what was streamed"
    *_, last = answers.values()
    made.text, made.pieces = "".join(chunk.text for chunk in last), len(last)
    return made


def tools_of(problem: Problem, calls: list[str]) -> Sequence[BaseTool]:
    """The tools of a problem, which write down what they return."""

    def made(name: str, description: str, parameters: dict[str, Any]) -> BaseTool:
        return StructuredTool.from_function(recording(name, calls), name=name, description=description, args_schema=parameters)

    functions = [tool["function"] for tool in problem.tools]
    return [made(function["name"], function["description"], function["parameters"]) for function in functions]
