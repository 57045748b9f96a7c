"""Writes `frameworks.json`: the prompts and tool formats of LangChain and LlamaIndex, as their packages really send them.

    pip install 'relay-integrations[langchain,llamaindex]' && python -m relay_integrations.tiny.dump_prompts


Without `from __future__ import annotations`, which would put the types into quotes where a framework spells out a signature.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "frameworks.json"


def calculator(expression: str) -> str:
    """Work out an arithmetic expression."""
    return expression


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return city


def ping() -> str:
    """Answer with pong."""
    return "pong"


FUNCTIONS = (calculator, multiply, get_weather, ping)


def main() -> None:
    """Writes the file."""
    found: dict[str, dict[str, Any]] = {
        "versions": {name: version(name) for name in ("langchain-core", "llama-index-core")},
        "tools": {"langchain": _langchain_tools(), "llamaindex": _llamaindex_tools()},
        "templates": _llamaindex_templates(),
    }
    TARGET.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {TARGET}: {len(found['templates'])} templates, {len(FUNCTIONS)} tools of two frameworks")  # noqa: T201


def _langchain_tools() -> list[dict[str, Any]]:
    from langchain_core.tools import tool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    return [convert_to_openai_tool(tool(function)) for function in FUNCTIONS]


def _llamaindex_tools() -> list[dict[str, Any]]:
    from llama_index.core.tools import FunctionTool

    return [FunctionTool.from_defaults(function).metadata.to_openai_tool() for function in FUNCTIONS]


def _llamaindex_templates() -> dict[str, list[dict[str, str]]]:
    """Messages with places to fill in, by name."""
    from llama_index.core.chat_engine import condense_plus_context, condense_question, context
    from llama_index.core.prompts import chat_prompts

    chats = {
        "qa": chat_prompts.CHAT_TEXT_QA_PROMPT,
        "refine": chat_prompts.CHAT_REFINE_PROMPT,
        "tree_summarize": chat_prompts.CHAT_TREE_SUMMARIZE_PROMPT,
    }
    texts = {
        "condense_question": ("user", condense_question.DEFAULT_TEMPLATE),
        "condense_plus_context": ("user", condense_plus_context.DEFAULT_CONDENSE_PROMPT_TEMPLATE),
        "context_chat": ("system", context.DEFAULT_CONTEXT_TEMPLATE),
        "context_chat_plus": ("system", condense_plus_context.DEFAULT_CONTEXT_PROMPT_TEMPLATE),
    }
    found = {
        name: [{"role": str(message.role.value), "content": str(message.content)} for message in prompt.message_templates]
        for name, prompt in chats.items()
    }
    return found | {name: [{"role": role, "content": text}] for name, (role, text) in texts.items()}


if __name__ == "__main__":
    main()
