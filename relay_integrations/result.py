"""The result of a generation: the fold of its events, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from relay_integrations.chat.messages import Message, ToolCall
from relay_integrations.events import Event, Handoff, RelayFailed, RelayFinished, SegmentFinished, TextDelta, ToolCallDelta, Usage
from relay_integrations.roles import FinishReason


@dataclass(slots=True)
class RelayChoice:
    """One of the `n` answers.

    Attributes:
        index: Which choice, from 0.
        text: The answer.
        reasoning: The reasoning, "" if there was none.
        tool_calls: Calls in the order written, unreadable ones included (`ToolCall.valid`).
        finish_reason: "stop", "length", "tool_calls"; "error" or "cancelled" where the run broke off; None while it runs.
        stop_sequence: The stop sequence that ended it.
        segments: Who wrote what, in order.
        handoffs: The changes of role between them.
        usage: Of this choice.
        seed: The seed that repeats it.
        error: The message of a failure.
    """

    index: int = 0
    text: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None
    segments: list[SegmentFinished] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    seed: int | None = None
    error: str | None = None

    def to_message(self) -> Message:
        """The assistant message that continues the conversation; the reasoning is handed to the templates to keep or drop."""
        calls = tuple(call for call in self.tool_calls if call.valid)
        return Message(role="assistant", content=self.text, reasoning=self.reasoning or None, tool_calls=calls)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        data["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        data["segments"] = [event.to_dict() for event in self.segments]
        data["handoffs"] = [event.to_dict() for event in self.handoffs]
        data["usage"] = self.usage.to_dict()
        return data


@dataclass(slots=True, repr=False)
class RelayResult:
    """All choices of a request. The short names are those of the first choice."""

    choices: list[RelayChoice]

    def __repr__(self) -> str:
        more = f", n={len(self.choices)}" if len(self.choices) > 1 else ""
        return f"RelayResult(text={self.text!r}, finish_reason={self.finish_reason!r}, utilisation={self.usage.utilisation}{more})"

    @property
    def text(self) -> str:
        """The answer."""
        return self.choices[0].text

    @property
    def reasoning(self) -> str:
        """The reasoning, "" if there was none."""
        return self.choices[0].reasoning

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Tool calls."""
        return self.choices[0].tool_calls

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended."""
        return self.choices[0].finish_reason

    @property
    def stop_sequence(self) -> str | None:
        """The stop sequence that ended it."""
        return self.choices[0].stop_sequence

    @property
    def segments(self) -> list[SegmentFinished]:
        """Who wrote what."""
        return self.choices[0].segments

    @property
    def handoffs(self) -> list[Handoff]:
        """The changes of role."""
        return self.choices[0].handoffs

    @property
    def seed(self) -> int | None:
        """The seed that repeats the request."""
        return self.choices[0].seed

    @property
    def usage(self) -> Usage:
        """Of all choices together; the prompt counts once."""
        return add_usage([choice.usage for choice in self.choices])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"choices": [choice.to_dict() for choice in self.choices], "usage": self.usage.to_dict()}


class Fold:
    """Folds events into a result, one by one."""

    def __init__(self) -> None:
        self._choices: dict[int, RelayChoice] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        self._calls: dict[tuple[int, int], dict[str, str]] = {}

    def add(self, event: Event) -> None:
        """Takes the next event."""
        choice = self._choices.setdefault(event.choice, RelayChoice(index=event.choice))
        match event:
            case TextDelta():
                self._texts.setdefault((event.choice, event.channel), []).append(event.text)
            case ToolCallDelta():
                call = self._calls.setdefault((event.choice, event.index), {"id": "", "name": "", "arguments": ""})
                call["id"] = event.id or call["id"]
                call["name"] += event.name or ""
                call["arguments"] += event.arguments
            case SegmentFinished():
                choice.segments.append(event)
            case Handoff():
                choice.handoffs.append(event)
            case RelayFinished():
                choice.finish_reason, choice.stop_sequence = event.finish_reason, event.stop_sequence
                choice.usage, choice.seed = event.usage, event.seed
            case RelayFailed():
                choice.finish_reason, choice.error = event.finish_reason, event.error
                choice.usage, choice.seed = event.usage, event.seed
            case _:
                pass

    def result(self) -> RelayResult:
        """The result so far; complete once the last event was added."""
        for (index, channel), parts in self._texts.items():
            text = "".join(parts)
            parts[:] = [text]
            if channel == "answer":
                self._choices[index].text = text
            else:
                self._choices[index].reasoning = text
        for choice in self._choices.values():
            calls = sorted((number, call) for (index, number), call in self._calls.items() if index == choice.index)
            choice.tool_calls = [ToolCall(**call) for _, call in calls]
        return RelayResult([self._choices[i] for i in sorted(self._choices)] or [RelayChoice()])


def fold(events: Iterable[Event]) -> RelayResult:
    """Folds a whole stream of events into its result."""
    folded = Fold()
    for event in events:
        folded.add(event)
    return folded.result()


def add_usage(parts: list[Usage]) -> Usage:
    """Sums the usage of choices of one request; the prompt counts once, and what is unknown in one part is unknown in the sum."""
    if len(parts) == 1:
        return parts[0]
    total = Usage(prompt_tokens=max((p.prompt_tokens for p in parts), default=0))
    for name in (
        "completion_tokens",
        "reasoning_tokens",
        "large_tokens",
        "small_tokens",
        "forced_tokens",
        "discarded_tokens",
        "requests",
        "sent_tokens",
    ):
        setattr(total, name, sum(getattr(p, name) for p in parts))
    for name in ("cached_tokens", "flops", "cost"):
        values = [getattr(p, name) for p in parts]
        setattr(total, name, None if any(v is None for v in values) else sum(values))
    for part in parts:
        for reason, count in part.handoffs.items():
            total.handoffs[reason] = total.handoffs.get(reason, 0) + count
    return total
