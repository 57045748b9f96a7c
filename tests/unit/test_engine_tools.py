"""Tools: the large model opens the answer, one role writes a whole call, and a call is never text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_integrations import CueProfile, NotSupported, ToolCallDelta
from relay_integrations.backends.scripted import ScriptedBackend, Vocabulary
from relay_integrations.policies import RelayGen
from tests.unit.support import WEATHER, backend, both_ways, continuing, reasons, relay, said, strangers, turns

THINK = "<think>We think a while. So, ask. Then on.</think>\n\n"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "St. Ives. So, {\\"x\\": 1}"}}\n</tool_call>'


@pytest.mark.parametrize("reply", [{}, {"chunk": 3}, {"chunk": 1000}, {"chunk": 4, "texts": False}, {"text_apart": True}], ids=str)
def test_a_call_is_written_by_the_large_model_whole(reply: dict[str, Any]) -> None:
    with relay(continuing(THINK + CALL, **reply)) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    assert turns(result)[-1] == ("large", " Then on.</think>\n\n" + CALL)
    assert reasons(result) == ["cue", "sentence_end"]
    assert (result.finish_reason, result.text) == ("tool_calls", "")
    (call,) = result.tool_calls
    assert (call.name, json.loads(call.arguments), call.valid) == ("weather", {"city": 'St. Ives. So, {"x": 1}'}, True)


def test_two_vocabularies_call_a_tool_too() -> None:
    with relay(*strangers(THINK + CALL)) as engine:
        assert both_ways(engine, "hi", tools=[WEATHER]).tool_calls[0].valid


def test_an_answer_that_is_no_call_goes_to_the_small_model_at_its_first_sentence_end() -> None:
    with relay(THINK + "It is warm. It is 12.5 degrees. Enjoy.") as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    assert turns(result)[-2:] == [("large", " Then on.</think>\n\nIt is warm."), ("small", " It is 12.5 degrees. Enjoy.")]
    assert reasons(result)[-1] == "sentence_end"
    assert result.finish_reason == "stop"


def test_a_call_within_the_first_sentence_keeps_the_large_model() -> None:
    with relay(THINK + "Let me look\n" + CALL + "\n" + CALL) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    assert turns(result)[-1] == ("large", " Then on.</think>\n\nLet me look\n" + CALL + "\n" + CALL)
    assert result.text == "Let me look\n"
    assert len({call.id for call in result.tool_calls}) == 2


def test_the_small_model_may_be_trusted_with_calls() -> None:
    policy = RelayGen(cues=CueProfile.of("So"), tool_call_role="small")
    with relay(THINK + CALL, policy=policy) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    assert turns(result)[-1] == ("small", CALL)
    assert result.tool_calls[0].valid


def test_a_small_model_that_closed_the_reasoning_does_not_open_the_answer() -> None:
    with relay("<think>We think a while. So, ask</think>" + CALL) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    assert turns(result)[1:] == [("small", " ask</think>"), ("large", CALL)]


def test_with_thinking_off_cues_inside_a_call_do_not_count() -> None:
    with relay("We ask the service for it now.\n" + CALL) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER], reasoning=False)
    assert [role for role, _ in turns(result)] == ["large"]
    assert result.tool_calls[0].valid


def test_both_templates_get_the_tools() -> None:
    with relay(THINK + CALL) as engine:
        engine.generate("hi", tools=[WEATHER])
        for role in ("large", "small"):
            assert backend(engine, role).rendered[0][1] == [WEATHER]


def test_a_template_that_ignores_tools_is_a_clear_error() -> None:
    pair = [ScriptedBackend(THINK + CALL, name=name, vocabulary=Vocabulary(), template_tools=name == "big") for name in ("big", "tiny")]
    with relay(*pair) as engine, pytest.raises(NotSupported, match="'tiny' does not support tools"):
        engine.generate("hi", tools=[WEATHER])


def test_a_tool_message_may_come_last_with_the_calls_it_answers() -> None:
    with relay(THINK + CALL) as engine:
        asked = engine.generate("hi", tools=[WEATHER])
        messages = [
            {"role": "user", "content": "hi"},
            asked.choices[0].to_message(),
            {"role": "tool", "content": "12 degrees", "tool_call_id": asked.tool_calls[0].id},
        ]
        engine.generate(messages, tools=[WEATHER])
        (seen, _, _) = backend(engine, "large").rendered[-1]
    assert seen[1].tool_calls == tuple(asked.tool_calls)
    assert seen[1].reasoning == asked.reasoning
    assert seen[2].tool_call_id == asked.tool_calls[0].id


def test_streamed_calls_come_in_pieces_and_never_as_text() -> None:
    with relay(THINK + CALL) as engine:
        events = list(engine.stream("hi", tools=[WEATHER], seed=1))
    deltas = [event for event in events if isinstance(event, ToolCallDelta)]
    assert (deltas[0].name, deltas[0].arguments, deltas[0].valid) == ("weather", "", None)
    assert len(deltas) > 5
    assert deltas[-1].valid is True
    assert said(events) == ""
    assert {delta.role for delta in deltas} == {"large"}


def test_a_call_that_cannot_be_read_is_kept_and_not_valid() -> None:
    with relay(THINK + "<tool_call>\nweather(Oslo)\n</tool_call>") as engine:
        result = both_ways(engine, "hi", tools=[WEATHER])
    (call,) = result.tool_calls
    assert (call.name, call.arguments, call.valid) == ("", "weather(Oslo)", False)
    assert result.choices[0].to_message().tool_calls == ()


def test_ids_of_calls_repeat_with_the_same_prompt_and_differ_between_choices() -> None:
    with relay(THINK + CALL) as engine:
        first, second = (engine.generate("hi", tools=[WEATHER], n=2, seed=1) for _ in range(2))
        other = engine.generate("ho", tools=[WEATHER], seed=1)
    ids = [choice.tool_calls[0].id for choice in first.choices]
    assert ids == [choice.tool_calls[0].id for choice in second.choices]
    assert len({*ids, other.tool_calls[0].id}) == 3
