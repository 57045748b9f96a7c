"""An agent with a calculator: reasoning and answer are streamed, with who writes. Runs offline, on the tiny pair.

FunctionAgent calls tools in the models' own format, which the tiny pair has learned. ReActAgent explains its format in a prompt of
1,300 tokens, which is too much for models this small; larger ones can be used in either.

python examples/llamaindex/agent.py
"""

from __future__ import annotations

import ast
import asyncio
import operator
from typing import Any

from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ToolCallResult

from llamaindex_relay import Relay

OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculator(expression: str) -> str:
    """Work out an arithmetic expression."""

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        raise ValueError(f"not an arithmetic expression: {expression}")

    return str(value(ast.parse(expression, mode="eval").body))


async def ask(agent: Any, question: str) -> None:
    print(f"\n> {question}")
    handler, writes = agent.run(user_msg=question), None
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            role = (event.raw or {}).get("relay", {}).get("role")  # type: ignore[union-attr]
            if role is not None and role != writes:
                print(f"[{role}] ", end="")
                writes = role
            print((event.thinking_delta or "") + event.delta, end="", flush=True)
        elif isinstance(event, ToolCallResult):
            print(f"\n  calculator({event.tool_kwargs['expression']}) = {event.tool_output.content}\n")
            writes = None
    print(f"\n= {(await handler).response.content}")


async def main() -> None:
    model = Relay.tiny(temperature=0, max_tokens=700)
    agent = FunctionAgent(llm=model, tools=[calculator])
    await ask(agent, "What is 1234*56?")
    await ask(agent, "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?")
    await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())
