"""Reads one call of a chat model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_relay.fields import ChatFields
from langchain_relay.messages import to_relay
from langchain_relay.schemas import read_response_format
from langchain_relay.tools import read_tool_choice, read_tools
from relay_integrations import ConfigError
from relay_integrations.adapter.call import Call
from relay_integrations.adapter.report import Reporter
from relay_integrations.config import read_options

_OF_LANGCHAIN = ("stream", "ls_structured_output_format", "structured_output_format")
"""Keyword arguments that langchain-core passes on and that say nothing to a model."""


def answers(model: ChatFields, kwargs: Mapping[str, Any]) -> Any:
    """How many answers a call asks for."""
    asked = kwargs.get("n", model.default_options().get("n", 1))
    return 1 if asked is None else asked


def read_call(
    model: ChatFields, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
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
    names, (name, policy) = model.names, model.read_policy(options.pop("model", None), options.pop("policy", None))
    reporter = Reporter(
        model=names.of_policy(name),
        policy=name,
        large=names.large,
        small=names.small,
        max_segments=model.max_segments,
    )
    return Call(to_relay(messages), tools, policy, options, reporter)


def _put(options: dict[str, Any], name: str, value: Any) -> None:
    """Sets what was said, and leaves out what was not: the engine has its own default then."""
    if value is not None:
        options[name] = value
