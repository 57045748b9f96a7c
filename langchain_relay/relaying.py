"""A generation under way: the engine's events, and the callback handlers that are told of them as they pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Hashable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    CallbackManager,
    CallbackManagerForChainRun,
)

from langchain_relay.run_scope import Manager, RunScope
from relay_integrations import AsyncRelayStream, Event, RelayResult, RelayStream
from relay_integrations.adapter.segment_trace import HANDOFF_EVENT, Announced, Begun, Ended, SegmentTrace, Step


class Relaying:
    """The events of a synchronous generation; a context manager that ends it, and the runs it has open, whatever happens.

    Args:
        events: The engine's stream.
        scope: The LLM run that it belongs to; None where nobody listens.
        trace: Says what the handlers are told.
    """

    def __init__(self, events: RelayStream, scope: RunScope | None, trace: SegmentTrace) -> None:
        self._events = events
        self._teller = None if scope is None or not scope.heard else _Teller(scope)
        self._trace = trace
        if scope is not None:
            scope.running = self

    @property
    def result(self) -> RelayResult:
        """The fold of what was read."""
        return self._events.result

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = next(self._events)
        if self._teller is not None:
            self._teller.tell(self._trace.take(event))
        return event

    def close(self, error: BaseException) -> None:
        """Stops the generation; runs that are open end with the error. May be called twice."""
        try:
            self._events.close()
        finally:
            if self._teller is not None:
                self._teller.tell(self._trace.end(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(error or GeneratorExit())


class AsyncRelaying:
    """As `Relaying`, for async code."""

    def __init__(self, events: AsyncRelayStream, scope: RunScope | None, trace: SegmentTrace) -> None:
        self._events = events
        self._teller = None if scope is None or not scope.heard else _AsyncTeller(scope)
        self._trace = trace
        if scope is not None:
            scope.running_async = self

    @property
    def result(self) -> RelayResult:
        """The fold of what was read."""
        return self._events.result

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        if self._teller is not None:
            await self._teller.tell(self._trace.take(event))
        return event

    async def aclose(self, error: BaseException) -> None:
        """Stops the generation; runs that are open end with the error. May be called twice."""
        try:
            await self._events.aclose()
        finally:
            if self._teller is not None:
                await self._teller.tell(self._trace.end(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose(error or GeneratorExit())


class _Teller:
    """Tells the callback handlers of one LLM run."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self._events = scope.for_events(CallbackManager)
        self._runs: dict[Hashable, CallbackManagerForChainRun] = {}

    def tell(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Announced):
                self._events.on_custom_event(HANDOFF_EVENT, step.data, run_id=self._scope.run_id)
            elif isinstance(step, Begun):
                children = _dressed(self._scope.for_children(CallbackManager), step)
                self._runs[step.key] = children.on_chain_start(None, step.inputs, name=step.name)
            elif (run := self._runs.pop(step.key, None)) is None:
                pass  # a handler raised when it was told of the beginning
            elif isinstance(step, Ended):
                run.on_chain_end(step.outputs)
            else:
                run.on_chain_error(step.error)


class _AsyncTeller:
    """As `_Teller`, for async code."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self._events = scope.for_events(AsyncCallbackManager)
        self._runs: dict[Hashable, AsyncCallbackManagerForChainRun] = {}

    async def tell(self, steps: Sequence[Step]) -> None:
        if steps:
            await _to_its_end(self._tell(steps))

    async def _tell(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Announced):
                await self._events.on_custom_event(HANDOFF_EVENT, step.data, run_id=self._scope.run_id)
            elif isinstance(step, Begun):
                children = _dressed(self._scope.for_children(AsyncCallbackManager), step)
                self._runs[step.key] = await children.on_chain_start(None, step.inputs, name=step.name)
            elif (run := self._runs.pop(step.key, None)) is None:
                pass  # a handler raised when it was told of the beginning
            elif isinstance(step, Ended):
                await run.on_chain_end(step.outputs)
            else:
                await run.on_chain_error(step.error)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Awaits; a cancellation waits too. Else a handler could hear of a run's beginning, or not, and never of its end."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # is of a handler; the cancellation says enough
        raise


def _dressed(manager: Manager, step: Begun) -> Manager:
    """A manager with what is said of the run that it is about to start."""
    manager.add_tags([step.name, "nostream"], inherit=False)  # `nostream`: nothing in it is a message of LangGraph's
    manager.add_metadata(step.metadata, inherit=False)
    return manager
