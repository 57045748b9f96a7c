"""An agent with a calculator: its answer is streamed, its handoffs are printed. Runs offline, on the tiny pair.

pip install langchain
python examples/langchain/agent.py
"""

from __future__ import annotations

import ast
import asyncio
import operator
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from langchain_relay import ChatRelay

OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@tool
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
    async for event in agent.astream_events({"messages": [("human", question)]}, version="v2"):
        data = event["data"]
        if event["event"] == "on_custom_event" and event["name"] == "relay_handoff":
            print(f" [{data['from']} → {data['to']}: {data['reason']}] ", end="", flush=True)
        elif event["event"] == "on_chat_model_stream":
            print(data["chunk"].additional_kwargs.get("reasoning_content", "") + data["chunk"].text, end="", flush=True)
        elif event["event"] == "on_tool_start":
            print(f"\n  calculator({data['input']['expression']})", end="", flush=True)
        elif event["event"] == "on_tool_end":
            print(f" = {data['output'].content}\n")
    print()


async def main() -> None:
    model = ChatRelay.tiny(temperature=0)
    agent = create_agent(model, [calculator])
    await ask(agent, "What is 1234*56?")
    await ask(agent, "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?")
    await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())
