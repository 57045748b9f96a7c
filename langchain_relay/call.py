"""One call of a chat model, read and checked: what the engine is asked for, and how the answer is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_relay.fields import RelayFields, read_cue_profile
from langchain_relay.messages import RelayMessage, to_relay
from langchain_relay.metadata import Reporter
from langchain_relay.schemas import read_response_format
from langchain_relay.tools import read_tool_choice, read_tools
from relay_integrations import POLICIES, AsyncRelayStream, ConfigError, Policy, RelayEngine, RelayResult, RelayStream
from relay_integrations.config import read_options

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
    asked = kwargs.get("n", model.default_options().get("n", 1))
    return 1 if asked is None else asked


def read_call(
    model: RelayFields, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
) -> Call:
    """Reads the arguments of a call, over what the model was made with.

    Args:
        model: The chat model.
        messages: The conversation.
        stop: Stop sequences of this call; None for those of the model, [] for none.
        kwargs: Further arguments: request options, `model`, `policy`, `tools`, `tool_choice`, `response_format`.
        streamed: Whether the answer is streamed; there can be only one then.

    Raises:
        ConfigError: An argument cannot be used; names it.
        MessageError: A message cannot be shown to a model.
    """
    options = {**model.default_options(), **{key: value for key, value in kwargs.items() if key not in _OF_LANGCHAIN}}
    if stop is not None:
        options["stop"] = stop
    if options.get("n", 1) is None:
        del options["n"]
    # Read as the engine does, to which "2" is 2.
    if streamed and (n := read_options(n=options.get("n", 1)).n) > 1:
        raise ConfigError(f"n={n} answers cannot be streamed: leave n out, or use invoke, batch or generate")
    tools = options.pop("tools", None)
    tools = read_tools(() if tools is None else tools)
    _put(options, "tool_choice", read_tool_choice(options.pop("tool_choice", None), tools))
    _put(options, "response_format", read_response_format(options.pop("response_format", None)))
    names, (name, policy) = model.names, read_policy(model, options.pop("model", None), options.pop("policy", None))
    reporter = Reporter(
        model=names.of_policy(name),
        policy=name,
        large=names.large,
        small=names.small,
        max_segments=model.max_segments,
    )
    return Call(to_relay(messages), tools, policy, options, reporter)


def read_policy(model: RelayFields, asked: Any, policy: Any) -> tuple[str, Policy | None]:
    """The name of the policy that a call runs, and the policy itself where it is not the engine's own.

    Args:
        model: The chat model.
        asked: What the call says is its `model`: a policy by its name, or one of the two models.
        policy: What it says is its `policy`.

    Raises:
        ConfigError: They name no policy, or both name one.
    """
    if asked is not None and policy is not None:
        raise ConfigError("model=… and policy=… both choose a policy: leave one of them out")
    if isinstance(policy, Policy):
        return policy.name, policy if model.cue_profile is None else policy.with_cues(read_cue_profile(model.cue_profile))
    if not isinstance(policy, str | None):
        raise ConfigError(f"policy={policy!r} is no policy: give the name of one ({', '.join(POLICIES)}) or a Policy")
    name = model.names.policy_of(asked) if asked is not None else policy
    return name or model.names.policy, model.policy_for(name)


def _put(options: dict[str, Any], name: str, value: Any) -> None:
    """Sets what was said, and leaves out what was not: the engine has its own default then."""
    if value is not None:
        options[name] = value
