"""Tells LlamaIndex's handlers of a generation, event by event: a span for all of it, spans of segments within, and handoffs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextvars import Context
from types import TracebackType
from typing import Any, Self

from llamaindex_relay.events import RelayHandoffEvent, RelaySegmentEndEvent, RelaySegmentStartEvent
from llamaindex_relay.span import Span
from relay_integrations import Event, RelayFinished, SegmentFinished, SegmentStarted
from relay_integrations.adapter.segment_trace import Announced, Begun, Ended, SegmentTrace, Step


class Teller:
    """Opens the span `relay` at the first event. A context manager that closes all that an error leaves open.

    Args:
        context: Of the call that the generation belongs to.
        about: What the span `relay` is opened with.
        trace: Says which segments have spans.
    """

    def __init__(self, context: Context, about: Mapping[str, Any], trace: SegmentTrace) -> None:
        self._context = context
        self._about = about
        self._trace = trace
        self._relay: Span | None = None
        self._spans: dict[Hashable, Span] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self.end(error)

    def tell(self, event: Event) -> None:
        """Takes the next event."""
        relay = self._relay = self._relay or Span("relay", self._about, self._context)
        for step in self._trace.take(event):
            self._take(relay, step)
        if isinstance(event, SegmentStarted):
            relay.event(RelaySegmentStartEvent, _started(event))
        elif isinstance(event, SegmentFinished):
            relay.event(RelaySegmentEndEvent, _finished(event))
        elif isinstance(event, RelayFinished):
            relay.exit({"finish_reason": event.finish_reason, **event.usage.to_dict()})

    def end(self, error: BaseException) -> None:
        """The generation ended early. A reader who leaves is no error; all else is."""
        left = isinstance(error, GeneratorExit)
        for key in [step.key for step in self._trace.end(error) if not isinstance(step, Announced)]:
            self._close(self._spans.pop(key), error, left)
        if self._relay is not None:
            self._close(self._relay, error, left)

    def _take(self, relay: Span, step: Step) -> None:
        if isinstance(step, Announced):
            relay.event(RelayHandoffEvent, _handoff(step.data))
        elif isinstance(step, Begun):
            about = {**step.inputs, **step.metadata}
            self._spans[step.key] = Span(step.name, about, relay.context, tags=step.metadata)
        elif isinstance(step, Ended):
            self._spans.pop(step.key).exit(step.outputs)
        else:
            self._spans.pop(step.key).drop(step.error)

    @staticmethod
    def _close(span: Span, error: BaseException, left: bool) -> None:
        if left:
            span.exit({"finish_reason": "left by its reader"})
        else:
            span.drop(error)


def _handoff(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "index": data["index"],
        "from_role": data["from"],
        "to_role": data["to"],
        "from_model": data["from_model"],
        "to_model": data["to_model"],
        "reason": data["reason"],
        "cue": data["cue"],
        "tokens_so_far": data["position"],
        "elapsed_s": data["elapsed"],
    }


def _started(event: SegmentStarted) -> dict[str, Any]:
    return {
        "index": event.index,
        "role": event.role,
        "model": event.model,
        "reason": event.reason,
        "tokens_so_far": event.position,
        "elapsed_s": event.time,
    }


def _finished(event: SegmentFinished) -> dict[str, Any]:
    return {
        "index": event.index,
        "role": event.role,
        "model": event.model,
        "cause": event.cause,
        "cue": event.cue,
        "tokens": event.tokens,
        "duration_s": event.duration,
        "elapsed_s": event.time,
        "error": event.error,
    }
