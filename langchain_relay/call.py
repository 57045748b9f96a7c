"""One call of a chat model, read and checked: what the engine is asked for, and how the answer is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_relay.fields import RelayFields
from langchain_relay.messages import RelayMessage, to_relay
from langchain_relay.tools import read_response_format, read_tool_choice, read_tools
from relay_integrations import AsyncRelayStream, ConfigError, Policy, RelayEngine, RelayResult, RelayStream
from relay_integrations.adapter.report import Reporter

_OF_LANGCHAIN = ("stream", "ls_structured_output_format", "structured_output_format")
"""Keyword arguments that langchain-core passes on and that say nothing to a model."""


@dataclass(frozen=True, slots=True)
class Call:
    """What the engine is asked for.

    Attributes:
        messages, tools, policy, options: As `RelayEngine.generate` takes them.
        reporter: Says how the answer came to be.
    """

    messages: list[RelayMessage]
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


def answers(model: RelayFields, kwargs: Mapping[str, Any]) -> Any:
    """How many answers a call asks for."""
    return kwargs.get("n", model.default_options().get("n", 1))


def read_call(
    model: RelayFields, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
) -> Call:
    """Reads the arguments of a call, over what the model was made with.

    Args:
        model: The chat model.
        messages: The conversation.
        stop: Stop sequences of this call; None for those of the model, [] for none.
        kwargs: Further arguments: request options, `model`, `tools`, `tool_choice`, `response_format`.
        streamed: Whether the answer is streamed; there can be only one then.

    Raises:
        ConfigError: An argument cannot be used; names it.
        MessageError: A message cannot be shown to a model.
    """
    options = {**model.default_options(), **{key: value for key, value in kwargs.items() if key not in _OF_LANGCHAIN}}
    if stop is not None:
        options["stop"] = stop
    if streamed and options.get("n", 1) != 1:
        raise ConfigError(f"n={options['n']} answers cannot be streamed: leave n out, or use invoke, batch or generate")
    tools = read_tools(options.pop("tools", None) or ())
    _put(options, "tool_choice", read_tool_choice(options.pop("tool_choice", None), tools))
    _put(options, "response_format", read_response_format(options.pop("response_format", None)))
    names, asked = model.names, options.pop("model", None)
    policy = None if asked is None else names.policy_of(asked)
    reporter = Reporter(
        model=names.of_policy(policy or names.policy),
        policy=policy or names.policy,
        large=names.large,
        small=names.small,
        max_segments=model.max_segments,
    )
    return Call(to_relay(messages), tools, model.policy_for(policy), options, reporter)


def _put(options: dict[str, Any], name: str, value: Any) -> None:
    """Sets what was said, and leaves out what was not: the engine has its own default then."""
    if value is not None:
        options[name] = value
