"""The events of a generation: the interface that every adapter, trace, bench and the terminal read.

A non-streamed result is the fold of the same events (`relay_integrations.result.fold`), so the two cannot differ.
Order within one choice: `SegmentStarted`, then its deltas, then `SegmentFinished`; `Handoff` stands between two segments;
`ReasoningClosed` stands where the reasoning ends; last comes `RelayFinished` or `RelayFailed`.
Text that is held back at a seam delays the events behind it, so this order always holds.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from relay_integrations.errors import ConfigError
from relay_integrations.roles import Channel, FinishReason, HandoffReason, Role, SegmentEndCause

SCHEMA_VERSION = 1
"""Grows when a reader of older events would misread newer ones."""


@dataclass(slots=True)
class Usage:
    """What a generation used. Token counts are of kept output tokens unless said otherwise.

    Attributes:
        prompt_tokens: Tokens of the rendered prompt, once, in the leader's vocabulary.
        completion_tokens: Output tokens by both roles, the final end-of-sequence token included.
        reasoning_tokens: Output tokens up to and including the closing think tag.
        large_tokens: Output tokens by the large model.
        small_tokens: Output tokens by the small model.
        forced_tokens: Tokens that no model wrote (a closing tag that was forced); in no other count.
        discarded_tokens: Tokens generated and dropped again (look-ahead at a sentence end, a rolled-back EOS, the free beginning of
            an answer that has to follow a schema).
        handoffs: Number of handoffs by reason.
        requests: Requests to either backend.
        sent_tokens: Prompt tokens sent over all requests.
        cached_tokens: Those of them that a prefix cache already held; None where a backend does not say.
        flops: 2 x parameters x generated tokens over both models; None where a parameter count is unknown.
        cost: In the currency of the prices given to the engine; None without prices.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    large_tokens: int = 0
    small_tokens: int = 0
    forced_tokens: int = 0
    discarded_tokens: int = 0
    handoffs: dict[str, int] = dataclasses.field(default_factory=dict)
    requests: int = 0
    sent_tokens: int = 0
    cached_tokens: int | None = None
    flops: float | None = None
    cost: float | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def utilisation(self) -> float | None:
        """Share of the output tokens that the large model wrote, 0 to 1; None without output."""
        return self.large_tokens / self.completion_tokens if self.completion_tokens else None

    def to_dict(self) -> dict[str, Any]:
        """All fields and the derived ones, JSON-ready."""
        return {**dataclasses.asdict(self), "total_tokens": self.total_tokens, "utilisation": self.utilisation}


@dataclass(slots=True, kw_only=True)
class Event:
    """Base of all events.

    Attributes:
        choice: Which of the `n` choices the event belongs to, from 0.
        time: Seconds since the start of the generation, when the event happened.
    """

    type: ClassVar[str] = "event"
    choice: int = 0
    time: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with `type` and `schema_version`; always a fresh dict."""
        data: dict[str, Any] = {"type": self.type, "schema_version": SCHEMA_VERSION}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            data[f.name] = value.to_dict() if isinstance(value, Usage) else list(value) if isinstance(value, tuple) else value
        return data


@dataclass(slots=True, kw_only=True)
class SegmentStarted(Event):
    """A role begins to write.

    Attributes:
        position: Number of output tokens before it.
        detail: Why it goes on alone, in words, where the reason is "fallback".
    """

    type: ClassVar[str] = "segment_started"
    index: int
    role: Role
    model: str
    reason: HandoffReason
    position: int
    detail: str | None = None


@dataclass(slots=True, kw_only=True)
class TextDelta(Event):
    """Text for the user: never a think tag, a command, a tool call's markup, a stop sequence or part of a character."""

    type: ClassVar[str] = "text_delta"
    text: str
    channel: Channel
    role: Role
    segment: int


@dataclass(slots=True, kw_only=True)
class ToolCallDelta(Event):
    """A piece of a tool call. The first one of a call carries `id` and `name` with empty `arguments`.

    `arguments` pieces are joined to JSON text, complete only when the run has ended. `valid` is None while the call is
    being written; the last delta of a call says whether its arguments are a JSON object.
    """

    type: ClassVar[str] = "tool_call_delta"
    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    valid: bool | None = None
    role: Role
    segment: int


@dataclass(slots=True, kw_only=True)
class ReasoningClosed(Event):
    """The reasoning has ended: closed by a role, or by force.

    Attributes:
        by: The role; "budget" where `reasoning_budget` was spent; "constraint" where a model ended its turn in the reasoning and an
            answer is owed that follows a tool choice or a response format.
    """

    type: ClassVar[str] = "reasoning_closed"
    by: Role | Literal["budget", "constraint"]
    position: int


@dataclass(slots=True, kw_only=True)
class Handoff(Event):
    """The change of role between two segments. `index` counts handoffs from 0; `position` is in output tokens."""

    type: ClassVar[str] = "handoff"
    index: int
    from_role: Role
    to_role: Role
    from_model: str
    to_model: str
    reason: HandoffReason
    cue: str | None = None
    position: int


@dataclass(slots=True, kw_only=True)
class SegmentFinished(Event):
    """A role has stopped writing.

    Attributes:
        cause: Why it ended; `error` says the message of a backend's failure where the cause is "error".
        text: The segment's raw text, tags and tool-call markup included, without tokens that were dropped.
        ids: Its kept token ids, in the writing model's vocabulary.
        tokens: How many are kept; `discarded` were generated and dropped.
        requests: Requests that the segment took (more than one after a retry or a server's false stop).
        sent_tokens: Prompt tokens sent over these requests; `cached_tokens` of them were cached (None: unknown).
        time_to_first_token: Seconds from the first request to the first chunk; None if none came.
        duration: Seconds from start to end of the segment.
    """

    type: ClassVar[str] = "segment_finished"
    index: int
    role: Role
    model: str
    reason: HandoffReason
    cause: SegmentEndCause
    cue: str | None = None
    text: str
    ids: tuple[int, ...]
    tokens: int
    discarded: int = 0
    requests: int = 1
    sent_tokens: int = 0
    cached_tokens: int | None = None
    time_to_first_token: float | None = None
    duration: float = 0.0
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class RelayFinished(Event):
    """The choice is complete.

    Attributes:
        finish_reason: "stop" (end of sequence or a stop sequence), "length" or "tool_calls".
        stop_sequence: The user's stop sequence that ended the run, if one did.
        usage: Of this choice; `prompt_tokens` is the same for each choice of one request.
        seed: The seed that repeats this generation.
    """

    type: ClassVar[str] = "relay_finished"
    finish_reason: FinishReason
    stop_sequence: str | None = None
    usage: Usage
    seed: int


@dataclass(slots=True, kw_only=True)
class RelayFailed(Event):
    """The choice ended early: a failure that the rules did not bridge, or a cancellation. The deltas before it stand."""

    type: ClassVar[str] = "relay_failed"
    finish_reason: FinishReason
    error: str
    usage: Usage
    seed: int


EVENT_TYPES: dict[str, type[Event]] = {
    cls.type: cls
    for cls in (SegmentStarted, TextDelta, ToolCallDelta, ReasoningClosed, Handoff, SegmentFinished, RelayFinished, RelayFailed)
}


def event_from_dict(data: dict[str, Any]) -> Event:
    """Rebuilds an event from `Event.to_dict()`, e.g. from a line of `relay run --json`.

    Raises:
        ConfigError: The type or the schema version is unknown, or a field is missing.
    """
    cls = EVENT_TYPES.get(str(data.get("type")))
    if cls is None:
        raise ConfigError(f"unknown event type {data.get('type')!r}; known: {', '.join(EVENT_TYPES)}")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise ConfigError(f"event has schema_version {data.get('schema_version')!r}, this release reads {SCHEMA_VERSION}")
    names = {f.name for f in dataclasses.fields(cls)}
    fields = {k: v for k, v in data.items() if k in names}
    if isinstance(fields.get("usage"), dict):
        known = {f.name for f in dataclasses.fields(Usage)}
        fields["usage"] = Usage(**{k: v for k, v in fields["usage"].items() if k in known})
    if "ids" in fields:
        fields["ids"] = tuple(fields["ids"])
    try:
        return cls(**fields)
    except TypeError as e:
        raise ConfigError(f"event {cls.type!r} cannot be read: {e}") from e
