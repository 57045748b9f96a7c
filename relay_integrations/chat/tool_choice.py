"""Which tools the model may or must call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from relay_integrations.errors import ConfigError

_WORDS: dict[str, Literal["auto", "none", "required"]] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """What was asked for.

    Attributes:
        mode: "auto": the model decides; "none": no tools are offered; "required": it has to call one.
        name: The tool that it has to call.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    name: str | None = None

    @property
    def forced(self) -> bool:
        """Whether the answer has to be a call."""
        return self.mode == "required"

    @classmethod
    def read(cls, choice: Any) -> ToolChoice:
        """Reads one of the words, a tool's name, or OpenAI's `{"type": "function", "function": {"name": …}}`.

        Raises:
            ValueError: It is none of these.
        """
        if isinstance(choice, ToolChoice):
            return choice
        if choice is None:
            return cls()
        if isinstance(choice, str) and choice:
            return cls(_WORDS[choice]) if choice in _WORDS else cls("required", choice)
        function = choice.get("function") if isinstance(choice, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ValueError('give "auto", "none", "required", a tool\'s name, or {"type": "function", "function": {"name": …}}')
        return cls("required", name)

    def choose(self, tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The tools that may be called.

        Raises:
            ConfigError: A call is asked for that no tool allows.
        """
        if self.mode == "none":
            return []
        names = [tool["function"]["name"] for tool in tools]
        if self.forced and not names:
            raise ConfigError(f"tool_choice={self.name or 'required'!r} needs tools: pass tools=[…], or leave tool_choice out")
        if self.name is not None and self.name not in names:
            raise ConfigError(f"tool_choice names {self.name!r}, which is none of the tools; there are: {', '.join(names)}")
        return [tool for tool in tools if self.name is None or tool["function"]["name"] == self.name]
