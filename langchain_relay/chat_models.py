"""ChatRelay: two models that take turns, as one LangChain chat model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from typing_extensions import override

from langchain_relay.call import answers, read_call
from langchain_relay.chunks import ChunkWriter, to_chat_result
from langchain_relay.fields import ChatFields
from langchain_relay.identity import identity
from langchain_relay.messages import to_relay
from langchain_relay.metadata import PROVIDER
from langchain_relay.relaying import AsyncRelaying, Relaying
from langchain_relay.run_scope import RunScope, current_scope
from langchain_relay.scoped_model import scope_of
from langchain_relay.structured_output import Method, Schema, structured
from langchain_relay.tools import ToolLike, read_tool_choice, read_tools
from relay_integrations import ConfigError, MessageError
from relay_integrations.adapter.call import Call
from relay_integrations.adapter.segment_trace import SegmentTrace
from relay_integrations.tiny import LARGE, SMALL


class ChatRelay(ChatFields):
    """A large and a small model that take turns inside one generation, as one chat model.

    The models are loaded at the first use, or by `engine`. Copies (`bind`, `bind_tools`, `with_config`, `model_copy`,
    `configurable_fields`) share one engine.

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
            seed, stop, n, reasoning, template_options, large_token_budget, reasoning_budget: As in `RequestOptions`; each call may say
            otherwise, by keyword arguments of the same names.
        model_kwargs: Further request options.
        streaming: Whether `invoke` streams to callback handlers.
        trace_segments: What traces show within a run of this model: "summary" (default): one run for each of the two models, from its
            first segment to the end of the answer; "all": one for each segment; "none". They are of type `chain`.
        max_segments: How many such runs there are at most, and how many segments `response_metadata["relay"]` lists.
        profile: What LangChain is told of the model's abilities; filled in as far as it is known before loading.

    Per call, `policy=…` runs another policy, as does `model="…"` by its name (`model="large-only"`) or by that of one of the two models,
    which then runs alone. Handoffs are custom events of the name `relay_handoff`. Reasoning is in
    `additional_kwargs["reasoning_content"]`, or in blocks of its own with `output_version="v1"`; figures are in
    `response_metadata["relay"]`. A forced tool call and JSON output need backends that can constrain what they write; others raise
    `NotSupported`.
    """

    @classmethod
    def tiny(cls, *, small: str = SMALL, **settings: Any) -> Self:
        """The trained tiny pair that ships with relay, for trying things out. Needs the extra `transformers`."""
        return cls(large=LARGE, small=small, backend="transformers", **settings)

    @property
    def _llm_type(self) -> str:
        return "relay-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return identity(self)

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        own = [self.stop] if isinstance(self.stop, str) else self.stop
        params = super()._get_ls_params(stop=own if stop is None else stop, **kwargs)
        params["ls_provider"] = PROVIDER
        params["ls_model_name"] = self._reported_name(kwargs.get("model"), kwargs.get("policy"))
        return params

    def _reported_name(self, model: Any, policy: Any) -> str:
        try:
            return self.names.of_policy(self.read_policy(model, policy)[0])
        except ConfigError:  # the call itself will say what is wrong with it
            return model if isinstance(model, str) else self.names.model

    @override
    def get_token_ids(self, text: str) -> list[int]:
        """The large model's ids of a text."""
        return self.custom_get_token_ids(text) if self.custom_get_token_ids is not None else self._open().encode(text)

    @override
    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Sequence[ToolLike] | None = None) -> int:
        """How many tokens the large model reads for a conversation, by its own template, with the start of its answer.

        What the template refuses, part of a conversation say, is counted as plain text.
        """
        if self.custom_get_token_ids is not None or not messages:
            return super().get_num_tokens_from_messages(messages, tools)
        engine, read = self._open(), read_tools(tools or ())
        try:
            ids = engine.prompt_ids(to_relay(messages), tools=read, reasoning=self.reasoning, template_options=self.template_options)
        except MessageError:
            return super().get_num_tokens_from_messages(messages)
        return len(ids)

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Binds tools that the model may call.

        Args:
            tools: Anything that LangChain takes for a tool; an empty list binds none.
            tool_choice: "auto"; "none"; "any", "required" or True (some call); or a tool's name. All but the first two need backends
                that can constrain their output.
            strict: Goes into the tools' definitions, which the model is shown. Only forced calls are held to their schemas.
            parallel_tool_calls: Whether there may be several calls in one answer.
            **kwargs: Further arguments of each call.

        Raises:
            ConfigError: `tool_choice` names no tool that is bound.
        """
        read = read_tools(tools, strict)
        choice = read_tool_choice(tool_choice, read)
        if choice is not None:
            kwargs["tool_choice"] = choice
        if parallel_tool_calls is not None:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        return self.bind(tools=read, **kwargs)

    @override
    def with_structured_output(
        self,
        schema: Schema | None = None,
        *,
        method: Method = "function_calling",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """A model that answers in the form of a schema. Needs backends that can constrain their output.

        Args:
            schema: A Pydantic class (of either version), whose instances come out; a TypedDict or a JSON schema, for what they describe.
                Arguments of a call are an object; with "json_schema" it may be a schema of anything.
            method: "function_calling": a forced call of a tool with these arguments. "json_schema": JSON that follows the schema, after
                any reasoning. "json_mode": any JSON object; the messages must say of what form.
            include_raw: Whether to return `{"raw": message, "parsed": …, "parsing_error": …}` and raise no error of the parser.
            strict: Goes into the tool or the format; not with "json_mode".
            **kwargs: Further arguments of each call.

        Raises:
            ConfigError: These arguments do not go together.
        """
        return structured(self, schema, method, include_raw=include_raw, strict=strict, **kwargs)

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call, scope = read_call(self, messages, stop, kwargs, streamed=False), scope_of(run_manager)
        if scope is None or not scope.heard:
            return to_chat_result(call.generate(self._open()), call.reporter)
        with self._relay(call, scope) as events:
            for _ in events:
                pass
            return to_chat_result(events.result, call.reporter)

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call, scope = read_call(self, messages, stop, kwargs, streamed=False), scope_of(run_manager)
        if scope is None or not scope.heard:
            return to_chat_result(await call.agenerate(await self._aopen()), call.reporter)
        async with await self._arelay(call, scope) as events:
            async for _ in events:
                pass
            return to_chat_result(events.result, call.reporter)

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call, scope = read_call(self, messages, stop, kwargs, streamed=True), scope_of(run_manager)
        writer, nobody_watches = ChunkWriter(blocks=self.output_version == "v1"), scope is not current_scope()
        try:
            with self._relay(call, scope) as events:
                for event in events:
                    chunk = writer.write(event)
                    if chunk is not None:
                        if run_manager is not None:
                            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk
                last = writer.last(events.result.choices[0], call.reporter)
            if run_manager is not None:
                run_manager.on_llm_new_token("", chunk=last)
            yield last
        except GeneratorExit as e:
            if run_manager is not None and nobody_watches:  # a stream of protocol v3 was dropped, and core does not notice
                run_manager.on_llm_error(e, response=LLMResult(generations=[]))
            raise

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        call, scope = read_call(self, messages, stop, kwargs, streamed=True), scope_of(run_manager)
        writer = ChunkWriter(blocks=self.output_version == "v1")
        async with await self._arelay(call, scope) as events:
            async for event in events:
                chunk = writer.write(event)
                if chunk is not None:
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            last = writer.last(events.result.choices[0], call.reporter)
        if run_manager is not None:
            await run_manager.on_llm_new_token("", chunk=last)
        yield last

    def run_arguments(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keeps core from streaming where several answers are asked for: a stream has room for one."""
        return kwargs if answers(self, kwargs) == 1 else {**kwargs, "stream": False}

    def _relay(self, call: Call, scope: RunScope | None) -> Relaying:
        return Relaying(call.stream(self._open()), scope, SegmentTrace(self.trace_segments, self.max_segments))

    async def _arelay(self, call: Call, scope: RunScope | None) -> AsyncRelaying:
        return AsyncRelaying(call.astream(await self._aopen()), scope, SegmentTrace(self.trace_segments, self.max_segments))
