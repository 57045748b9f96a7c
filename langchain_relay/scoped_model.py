"""A chat model whose generations know the LLM run that they belong to. See `run_scope` for why core alone does not tell them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForLLMRun,
    BaseRunManager,
    CallbackManager,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatResult, LLMResult
from langchain_core.runnables import RunnableConfig
from typing_extensions import override

from langchain_relay.run_scope import RunScope, beginning, current_scope, open_run


def scope_of(run_manager: BaseRunManager | None) -> RunScope | None:
    """The scope of the run that a generation belongs to: its own manager's, else that of the run which begins here."""
    current = current_scope()
    if run_manager is None or (current is not None and current.run_id == run_manager.run_id):
        return current
    return RunScope.of(run_manager, run_manager.run_id)


class ScopedChatModel(BaseChatModel):
    """Keeps a scope while `_stream`, `_generate` and their async twins begin, and closes what runs in it when the run ends early."""

    @override
    def stream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, *, stop: list[str] | None = None, **kwargs: Any
    ) -> Iterator[AIMessageChunk]:
        """As in `BaseChatModel`; leaving it early stops the running model, and ends all runs."""
        config, scope = open_run(self, config, CallbackManager)
        chunks = super().stream(input, config, stop=stop, **kwargs)
        try:
            with beginning(scope):
                chunk = next(chunks, None)
            while chunk is not None:
                yield chunk
                chunk = next(chunks, None)
        except BaseException as e:
            scope.close(e)
            raise
        finally:
            chunks.close()  # type: ignore[attr-defined]  # a generator

    @override
    async def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, *, stop: list[str] | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:
        """As `stream`, for async code."""
        config, scope = open_run(self, config, AsyncCallbackManager)
        async with aclosing(super().astream(input, config, stop=stop, **kwargs)) as chunks:  # type: ignore[type-var]
            try:
                with beginning(scope):
                    chunk = await anext(chunks, None)
                while chunk is not None:
                    yield chunk
                    chunk = await anext(chunks, None)
            except BaseException as e:
                await scope.aclose(e)
                raise

    @override
    def _generate_with_cache(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        scope = None if run_manager is None else scope_of(run_manager)
        with beginning(scope):
            try:
                return super()._generate_with_cache(messages, stop=stop, run_manager=run_manager, **self.run_arguments(kwargs))
            except BaseException as e:
                if scope is not None:
                    scope.close(e)
                raise

    @override
    async def _agenerate_with_cache(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        scope = None if run_manager is None else scope_of(run_manager)
        with beginning(scope):
            try:
                return await super()._agenerate_with_cache(messages, stop=stop, run_manager=run_manager, **self.run_arguments(kwargs))
            except asyncio.CancelledError as e:
                # Core reports every error but this one, and the run would seem to go on for ever.
                if scope is not None and run_manager is not None:
                    with suppress(Exception):  # of a handler: the cancellation must come through
                        await scope.aclose(e)
                        await run_manager.on_llm_error(e, response=LLMResult(generations=[]))
                raise
            except BaseException as e:
                if scope is not None:
                    await scope.aclose(e)
                raise

    def run_arguments(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a run, before core looks at them. For subclasses."""
        return kwargs
