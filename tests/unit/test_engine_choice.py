"""Which calls are asked for, allowed and ended: tool_choice, parallel_tool_calls, and JSON beside tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_integrations import RelayEngine
from relay_integrations.chat.constraint import Constraint
from relay_integrations.chat.tool_formats import HERMES, LLAMA, MISTRAL, MISTRAL_LIST, ToolFormat
from tests.unit.answer_support import CALL, FORMAT, JSON, THINK, WEATHER, answering, constrained
from tests.unit.support import backend, both_ways, continuing, relay

TIME = {"type": "function", "function": {"name": "time"}}


def asked(engine: RelayEngine, **options: Any) -> Constraint:
    """The constraint that a request leads to, after its one answer."""
    engine.generate("hi", **options)
    found = constrained(backend(engine, "large"))[-1].constraint
    assert found is not None
    return found


def test_a_required_call_may_be_any_and_a_named_one_is_that() -> None:
    with answering() as engine:
        anything = asked(engine, tools=[WEATHER, TIME], tool_choice="required")
        assert anything == asked(engine, tools=[WEATHER, TIME], tool_choice="any")
        named = asked(engine, tools=[WEATHER, TIME], tool_choice="weather")
        assert named == asked(engine, tools=[WEATHER, TIME], tool_choice={"type": "function", "function": {"name": "weather"}})
        assert backend(engine, "large").rendered[-1][1] == [WEATHER, TIME], "the model sees all tools"
        assert backend(engine, "large").constraints_checked[-1] == named
    assert [piece.before for piece in anything.rows[0].pieces] == [
        '<tool_call>\n{"name": "weather", "arguments": ',
        '<tool_call>\n{"name": "time", "arguments": ',
    ]
    assert [piece.about for piece in named.rows[0].pieces] == ["tool 'weather'"]


@pytest.mark.parametrize(
    ("parallel", "form", "required", "named"),
    [
        (None, HERMES, True, False),
        (True, HERMES, True, True),
        (False, HERMES, False, False),
        (None, LLAMA, False, False),
        (True, LLAMA, True, True),
        (None, MISTRAL, True, False),
        (None, MISTRAL_LIST, True, False),
    ],
    ids=str,
)
def test_how_many_calls_may_be_forced(parallel: bool | None, form: ToolFormat, required: bool, named: bool) -> None:
    with answering(formats=(form, form)) as engine:
        for choice, several in (("required", required), ("weather", named)):
            (row,) = asked(engine, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=parallel).rows
            assert row.several is several


def test_without_a_choice_nothing_is_constrained() -> None:
    with answering(THINK + "\n\n" + CALL) as engine:
        for options in ({}, {"tool_choice": "auto"}, {"tool_choice": None}, {"parallel_tool_calls": True}):
            assert both_ways(engine, "hi", tools=[WEATHER], **options).tool_calls[0].valid
        assert not constrained(backend(engine, "large"))


def test_none_offers_no_tools_and_reads_no_calls() -> None:
    with answering(THINK + "\n\n" + CALL) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER], tool_choice="none")
        assert backend(engine, "large").rendered[-1][1] == []
    assert (result.text, result.tool_calls, result.finish_reason) == (CALL, [], "stop")


@pytest.mark.parametrize("reply", [{}, {"chunk": 1000}, {"chunk": 5, "texts": False}], ids=str)
@pytest.mark.parametrize("behind", ["\n" + CALL, "\nThat is all.", ""])
def test_at_most_one_call_ends_the_run_behind_the_first(behind: str, reply: dict[str, Any]) -> None:
    text = THINK + "\n\nLet me see.\n" + CALL + behind
    with relay(continuing(text, **reply)) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER], parallel_tool_calls=False)
    assert (len(result.tool_calls), result.finish_reason, result.stop_sequence) == (1, "tool_calls", None)
    assert result.text == "Let me see.\n"
    assert result.segments[-1].text.endswith(CALL)


def test_at_most_one_call_lets_an_answer_without_calls_alone() -> None:
    with relay(THINK + "\n\nIt is warm.") as engine:
        assert both_ways(engine, "hi", tools=[WEATHER], parallel_tool_calls=False).text == "It is warm."


@pytest.mark.parametrize("answer", [CALL, JSON], ids=["call", "json"])
def test_with_tools_bound_json_is_one_alternative_and_a_call_the_other(answer: str) -> None:
    with answering(answer=answer) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER], response_format=FORMAT)
        constraint = asked(engine, tools=[WEATHER], response_format=FORMAT)
    assert [row.pieces[0].about for row in constraint.rows] == ["tool 'weather'", "response_format report"]
    if answer == JSON:
        assert (result.text, result.tool_calls, result.finish_reason) == (JSON, [], "stop")
    else:
        assert (result.text, result.tool_calls[0].valid, result.finish_reason) == ("", True, "tool_calls")


@pytest.mark.parametrize(
    "answer", ['{"name": "Mia", "age": 3}', '{"name": "weather", "parameters": {"city": "Oslo"}}'], ids=["json", "call"]
)
def test_a_family_with_bare_calls_may_answer_by_a_schema_too(answer: str) -> None:
    with answering(answer=answer, formats=(LLAMA, LLAMA)) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER], response_format={"type": "json_object"})
    assert (result.text == answer) == ("age" in answer)
    assert bool(result.tool_calls) == ("parameters" in answer)


def test_a_forced_bare_call_is_never_text_even_where_it_is_cut() -> None:
    answer = '{"name": "weather", "parameters": {"city": "Oslo"}}'
    with answering(answer=answer, formats=(LLAMA, LLAMA), split="chars") as engine:
        forced = {"tools": [WEATHER], "tool_choice": "weather", "reasoning": False}
        assert both_ways(engine, "hi", **forced).tool_calls[0].valid
        for most in range(1, len(answer) - 1):
            result = both_ways(engine, "hi", **forced, max_tokens=most)
            assert (result.text, result.finish_reason, [call.valid for call in result.tool_calls]) == ("", "length", [False])


def test_a_json_object_may_hold_anything() -> None:
    with answering(answer=JSON) as engine:
        (row,) = asked(engine, response_format={"type": "json_object"}).rows
    assert json.loads(row.pieces[0].schema) == {"type": "object"}


@pytest.mark.parametrize("form", [HERMES, LLAMA, MISTRAL, MISTRAL_LIST], ids=lambda f: f.name)
def test_ids_of_calls_are_such_as_the_familys_templates_take(form: ToolFormat) -> None:
    text = form.opening + form.before_arguments("weather") + "{}" + form.behind + form.closing
    with answering(answer=text, formats=(form, form)) as engine:
        result = both_ways(engine, "hi", tools=[WEATHER], tool_choice="weather", n=2)
    ids = [choice.tool_calls[0].id for choice in result.choices]
    assert len(set(ids)) == 2
    assert all(len(i) == 9 and i.isalnum() for i in ids) == form.short_ids
