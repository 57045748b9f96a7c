"""What LlamaIndex's event handlers are told of a relay. Fields are plain values, so that every exporter can write them."""

from __future__ import annotations

from llama_index.core.instrumentation.events import BaseEvent


class RelayHandoffEvent(BaseEvent):
    """One model handed over to the other.

    Attributes:
        index: Number of the handoff within the answer, from 0.
        from_role, to_role: "large" or "small".
        from_model, to_model: Their models' names.
        reason: Why, e.g. "cue" or "sentence_end".
        cue: The switch cue, where the reason is one.
        tokens_so_far: Output tokens before it.
        elapsed_s: Seconds since the request began.
    """

    index: int
    from_role: str
    to_role: str
    from_model: str
    to_model: str
    reason: str
    cue: str | None = None
    tokens_so_far: int
    elapsed_s: float

    @classmethod
    def class_name(cls) -> str:
        """Name of the event."""
        return "RelayHandoffEvent"


class RelaySegmentStartEvent(BaseEvent):
    """A model begins to write.

    Attributes:
        index: Number of the segment within the answer, from 0.
        role, model: Who.
        reason: Why, e.g. "start" or "cue".
        tokens_so_far: Output tokens before it.
        elapsed_s: Seconds since the request began.
    """

    index: int
    role: str
    model: str
    reason: str
    tokens_so_far: int
    elapsed_s: float

    @classmethod
    def class_name(cls) -> str:
        """Name of the event."""
        return "RelaySegmentStartEvent"


class RelaySegmentEndEvent(BaseEvent):
    """A model has written its segment.

    Attributes:
        index: Number of the segment within the answer, from 0.
        role, model: Who.
        cause: What ended it, e.g. "cue", "sentence_end", "eos" or "error".
        cue: The switch cue, where that ended it.
        tokens: Output tokens in it.
        duration_s: From its start to its end, in seconds.
        elapsed_s: Seconds since the request began.
        error: What went wrong, where the cause is "error".
    """

    index: int
    role: str
    model: str
    cause: str
    cue: str | None = None
    tokens: int
    duration_s: float
    elapsed_s: float
    error: str | None = None

    @classmethod
    def class_name(cls) -> str:
        """Name of the event."""
        return "RelaySegmentEndEvent"
