"""A span of our own in LlamaIndex's traces.

The span of a streaming method closes when its generator is handed out, and what the generator then does runs in its reader's context,
with the reader's spans. So a span of ours lives in a copy of the context of the call: it has the right parent and tags, and nothing of
it leaks to the reader.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping
from contextvars import Context
from typing import Any

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import active_instrument_tags
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span import active_span_id

dispatcher = get_dispatcher("llamaindex_relay")


def _about(relay: Mapping[str, Any]) -> None:
    """Has the signature that span handlers are shown."""


_SIGNATURE = inspect.signature(_about)


class Span:
    """Opens a span; `exit` or `drop` closes it, whichever comes first.

    Args:
        name: Shown in traces.
        about: What it was opened with.
        context: Of the call, or of the span around it; it is copied.
        tags: For span handlers, beside those that the caller's `instrument_tags` sets.
    """

    def __init__(self, name: str, about: Mapping[str, Any], context: Context, tags: Mapping[str, Any] | None = None) -> None:
        self.context = context.copy()
        self._id = f"{name}-{uuid.uuid4()}"
        self._arguments = _SIGNATURE.bind(relay=dict(about))
        self._open = True
        parent = context.run(active_span_id.get)
        shown = {**context.run(active_instrument_tags.get), **(tags or {})}
        self.context.run(
            dispatcher.span_enter,
            id_=self._id,
            bound_args=self._arguments,
            instance=None,
            parent_id=parent,
            tags=shown,
        )
        self.context.run(active_span_id.set, self._id)

    def event(self, kind: type[BaseEvent], fields: Mapping[str, Any]) -> None:
        """Tells event handlers of something within the span."""
        self.context.run(lambda: dispatcher.event(kind(**fields)))

    def exit(self, result: Mapping[str, Any]) -> None:
        """It has ended."""
        if self._close():
            self.context.run(dispatcher.span_exit, id_=self._id, bound_args=self._arguments, instance=None, result=dict(result))

    def drop(self, error: BaseException) -> None:
        """It has ended by an error."""
        if self._close():
            self.context.run(dispatcher.span_drop, id_=self._id, bound_args=self._arguments, instance=None, err=error)

    def _close(self) -> bool:
        was_open, self._open = self._open, False
        return was_open
