"""A backend that fails within an answer that has to follow a constraint, and requests that cannot be met: clear, and in time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from relay_integrations import BackendError, ConfigError, ConstraintFailed, NotSupported, RelayFailed, fold
from relay_integrations.backends.scripted import Reply, ScriptedBackend
from relay_integrations.chat.constraint import Constraint
from relay_integrations.chat.tool_formats import HERMES, LLAMA
from tests.unit.answer_support import CALL, FORMAT, JSON, LLAMA_CALL, WEATHER, answering, beginnings, constrained, held, pair
from tests.unit.support import both_ways, read_to_error, relay, requests, running, turns

FORCED: dict[str, Any] = {"tools": [WEATHER], "tool_choice": "required"}
ONCE = {"retries": 0, "cool_down_after": 99}


def failing_in_answer(backend: ScriptedBackend, after: int, times: int = 1 << 30, answer: str = CALL) -> ScriptedBackend:
    """The backend, failing after so many tokens of a constrained request, so many times."""
    script, failed = held(backend.vocabulary, "", answer), [0]
    free = backend._script

    def say(so_far: str, request: Any) -> Any:
        if request.constraint is None:
            return free(so_far, request)
        reply = script(so_far, request)
        assert isinstance(reply, Reply)
        if failed[0] < times:
            failed[0] += 1
            reply.fail_after = after
        return reply

    backend._script = say
    return backend


@pytest.mark.parametrize("after", [0, 1, 5, 9])
def test_a_hop_that_is_tried_again_goes_on_in_the_middle(after: int) -> None:
    large, small = pair()
    with relay(failing_in_answer(large, after, times=1), small, on_failure={"retries": 1}) as engine:
        result = engine.generate("hi", seed=1, **FORCED)
    first, second = constrained(large)
    assert first.constraint_start == second.constraint_start
    assert beginnings(large) == ["", large.vocabulary.bytes_of(second.ids[second.constraint_start :]).decode()]
    assert len(second.ids) - second.constraint_start == after
    assert turns(result)[-1] == ("large", CALL)
    assert result.tool_calls[0].valid


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("after", [0, 1, 5, 9])
def test_where_it_fails_for_good_the_other_model_goes_on(after: int, shared: bool) -> None:
    large, small = pair(shared=shared)
    with relay(failing_in_answer(large, after), small, on_failure=ONCE) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert [s.reason for s in result.segments[-2:]] == ["think_end", "fallback"]
    assert turns(result)[-2][1] + turns(result)[-1][1] == CALL
    assert beginnings(small)[0] == turns(result)[-2][1]
    assert constrained(small)[0].constraint == constrained(large)[0].constraint
    assert (result.tool_calls[0].valid, result.finish_reason) == (True, "tool_calls")


def test_json_goes_on_with_the_other_model_whatever_their_formats() -> None:
    large, small = pair(answer=JSON, formats=(HERMES, LLAMA))
    with relay(failing_in_answer(large, 4, answer=JSON), small, on_failure=ONCE) as engine:
        assert both_ways(engine, "hi", response_format=FORMAT).text == JSON


def test_a_call_in_another_format_cannot_go_on_in_the_middle() -> None:
    large, small = pair(small_answer=LLAMA_CALL, formats=(HERMES, LLAMA))
    with relay(failing_in_answer(large, 4), small, on_failure=ONCE) as engine:
        events, error = read_to_error(engine.stream("hi", seed=1, **FORCED))
    assert isinstance(error, BackendError)
    assert "writes tool calls in another format" in str(error)
    assert isinstance(events[-1], RelayFailed)
    assert error.partial is not None
    assert error.partial.tool_calls == fold(events).tool_calls
    assert [call.valid for call in error.partial.tool_calls] == [False]


def test_a_call_in_another_format_may_begin_where_nothing_was_written() -> None:
    large, small = pair(small_answer=LLAMA_CALL, formats=(HERMES, LLAMA))
    with relay(failing_in_answer(large, 0), small, on_failure=ONCE) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert turns(result)[-1] == ("small", LLAMA_CALL)
    assert result.tool_calls[0].valid


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_failure_in_what_may_open_the_reasoning_drops_it(after: int) -> None:
    large, small = pair(split="chars")
    large._script = lambda so_far, request: Reply("<think>", fail_after=after)
    with relay(large, small, on_failure=ONCE) as engine:
        result = both_ways(engine, "hi", **FORCED)
    assert turns(result)[0] == ("large", "")
    assert {role for role, _ in turns(result)[1:]} == {"small"}
    assert (result.tool_calls[0].valid, result.reasoning[:5]) == (True, "We th")


@pytest.mark.parametrize("times", range(1, 5))
def test_a_schema_that_breaks_off_is_no_failure_of_a_model(times: int) -> None:
    large, small = pair()
    broken = failing_in_answer(large, 3)
    script = broken._script

    def say(so_far: str, request: Any) -> Any:
        reply = script(so_far, request)
        if isinstance(reply, Reply):
            reply.error = ConstraintFailed("the text does not follow its constraint: too many items")
        return reply

    broken._script = say
    with relay(broken, small, on_failure={"cool_down_after": 2}) as engine:
        for _ in range(times):
            with pytest.raises(ConstraintFailed, match="too many items") as caught:
                engine.generate("hi", seed=1, **FORCED)
            assert caught.value.partial is not None
            assert caught.value.partial.reasoning
        assert [role for role in ("large", "small") if engine.health.available(role)] == ["large", "small"]
        assert not constrained(small)
        assert {segment.role for segment in engine.generate("hi", seed=1).segments} == {"large", "small"}


def test_a_backend_that_stops_too_early_is_asked_for_the_rest() -> None:
    large, small = pair()
    free = large._script

    def stopping(so_far: str, request: Any) -> Any:
        reply = free(so_far, request)
        assert isinstance(reply, Reply)
        if request.constraint is not None and len(constrained(large)) == 1:
            reply.text, reply.eos = reply.text[:20], False
        return reply

    large._script = stopping
    with relay(large, small) as engine:
        result = engine.generate("hi", seed=1, **FORCED)
    assert beginnings(large) == ["", CALL[:20]]
    assert result.segments[-1].requests == 2
    assert result.tool_calls[0].valid


def test_a_cancelled_answer_stops_the_model() -> None:
    with answering(answer=JSON, replies=({"stall_after": 4}, {})) as engine:
        stream = engine.stream("hi", reasoning=False, response_format=FORMAT)
        for event in stream:
            if event.type == "text_delta":
                break
        stream.close()
        assert running(engine) == 0
    assert stream.result.finish_reason in (None, "cancelled")


# --- what cannot be met


@pytest.mark.parametrize("lacking", ["big", "tiny"])
@pytest.mark.parametrize(
    "asked",
    [FORCED, {"tools": [WEATHER], "tool_choice": "weather"}, {"response_format": FORMAT}, {"response_format": {"type": "json_object"}}],
    ids=str,
)
def test_a_backend_without_constraints_says_so_before_anything_is_generated(lacking: str, asked: dict[str, Any]) -> None:
    pairs = {"big": pair(constraints=lacking != "big")[0], "tiny": pair(constraints=lacking != "tiny")[1]}
    with relay(pairs["big"], pairs["tiny"]) as engine:
        with pytest.raises(NotSupported, match=rf"'{lacking}' does not support constrained output") as caught:
            engine.generate("hi", **asked)
        assert (caught.value.backend, caught.value.feature) == (lacking, "constrained output")
        _, error = read_to_error(engine.stream("hi", **asked))
        assert isinstance(error, NotSupported)
        assert requests(engine) == 0


def test_a_model_that_takes_no_part_need_not_have_them() -> None:
    large, _ = pair()
    with relay(large, ScriptedBackend(), policy="large-only") as engine:
        assert engine.generate("hi", **FORCED).tool_calls[0].valid


def test_without_a_demand_no_backend_needs_them() -> None:
    with answering(constraints=False) as engine:
        assert engine.generate("hi", tools=[WEATHER]).text == "It is warm."
        assert engine.generate("hi", response_format={"type": "text"}, tool_choice="auto").text == "It is warm."


class Picky(ScriptedBackend):
    """Refuses any schema."""

    async def check_constraint(self, constraint: Constraint) -> None:
        await asyncio.sleep(0)
        raise ConfigError(f"the schema of {constraint.rows[0].pieces[0].about} cannot be followed: Unimplemented keys")


@pytest.mark.parametrize(
    ("asked", "about"), [(FORCED, "tool 'weather'"), ({"response_format": FORMAT}, "response_format report")], ids=["tool", "format"]
)
def test_a_schema_that_cannot_be_followed_is_named_before_anything_is_generated(asked: dict[str, Any], about: str) -> None:
    with relay(pair()[0], Picky(constraints=True)) as engine:
        with pytest.raises(ConfigError, match=f"the schema of {about} cannot be followed: Unimplemented keys"):
            engine.generate("hi", **asked)
        assert requests(engine) == 0


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"tool_choice": "required"}, r"tool_choice='required' needs tools: pass tools="),
        ({"tool_choice": "any", "tools": []}, r"tool_choice='required' needs tools"),
        ({"tool_choice": "time", "tools": [WEATHER]}, r"tool_choice names 'time', which is none of the tools; there are: weather"),
        ({"tool_choice": {"type": "function", "function": {"name": "time"}}, "tools": [WEATHER]}, "tool_choice names 'time'"),
        ({"tool_choice": 5, "tools": [WEATHER]}, r'argument tool_choice: give "auto", "none", "required", a tool\'s name, or'),
        ({"tool_choice": {"function": {}}}, "argument tool_choice: give"),
        ({**FORCED, "response_format": FORMAT}, "tool_choice asks for a tool call and response_format for JSON: leave one out"),
        ({"response_format": "json"}, r'argument response_format: give \{"type": …\} with one of: text, json_object, json_schema'),
        ({"response_format": {"type": "json_schema"}}, "argument response_format: json_schema needs a schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"a": {1}}}}}, "its schema is no JSON"),
        (
            {"tool_choice": "f", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": {1}}}}]},
            "the parameters of tool 'f' are no JSON schema",
        ),
        ({"parallel_tool_calls": "maybe"}, "argument parallel_tool_calls"),
    ],
    ids=str,
)
def test_a_demand_that_makes_no_sense_is_refused_at_once(asked: dict[str, Any], says: str) -> None:
    with answering() as engine:
        with pytest.raises(ConfigError, match=says):
            engine.generate("hi", **asked)
        with pytest.raises(ConfigError, match=says):
            engine.stream("hi", **asked)
        assert requests(engine) == 0
