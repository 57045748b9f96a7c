"""Reads one call of `Relay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage

from llamaindex_relay.messages import to_relay
from llamaindex_relay.tools import read_tools
from relay_integrations import ConfigError
from relay_integrations.adapter.call import Call
from relay_integrations.adapter.report import Reporter

if TYPE_CHECKING:
    from llamaindex_relay.llm import Relay


def read_call(llm: Relay, messages: Sequence[ChatMessage], kwargs: Mapping[str, Any]) -> Call:
    """Reads the arguments of a call, over what the LLM was made with. None is as if nothing was said.

    Args:
        llm: The LLM.
        messages: The conversation.
        kwargs: Request options, `model` or `policy`, `tools`, `tool_choice`, `response_format`.

    Raises:
        ConfigError: An argument cannot be used; names it.
        MessageError: A message cannot be shown to a model.
    """
    options = {**llm.default_options(), **{key: value for key, value in kwargs.items() if value is not None}}
    if options.get("n", 1) != 1:
        raise ConfigError(f"n={options['n']}: LlamaIndex takes one answer at a time; leave n out, or call RelayEngine.generate")
    tools = read_tools(options.pop("tools", ()))
    name, policy = llm.read_policy(options.pop("model", None), options.pop("policy", None))
    names = llm.names
    reporter = Reporter(model=names.of_policy(name), policy=name, large=names.large, small=names.small, max_segments=llm.max_segments)
    return Call(to_relay(messages), tools, policy, options, reporter)
