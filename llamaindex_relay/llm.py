"""Relay: two models that take turns, as one LlamaIndex LLM."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from contextvars import Context, copy_context
from typing import Any, ClassVar, Self

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import BaseTool
from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from typing_extensions import override

from llamaindex_relay.call import read_call
from llamaindex_relay.owned import aowned, owned
from llamaindex_relay.react import react_step
from llamaindex_relay.responses import ResponseWriter, to_completion
from llamaindex_relay.structured import streaming_program
from llamaindex_relay.telling import Teller
from llamaindex_relay.tools import read_tools, selections, why_no_call
from relay_integrations import ConfigError, Sampling
from relay_integrations.adapter.call import Call
from relay_integrations.adapter.fields import RelayFields
from relay_integrations.adapter.segment_trace import SegmentTrace
from relay_integrations.adapter.window import window_before_loading
from relay_integrations.config import checked, read_failure_rules, read_prices
from relay_integrations.cues.profile import read_profile
from relay_integrations.tiny import LARGE, SMALL

MOST_OUTPUT = 4096
"""What prompts leave room for where `max_tokens` is not set, if that is no more than a quarter of the window."""

_READERS: dict[str | None, Callable[[Any], Any]] = {
    "large_sampling": lambda fields: checked(Sampling, fields, "large_sampling"),
    "small_sampling": lambda fields: checked(Sampling, fields, "small_sampling"),
    "cue_profile": read_profile,
    "on_failure": read_failure_rules,
    "prices": read_prices,
}


class Relay(RelayFields, FunctionCallingLLM):
    """A large and a small model that take turns inside one generation, as one LLM.

    The models are loaded at the first use, or by `engine`. Copies share one engine.

    Args:
        engine: A `RelayEngine` to use; it stays the caller's to close.
        large, small: Folders, hub ids, or names of the models that ship; where no engine is given.
        backend: Kind of backend, a key of `relay_integrations.backends.BACKENDS`.
        large_url, small_url: Servers of the models, for a backend that later releases bring; RELAY_LARGE_URL and RELAY_SMALL_URL if
            left out.
        api_key, timeout: For models on servers.
        max_retries: How often a failed hop of the leading model is tried again; not beside `engine`, which has rules of its own.
        device, dtype, device_map, trust_remote_code: How both models are loaded; `large_options`, `small_options` for one of them.
        policy: Name of a policy, or a policy; None takes the engine's own, or RelayGen.
        cue_profile: Cues of the pair, as in `RelayEngine`.
        on_failure, prices: As in `RelayEngine`.
        temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, penalties, large_sampling, small_sampling, max_tokens,
            seed, stop, reasoning, template_options, large_token_budget, reasoning_budget: As in `RequestOptions`; each call may say
            otherwise, by keyword arguments of the same names.
        additional_kwargs: Further request options.
        is_function_calling_model: Whether agents and structured output call tools by the models' own format (True), or by text.
        trace_segments: Spans within the span `relay` of an answer: "summary" (default): one for each of the two models, from its first
            segment to the end of the answer; "all": one for each segment; "none".
        max_segments: How many such spans there are at most, and how many segments `raw["relay"]` lists.

    Per call, `model="…"` names another policy (`model="large-only"`) or one of the two models, which then runs alone. Reasoning is in a
    `ThinkingBlock`, streamed in `additional_kwargs["thinking_delta"]`; figures are in `raw["relay"]`, usage in `raw["usage"]`.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    free_options: ClassVar[str] = "additional_kwargs"

    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    is_function_calling_model: bool = True

    @classmethod
    def tiny(cls, *, small: str = SMALL, **settings: Any) -> Self:
        """The trained tiny pair that ships with relay, for trying things out. Needs the extra `transformers`."""
        return cls(large=LARGE, small=small, backend="transformers", **settings)

    @classmethod
    @override
    def class_name(cls) -> str:
        return "Relay"

    def __getstate__(self) -> dict[str, Any]:
        if self.engine is not None:  # LlamaIndex would drop it, from this object too, and say so in a log line
            raise TypeError("a Relay made with engine=… cannot be pickled: an engine holds models and a thread; give large=… and small=…")
        state: dict[str, Any] = super().__getstate__()
        return state

    @field_validator("large_sampling", "small_sampling", "cue_profile", "on_failure", "prices", mode="after")
    @classmethod
    def _as_what_it_means(cls, value: Any, info: ValidationInfo) -> Any:
        """Objects that were given as dicts become objects, so that what `from_dict` restores equals what was stored."""
        return _READERS[info.field_name](value) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _check_room(self) -> Self:
        window = self._known_window()
        if window is not None:
            self._num_output(window)
        return self

    @property
    @override
    def metadata(self) -> LLMMetadata:
        """The window is the large model's; models that lie in no folder here are loaded to know it."""
        window = self._known_window() or self._open().backends["large"].capabilities.context_window
        return LLMMetadata(
            context_window=window,
            num_output=self._num_output(window),
            is_chat_model=True,
            is_function_calling_model=self.is_function_calling_model,
            model_name=self.names.model,
        )

    def _known_window(self) -> int | None:
        if self.engine is not None:
            return self.engine.backends["large"].capabilities.context_window
        return None if self.large is None else window_before_loading(self.large, self.large_options)

    def _num_output(self, window: int) -> int:
        if self.max_tokens is None:
            return min(MOST_OUTPUT, window // 4)
        if self.max_tokens >= window:
            raise ConfigError(f"max_tokens={self.max_tokens} leaves no room for a prompt in the window of {window} tokens: make it smaller")
        return self.max_tokens

    # --- the eight methods. Each tells LlamaIndex's callbacks once: none calls another one.

    @llm_chat_callback()
    @override
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answers a conversation."""
        return self._answer(read_call(self, messages, kwargs), copy_context())

    @llm_completion_callback()
    @override
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answers a prompt; `formatted` says that `completion_to_prompt` has been applied."""
        return to_completion(self._answer(self._read_prompt(prompt, formatted, kwargs), copy_context()))

    @llm_chat_callback()
    @override
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """As `chat`; the event loop stays free."""
        return await self._aanswer(read_call(self, messages, kwargs), copy_context())

    @llm_completion_callback()
    @override
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """As `complete`; the event loop stays free."""
        return to_completion(await self._aanswer(self._read_prompt(prompt, formatted, kwargs), copy_context()))

    @override
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """As `chat`, in responses that each hold all so far. Leaving it early stops the running model."""
        responses = self._responses(read_call(self, messages, kwargs), copy_context())
        return owned(llm_chat_callback()(lambda _self, _messages, **_: responses)(self, messages, **kwargs), responses)

    @override
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """As `complete`, in responses that each hold all so far. Leaving it early stops the running model."""
        responses = _completions(self._responses(self._read_prompt(prompt, formatted, kwargs), copy_context()))
        return owned(llm_completion_callback()(lambda _self, _prompt, **_: responses)(self, prompt, **kwargs), responses)

    @override
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """As `stream_chat`, for async code."""
        responses = self._aresponses(read_call(self, messages, kwargs), copy_context())

        async def begin(_self: Self, _messages: Sequence[ChatMessage], **_: Any) -> ChatResponseAsyncGen:
            return responses

        return aowned(await llm_chat_callback()(begin)(self, messages, **kwargs), responses)

    @override
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """As `stream_complete`, for async code."""
        responses = _acompletions(self._aresponses(self._read_prompt(prompt, formatted, kwargs), copy_context()))

        async def begin(_self: Self, _prompt: str, **_: Any) -> CompletionResponseAsyncGen:
            return responses

        return aowned(await llm_completion_callback()(begin)(self, prompt, **kwargs), responses)

    # --- tools

    @override
    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        messages = list(chat_history or [])
        if user_msg is not None:
            messages.append(ChatMessage(role=MessageRole.USER, content=user_msg) if isinstance(user_msg, str) else user_msg)
        prepared: dict[str, Any] = {"messages": messages, **kwargs}
        if not tools:
            return prepared
        prepared |= {"tools": read_tools(tools), "parallel_tool_calls": allow_parallel_tool_calls}
        if tool_required and kwargs.get("tool_choice") in (None, "auto"):
            prepared["tool_choice"] = "required"
        return prepared

    @override
    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The tool calls of a response; of one that is still streaming, as far as they go.

        Raises:
            ValueError: There is none, and `error_on_no_tool_call`.
        """
        calls = selections(response)
        if not calls and error_on_no_tool_call:
            raise ValueError(why_no_call(response))
        return calls

    @override
    def predict_and_call(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        **kwargs: Any,
    ) -> AgentChatResponse:
        """Lets the model call tools once, and returns what they return."""
        if not self.is_function_calling_model:
            return asyncio_run(react_step(self, tools, user_msg, chat_history, verbose=verbose, **kwargs))
        return super().predict_and_call(list(tools), user_msg=user_msg, chat_history=chat_history, verbose=verbose, **kwargs)

    @override
    async def apredict_and_call(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        **kwargs: Any,
    ) -> AgentChatResponse:
        """As `predict_and_call`, for async code."""
        if not self.is_function_calling_model:
            return await react_step(self, tools, user_msg, chat_history, verbose=verbose, **kwargs)
        return await super().apredict_and_call(list(tools), user_msg=user_msg, chat_history=chat_history, verbose=verbose, **kwargs)

    @override
    def _structured_stream_call(
        self, output_cls: type[Any], prompt: PromptTemplate, llm_kwargs: dict[str, Any] | None = None, **prompt_args: Any
    ) -> Generator[Any, None, None]:
        objects: Generator[Any, None, None] = streaming_program(self, output_cls, prompt).stream_call(llm_kwargs=llm_kwargs, **prompt_args)
        return objects

    @override
    async def _structured_astream_call(
        self, output_cls: type[Any], prompt: PromptTemplate, llm_kwargs: dict[str, Any] | None = None, **prompt_args: Any
    ) -> AsyncGenerator[Any, None]:
        program = streaming_program(self, output_cls, prompt)
        objects: AsyncGenerator[Any, None] = await program.astream_call(llm_kwargs=llm_kwargs, **prompt_args)
        return objects

    # --- generations

    def _read_prompt(self, prompt: str, formatted: bool, kwargs: Mapping[str, Any]) -> Call:
        text = prompt if formatted or self.completion_to_prompt is None else self.completion_to_prompt(prompt)
        return read_call(self, [ChatMessage(role=MessageRole.USER, content=text)], kwargs)

    def _teller(self, call: Call, context: Context) -> Teller:
        about = {"model": call.reporter.model, "large": call.reporter.large, "small": call.reporter.small, "policy": call.reporter.policy}
        return Teller(context, about, SegmentTrace(self.trace_segments, self.max_segments))

    def _answer(self, call: Call, context: Context) -> ChatResponse:
        teller = self._teller(call, context)
        with teller, call.stream(self._open()) as events:
            for event in events:
                teller.tell(event)
        return ResponseWriter(call.reporter).last(events.result.choices[0])

    async def _aanswer(self, call: Call, context: Context) -> ChatResponse:
        teller = self._teller(call, context)
        with teller:
            async with call.astream(await self._aopen()) as events:
                async for event in events:
                    teller.tell(event)
        return ResponseWriter(call.reporter).last(events.result.choices[0])

    def _responses(self, call: Call, context: Context) -> ChatResponseGen:
        teller, writer = self._teller(call, context), ResponseWriter(call.reporter)
        with teller, call.stream(self._open()) as events:
            for event in events:
                teller.tell(event)
                response = writer.write(event)
                if response is not None:
                    yield response
        yield writer.last(events.result.choices[0])

    async def _aresponses(self, call: Call, context: Context) -> ChatResponseAsyncGen:
        teller, writer = self._teller(call, context), ResponseWriter(call.reporter)
        with teller:
            async with call.astream(await self._aopen()) as events:
                async for event in events:
                    teller.tell(event)
                    response = writer.write(event)
                    if response is not None:
                        yield response
        yield writer.last(events.result.choices[0])


def _completions(responses: Generator[ChatResponse, None, None]) -> CompletionResponseGen:
    with closing(responses):
        for response in responses:
            yield to_completion(response)


async def _acompletions(responses: AsyncGenerator[ChatResponse, None]) -> CompletionResponseAsyncGen:
    async with aclosing(responses):
        async for response in responses:
            yield to_completion(response)
