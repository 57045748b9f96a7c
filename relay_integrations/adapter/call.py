"""One call of a framework's model, read and checked: what the engine is asked for, and how the answer is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay_integrations.adapter.report import Reporter
from relay_integrations.engine import RelayEngine
from relay_integrations.policies import Policy
from relay_integrations.result import RelayResult
from relay_integrations.stream import AsyncRelayStream, RelayStream


@dataclass(frozen=True, slots=True)
class Call:
    """What the engine is asked for.

    Attributes:
        messages, tools, policy, options: As `RelayEngine.generate` takes them.
        reporter: Says how the answer came to be.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    policy: Policy | None
    options: Mapping[str, Any]
    reporter: Reporter

    def generate(self, engine: RelayEngine) -> RelayResult:
        """The answer, waited for."""
        return engine.generate(self.messages, tools=self.tools, policy=self.policy, **self.options)

    async def agenerate(self, engine: RelayEngine) -> RelayResult:
        """The answer; the event loop stays free."""
        return await engine.agenerate(self.messages, tools=self.tools, policy=self.policy, **self.options)

    def stream(self, engine: RelayEngine) -> RelayStream:
        """The events of the answer."""
        return engine.stream(self.messages, tools=self.tools, policy=self.policy, **self.options)

    def astream(self, engine: RelayEngine) -> AsyncRelayStream:
        """As `stream`, for any event loop."""
        return engine.astream(self.messages, tools=self.tools, policy=self.policy, **self.options)
