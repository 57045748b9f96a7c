"""A chat model that answers in the form of a schema."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import LanguageModelInput
from langchain_core.output_parsers import BaseOutputParser
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.pydantic import is_basemodel_subclass

from langchain_relay.parsers import WholeCall, WholeJson, WholePydantic, WholePydanticCall
from langchain_relay.schemas import read_response_format
from langchain_relay.tools import read_tools
from relay_integrations import ConfigError

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from langchain_relay.chat_models import ChatRelay

Method = Literal["function_calling", "json_schema", "json_mode"]
Schema = dict[str, Any] | type

_SET_HERE: dict[str, tuple[str, ...]] = {
    "function_calling": ("tools", "tool_choice", "parallel_tool_calls", "response_format"),
    "json_schema": ("response_format",),
    "json_mode": ("response_format",),
}
"""Arguments of a call that each method sets, or that go against it."""

_WAY_OUT = {"tools": ", whose only tool is the schema: leave them out, or use method='json_schema', which takes tools"}


def structured(
    model: ChatRelay, schema: Schema | None, method: Method, *, include_raw: bool, strict: bool | None, **kwargs: Any
) -> Runnable[LanguageModelInput, Any]:
    """See `ChatRelay.with_structured_output`."""
    if method not in list(_SET_HERE):  # which may be anything, also what has no hash
        raise ConfigError(f"method={method!r} is unknown; there are: {', '.join(_SET_HERE)}")
    if schema is None and method != "json_mode":
        raise ConfigError(f"method={method!r} needs a schema: a Pydantic class, a TypedDict or a JSON schema")
    if strict is not None and method == "json_mode":
        raise ConfigError("strict needs a schema to be strict about: json_mode has none, use method='json_schema'")
    for name in _SET_HERE[method]:
        if kwargs.pop(name, None) is not None:
            raise ConfigError(
                f"with_structured_output leaves no room for {name} with method={method!r}{_WAY_OUT.get(name, ': leave it out')}"
            )
    if schema is not None:  # for traces
        asked = {"method": method} if method == "json_mode" else {"method": method, "strict": strict}
        kwargs["ls_structured_output_format"] = {"kwargs": asked, "schema": schema}
    if method == "function_calling":
        assert schema is not None
        name = read_tools([schema])[0]["function"]["name"]
        llm = model.bind_tools([schema], tool_choice=name, strict=strict, parallel_tool_calls=False, **kwargs)
        return _parsed(llm, _call_parser(schema, name), include_raw)
    wanted = {"type": "json_object"} if method == "json_mode" else read_response_format(schema, strict)
    return _parsed(model.bind(response_format=wanted, **kwargs), _json_parser(schema), include_raw)


def _call_parser(schema: Schema, name: str) -> BaseOutputParser[Any]:
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        return WholePydanticCall(tools=[schema], first_tool_only=True)
    return WholeCall(key_name=name, first_tool_only=True)


def _json_parser(schema: Schema | None) -> BaseOutputParser[Any]:
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        return WholePydantic(pydantic_object=schema)
    return WholeJson()


def _parsed(
    llm: Runnable[LanguageModelInput, AIMessage], parser: BaseOutputParser[Any], include_raw: bool
) -> Runnable[LanguageModelInput, Any]:
    if not include_raw:
        return llm | parser
    both = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    raw_alone = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=llm) | both.with_fallbacks([raw_alone], exception_key="parsing_error")
