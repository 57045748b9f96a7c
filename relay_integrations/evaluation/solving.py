"""One problem solved by one policy: generated, its tools run, judged."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay_integrations.chat.messages import Message, ToolCall
from relay_integrations.engine import RelayEngine
from relay_integrations.errors import PromptTooLong
from relay_integrations.policies import Policy
from relay_integrations.tiny.formats.calculator import run_tool
from relay_integrations.tiny.tasks import Problem, is_right

MAX_ROUNDS = 8
"""Rounds of tool calls, after which a model that calls on and on has failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it.

    Attributes:
        right: Whether the answer is right.
        seconds: Until the answer was complete, all rounds of tool calls together.
        tokens, large_tokens: Output tokens by both models, and by the large one.
        handoffs: Changes of role.
    """

    right: bool
    seconds: float
    tokens: int
    large_tokens: int
    handoffs: int


def solve(engine: RelayEngine, problem: Problem, policy: Policy, seed: int = 0, options: Mapping[str, Any] | None = None) -> Outcome:
    """Solves a problem as an agent would: what the model calls is run, until it answers.

    A call that cannot be read is none. A conversation that has outgrown the window has failed.

    Args:
        engine: Of the pair.
        problem: With its tools, if it has any.
        policy: Who goes next.
        seed: Of sampling.
        options: Further options of the request; greedy where they set no temperature.
    """
    settings = {"temperature": 0.0, **(options or {})}
    if not problem.thinking:
        settings["reasoning"] = False
    messages = problem.messages
    tokens = large = handoffs = 0
    began = time.perf_counter()
    for _ in range(MAX_ROUNDS):
        try:
            result = engine.generate(messages, tools=problem.tools or None, policy=policy, seed=seed, **settings)
        except PromptTooLong:
            break
        tokens += result.usage.completion_tokens
        large += result.usage.large_tokens
        handoffs += len(result.handoffs)
        calls = [call for call in result.tool_calls if call.valid]
        if not calls:
            return Outcome(is_right(problem, result.text), time.perf_counter() - began, tokens, large, handoffs)
        answers = [Message(role="tool", content=_run(call, problem), tool_call_id=call.id) for call in calls]
        messages = [*messages, result.choices[0].to_message(), *answers]
    return Outcome(False, time.perf_counter() - began, tokens, large, handoffs)


def _run(call: ToolCall, problem: Problem) -> str:
    """What a tool returns; of a call that cannot be run, what is wrong with it."""
    names = [tool["function"]["name"] for tool in problem.tools]
    if call.name not in names:
        return f"Error: there is no tool {call.name!r}; there are: {', '.join(names)}"
    try:
        return run_tool(call.name, json.loads(call.arguments))
    except (ValueError, TypeError) as e:
        return f"Error: {e}"
