"""What the unit tests share: a relay over two scripted backends, and short ways to say what came of it.

The usual pair continues one common text, so whoever writes, the output is that text; a test then asks who wrote which part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from relay_integrations import (
    CueProfile,
    Event,
    Handoff,
    RelayChoice,
    RelayEngine,
    RelayResult,
    RelayStream,
    SegmentFinished,
    SegmentStarted,
    TextDelta,
    ToolCallDelta,
    fold,
)
from relay_integrations.backends.scripted import Reply, Script, ScriptedBackend, Vocabulary
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.policies.base import Plan
from relay_integrations.transcript import Side, Transcript

CUES = ("So", "Thus", "Now")

MATHS = (
    "<think>\nFirst we add 3.5 and 4. So, Mia now has 7.5 coins. Then we go on with it. Thus we know it.\n</think>\n\nThe answer is 7.5."
)
"""A text with two cues, decimals, a word that holds a cue, and an answer."""

MATHS_TURNS = [
    ("large", "<think>\nFirst we add 3.5 and 4. So,"),
    ("small", " Mia now has 7.5 coins."),
    ("large", " Then we go on with it. Thus we"),
    ("small", " know it.\n"),
    ("large", "</think>"),
    ("small", "\n\nThe answer is 7.5."),
]
"""Who writes what of it under RelayGen."""

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}

AnyScript = Script | list[Any] | str


def relay(
    large: AnyScript | ScriptedBackend,
    small: AnyScript | ScriptedBackend | None = None,
    *,
    cues: tuple[str, ...] = CUES,
    **settings: Any,
) -> RelayEngine:
    """An engine over two scripted backends that share a vocabulary; `small` says what `large` says if left out."""
    vocabulary = Vocabulary()
    if small is None:
        assert not isinstance(large, ScriptedBackend), "two roles need two backends"
        small = large
    pair = [
        script if isinstance(script, ScriptedBackend) else ScriptedBackend(script, name=name, vocabulary=vocabulary)
        for name, script in (("big", large), ("tiny", small))
    ]
    if settings.get("policy", "relaygen") == "relaygen":
        settings.setdefault("cue_profile", CueProfile.of(*cues))
    return RelayEngine(*pair, **settings)


def strangers(text: str, small_text: str | None = None, *, split: str = "chars", **options: Any) -> list[ScriptedBackend]:
    """A pair with two different vocabularies that continues one text, for `relay(*strangers(…))`."""
    return [
        ScriptedBackend(text, name="big", vocabulary=Vocabulary("words", "big"), **options),
        ScriptedBackend(small_text or text, name="tiny", vocabulary=Vocabulary(split, "tiny"), **options),  # type: ignore[arg-type]
    ]


def backend(engine: RelayEngine, role: str) -> ScriptedBackend:
    """The scripted backend of a role."""
    found = engine.backends[role]  # type: ignore[index]
    assert isinstance(found, ScriptedBackend)
    return found


def running(engine: RelayEngine) -> int:
    """Requests that either backend is working on now."""
    return backend(engine, "large").running + backend(engine, "small").running


def requests(engine: RelayEngine) -> int:
    """Requests that both backends were given so far."""
    return len(backend(engine, "large").requests) + len(backend(engine, "small").requests)


def continuing(text: str, **reply: Any) -> Script:
    """A script that continues a text from wherever it stands, as `Reply(…, **reply)`."""
    return lambda so_far, request: Reply(text[len(so_far) :] if text.startswith(so_far) else "", **reply)


def turns(result: RelayResult | RelayChoice) -> list[tuple[str, str]]:
    """Who wrote what, raw."""
    return [(segment.role, segment.text) for segment in result.segments]


def reasons(result: RelayResult | RelayChoice) -> list[str]:
    """The reasons of the handoffs, in order."""
    return [handoff.reason for handoff in result.handoffs]


def causes(result: RelayResult | RelayChoice) -> list[str]:
    """Why each segment ended, in order."""
    return [segment.cause for segment in result.segments]


def said(events: Iterable[Event], channel: str = "answer") -> str:
    """The text of one channel, joined from its deltas."""
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.channel == channel)


def kinds(events: Iterable[Event]) -> list[str]:
    """The types of the events, text deltas left out."""
    return [event.type for event in events if not isinstance(event, (TextDelta, ToolCallDelta))]


def untimed(result: RelayResult) -> dict[str, Any]:
    """All fields of a result but clock times, to compare two runs."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in ("time", "duration", "time_to_first_token")}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return strip(result.to_dict())


def read_to_error(stream: RelayStream) -> tuple[list[Event], Exception | None]:
    """The events of a stream, and the error that it ended with."""
    events: list[Event] = []
    try:
        for event in stream:
            events.append(event)
    except Exception as e:
        return events, e
    return events, None


def both_ways(engine: RelayEngine, *args: Any, **options: Any) -> RelayResult:
    """The result of `generate`, after checking that the folded stream of the same request equals it."""
    options.setdefault("seed", 1)
    streamed = fold(engine.stream(*args, **options))
    result = engine.generate(*args, **options)
    assert untimed(streamed) == untimed(result)
    return result


def eventually(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Waits for a condition, generously."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def assert_prompts_grow(engine: RelayEngine) -> None:
    """Within each relay, every prompt starts with the one that the model was sent before it, id for id."""
    for role in ("large", "small"):
        last: dict[str, tuple[int, ...]] = {}
        for request in backend(engine, role).requests:
            before, ids = last.get(request.session, ()), tuple(request.ids)
            assert ids[: len(before)] == before
            last[request.session] = ids


def assert_in_order(events: list[Event]) -> None:
    """The events of one finished choice come in the order that is promised."""
    open_segment: SegmentStarted | None = None
    last: SegmentStarted | None = None
    handed: Handoff | None = None
    for e in events:
        if isinstance(e, SegmentStarted):
            assert open_segment is None
            if last is not None:
                assert (handed is not None) == (last.role != e.role), "a handoff stands exactly between two roles"
                assert e.index == last.index + 1
            open_segment, last, handed = e, e, None
        elif isinstance(e, SegmentFinished):
            assert open_segment is not None
            assert (e.index, e.role, e.reason) == (open_segment.index, open_segment.role, open_segment.reason)
            open_segment = None
        elif isinstance(e, Handoff):
            assert open_segment is None
            assert last is not None
            assert e.from_role == last.role != e.to_role
            handed = e
        elif isinstance(e, (TextDelta, ToolCallDelta)):
            assert open_segment is not None
            assert (e.segment, e.role) == (open_segment.index, open_segment.role), "text stands in the segment that wrote it"
    assert open_segment is None
    assert events[-1].type == "relay_finished"


def transcript(*, tools: bool = False, key: int = 0, closed: bool = False, segments: int = 0) -> Transcript:
    """A transcript for a policy to look at."""
    side = Side(prompt=(1, 2), reasoning_open=False, tags=ThinkTags(), vocabulary="v")
    made = Transcript({"large": side, "small": side}, tools=tools, key=key)
    made.reasoning_closed = closed
    for _ in range(segments):
        made.begin("large", "start")
    return made


def brief(plan: Plan | None) -> tuple[str, str] | None:
    """Role and reason of a plan."""
    return None if plan is None else (plan.role, plan.reason)
