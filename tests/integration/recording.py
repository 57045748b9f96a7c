"""The calculators of the tiny pair's problems, as tools that write down what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relay_integrations.tiny.formats.calculator import run_tool


def recording(name: str, calls: list[str]) -> Callable[..., str]:
    """The tool of a name: what it returns, or what is wrong with the call, goes into `calls` too."""

    def run(**arguments: Any) -> str:
        try:
            result = run_tool(name, arguments)
        except (ValueError, TypeError) as e:
            result = f"Error: {e}"
        calls.append(result)
        return result

    return run
