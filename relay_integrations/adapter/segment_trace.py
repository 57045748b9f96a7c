"""Which runs (or spans) and handoff events the events of a generation make. No I/O: each framework's own code tells its handlers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from relay_integrations.adapter.report import describe_segment
from relay_integrations.errors import BackendError, ConfigError
from relay_integrations.events import Event, Handoff, RelayFinished, SegmentFinished, SegmentStarted

TraceMode = Literal["summary", "all", "none"]

HANDOFF_EVENT = "relay_handoff"

_COUNTED = ("tokens", "discarded", "requests", "sent_tokens")


@dataclass(slots=True)
class Announced:
    """A handoff happened; `data` is for a custom event."""

    data: dict[str, Any]


@dataclass(slots=True)
class Begun:
    """A run begins."""

    key: Hashable
    name: str
    inputs: dict[str, Any]
    metadata: dict[str, Any]


@dataclass(slots=True)
class Ended:
    """A run has ended."""

    key: Hashable
    outputs: dict[str, Any]


@dataclass(slots=True)
class Failed:
    """A run has ended by an error."""

    key: Hashable
    error: BaseException


Step = Announced | Begun | Ended | Failed


@dataclass(slots=True)
class _Share:
    """What one role has written so far of one answer."""

    segments: list[SegmentFinished] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        """What the role broke off with, if it did not come back after that."""
        return self.segments[-1].error if self.segments and self.segments[-1].cause == "error" else None


class SegmentTrace:
    """Turns events into steps.

    Args:
        mode: "all": a run for each segment. "summary": one for each role, from its first segment to the end of the answer. "none": no
            runs. Handoffs are announced in any case.
        max_segments: How many runs there are at most, and how many segments a summary lists.
    """

    def __init__(self, mode: TraceMode, max_segments: int) -> None:
        if mode not in get_args(TraceMode):
            raise ConfigError(f"trace_segments={mode!r} is unknown; there are: {', '.join(get_args(TraceMode))}")
        self._mode = mode
        self._max = max_segments
        self._begun = 0
        self._open: dict[Hashable, None] = {}
        self._shares: dict[tuple[int, str], _Share] = {}

    def take(self, event: Event) -> list[Step]:
        """The steps that an event makes."""
        if isinstance(event, Handoff):
            return [Announced(_describe_handoff(event))]
        if self._mode == "all":
            return self._segment(event)
        return self._summary(event) if self._mode == "summary" else []

    def end(self, error: BaseException) -> list[Step]:
        """The generation broke off: ends what is open."""
        return [self._fail(key, error) for key in list(self._open)]

    def _segment(self, event: Event) -> list[Step]:
        if isinstance(event, SegmentStarted):
            inputs = {"segment": event.index, "reason": event.reason, "position": event.position, "detail": event.detail}
            return self._begin((event.choice, event.index), event, inputs, {"relay_segment": event.index})
        if not isinstance(event, SegmentFinished) or (event.choice, event.index) not in self._open:
            return []
        key = (event.choice, event.index)
        if event.cause in ("error", "cancelled"):
            return [self._fail(key, BackendError(event.error or event.cause))]
        outputs = {"text": event.text, **describe_segment(event), "relay_usage": _sum([event])}
        return [self._end(key, outputs)]

    def _summary(self, event: Event) -> list[Step]:
        if isinstance(event, SegmentStarted) and (event.choice, event.role) not in self._shares:
            self._shares[event.choice, event.role] = _Share()
            return self._begin((event.choice, event.role), event, {"reason": event.reason}, {})
        if isinstance(event, SegmentFinished):
            self._shares[event.choice, event.role].segments.append(event)
        if isinstance(event, RelayFinished):
            return [self._end_share(key) for key in self._shares if key[0] == event.choice and key in self._open]
        return []

    def _end_share(self, key: tuple[int, str]) -> Step:
        share = self._shares[key]
        if share.error is not None:
            return self._fail(key, BackendError(share.error))
        listed = [describe_segment(segment) for segment in share.segments[: self._max]]
        outputs = {
            "text": "\n…\n".join(segment.text for segment in share.segments[: self._max]),
            "segments": listed,
            "segments_left_out": len(share.segments) - len(listed),
            "seconds": sum(segment.duration for segment in share.segments),
            "relay_usage": _sum(share.segments),
        }
        return self._end(key, outputs)

    def _begin(self, key: Hashable, event: SegmentStarted, inputs: dict[str, Any], more: dict[str, Any]) -> list[Step]:
        if self._begun >= self._max:
            return []
        self._begun += 1
        self._open[key] = None
        metadata = {"relay_role": event.role, "relay_model": event.model, "relay_choice": event.choice, "relay_started": event.time, **more}
        return [Begun(key, f"relay:{event.role}", inputs, metadata)]

    def _end(self, key: Hashable, outputs: dict[str, Any]) -> Step:
        del self._open[key]
        return Ended(key, outputs)

    def _fail(self, key: Hashable, error: BaseException) -> Step:
        del self._open[key]
        return Failed(key, error)


def _describe_handoff(event: Handoff) -> dict[str, Any]:
    """A fresh dict: handlers may keep it, and change it."""
    return {
        "index": event.index,
        "choice": event.choice,
        "from": event.from_role,
        "to": event.to_role,
        "from_model": event.from_model,
        "to_model": event.to_model,
        "reason": event.reason,
        "cue": event.cue,
        "position": event.position,
        "elapsed": event.time,
    }


def _sum(segments: list[SegmentFinished]) -> dict[str, Any]:
    """Under a name that no tracer adds up: the message's own usage counts all of it already."""
    cached = [segment.cached_tokens for segment in segments]
    known = [count for count in cached if count is not None]
    sums: dict[str, Any] = {name: sum(getattr(segment, name) for segment in segments) for name in _COUNTED}
    return {**sums, "cached_tokens": sum(known) if len(known) == len(cached) else None}
