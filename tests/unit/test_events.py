"""Events: JSON there and back, and the fold that makes a result of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_integrations import (
    ConfigError,
    Event,
    Handoff,
    Message,
    ReasoningClosed,
    RelayFailed,
    RelayFinished,
    SegmentFinished,
    SegmentStarted,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    event_from_dict,
    fold,
)
from relay_integrations.events import EVENT_TYPES
from relay_integrations.result import add_usage
from tests.unit.support import MATHS, relay, untimed

USAGE = Usage(prompt_tokens=7, completion_tokens=4, large_tokens=1, small_tokens=3, handoffs={"cue": 1}, requests=2)

EVENTS: list[Event] = [
    SegmentStarted(index=0, role="large", model="L", reason="start", position=0),
    TextDelta(text="Hmm", channel="reasoning", role="large", segment=0),
    ReasoningClosed(by="budget", position=3),
    SegmentFinished(index=0, role="large", model="L", reason="start", cause="cue", cue="So", text="Hmm", ids=(1, 2), tokens=2, time=1.5),
    Handoff(index=0, from_role="large", to_role="small", from_model="L", to_model="S", reason="cue", cue="So", position=2),
    TextDelta(text="It", channel="answer", role="small", segment=1),
    TextDelta(text=" is", channel="answer", role="small", segment=1),
    ToolCallDelta(index=0, id="c0", name="f", role="small", segment=1),
    ToolCallDelta(index=0, arguments='{"a"', role="small", segment=1),
    ToolCallDelta(index=0, arguments=": 1}", role="small", segment=1),
    ToolCallDelta(index=0, valid=True, role="small", segment=1),
    RelayFinished(finish_reason="tool_calls", usage=USAGE, seed=5),
]


@pytest.mark.parametrize("event", [*EVENTS, RelayFailed(finish_reason="error", error="x", usage=USAGE, seed=5)], ids=lambda e: e.type)
def test_an_event_comes_back_from_json_as_it_was(event: Event) -> None:
    line = json.dumps(event.to_dict())
    assert event_from_dict(json.loads(line)) == event
    assert json.loads(line)["schema_version"] == 1


def test_every_type_of_event_is_known_by_its_name() -> None:
    assert set(EVENT_TYPES) == {event.type for event in EVENTS} | {"relay_failed"}
    assert all(cls.type == name for name, cls in EVENT_TYPES.items())


def test_the_dict_of_an_event_is_fresh_each_time() -> None:
    event = EVENTS[-1]
    event.to_dict()["usage"]["handoffs"]["cue"] = 99
    assert event.to_dict()["usage"]["handoffs"] == {"cue": 1}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"type": "song"}, "unknown event type 'song'; known: segment_started"),
        ({"schema_version": 2}, "schema_version 2, this release reads 1"),
    ],
)
def test_an_event_of_another_kind_or_time_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        event_from_dict({**EVENTS[0].to_dict(), **change})


def test_an_event_with_a_field_missing_is_refused() -> None:
    data = EVENTS[0].to_dict()
    del data["role"]
    with pytest.raises(ConfigError, match=r"segment_started.*role"):
        event_from_dict(data)


def test_fields_that_a_later_release_adds_are_ignored() -> None:
    assert event_from_dict({**EVENTS[0].to_dict(), "mood": "good"}) == EVENTS[0]


def test_a_fold_joins_what_belongs_together() -> None:
    result = fold(EVENTS)
    assert (result.reasoning, result.text) == ("Hmm", "It is")
    assert result.tool_calls == [ToolCall(id="c0", name="f", arguments='{"a": 1}')]
    assert (result.finish_reason, result.usage, result.seed) == ("tool_calls", USAGE, 5)
    assert result.segments == [EVENTS[3]]
    assert result.handoffs == [EVENTS[4]]


def test_a_fold_of_a_part_is_a_result_so_far() -> None:
    result = fold(EVENTS[:6])
    assert (result.text, result.finish_reason) == ("It", None)
    assert fold([]).text == ""


def test_a_fold_keeps_choices_apart() -> None:
    events = [TextDelta(choice=c, text=t, channel="answer", role="large", segment=0) for c, t in ((1, "b"), (0, "a"), (1, "d"))]
    assert [(c.index, c.text) for c in fold(events).choices] == [(0, "a"), (1, "bd")]


def test_a_failure_is_never_text() -> None:
    result = fold([*EVENTS[:6], RelayFailed(finish_reason="error", error="gone", usage=USAGE, seed=5)])
    assert result.text == "It"
    assert (result.finish_reason, result.choices[0].error) == ("error", "gone")


def test_events_read_back_from_json_lines_fold_to_the_same_result() -> None:
    with relay(MATHS) as engine:
        events = list(engine.stream("hi", seed=1))
    lines = [json.dumps(event.to_dict()) for event in events]
    assert untimed(fold(event_from_dict(json.loads(line)) for line in lines)) == untimed(fold(events))


def test_a_result_is_json_ready() -> None:
    data = json.loads(json.dumps(fold(EVENTS).to_dict()))
    assert data["choices"][0]["text"] == "It is"
    assert data["choices"][0]["tool_calls"] == [{"id": "c0", "name": "f", "arguments": '{"a": 1}'}]
    assert data["usage"]["utilisation"] == 0.25


def test_an_answer_becomes_the_message_that_continues_the_conversation() -> None:
    call = ToolCall(id="c0", name="f", arguments='{"a": 1}')
    assert fold(EVENTS).choices[0].to_message() == Message(role="assistant", content="It is", reasoning="Hmm", tool_calls=(call,))


def test_a_message_leaves_out_calls_that_no_template_could_render() -> None:
    broken = ToolCallDelta(index=1, id="c1", name="g", arguments="{a", role="small", segment=1)
    choice = fold([*EVENTS, broken]).choices[0]
    assert [call.valid for call in choice.tool_calls] == [True, False]
    assert [call.id for call in choice.to_message().tool_calls] == ["c0"]


# --- usage


def test_usage_derives_the_total_and_the_large_models_share() -> None:
    assert (USAGE.total_tokens, USAGE.utilisation) == (11, 0.25)
    assert Usage().utilisation is None


def test_choices_of_one_request_pay_for_its_prompt_once() -> None:
    total = add_usage([USAGE, Usage(prompt_tokens=7, completion_tokens=2, large_tokens=2, handoffs={"cue": 1, "eos": 1}, requests=1)])
    assert (total.prompt_tokens, total.completion_tokens, total.large_tokens, total.requests) == (7, 6, 3, 3)
    assert total.handoffs == {"cue": 2, "eos": 1}


def test_what_is_unknown_in_one_part_is_unknown_in_the_sum() -> None:
    parts = [Usage(cached_tokens=3, flops=1.0, cost=0.5), Usage(cached_tokens=None, flops=2.0, cost=0.25)]
    total = add_usage(parts)
    assert (total.cached_tokens, total.flops, total.cost) == (None, 3.0, 0.75)
