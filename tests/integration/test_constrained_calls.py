"""Forced calls and JSON by a schema from the tiny pair: always valid, with thinking on and off, whoever writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from relay_integrations import RelayEngine, RelayResult, ToolCall
from relay_integrations.tiny import OTHER_SMALL, SMALL
from relay_integrations.tiny.formats import tools as formats
from relay_integrations.tiny.tasks.problem import Problem
from tests.unit.json_oracle import follows

SAMPLED = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "seed": 11}
REPORT = {
    "$defs": {
        "Item": {
            "type": "object",
            "properties": {"kind": {"enum": ["coin", "book"]}, "count": {"type": "integer"}},
            "required": ["kind", "count"],
        }
    },
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1, "maxItems": 2},
        "mood": {"enum": ["gut", "größer", "🎉"]},
        "sure": {"type": "boolean"},
    },
    "required": ["name", "items", "mood", "sure"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "report", "schema": REPORT, "strict": True}}


def drawn(seed: int, count: int) -> list[Problem]:
    """Problems with tools, as the pair knows them."""
    rng = Random(seed)
    found: list[Problem] = []
    while len(found) < count:
        problem, _ = (formats.any_tool, formats.form, formats.calculator)[len(found) % 3](rng)
        if problem.tools:
            found.append(problem)
    return found


@pytest.fixture(scope="module", params=[SMALL, OTHER_SMALL])
def engine(request: pytest.FixtureRequest) -> Iterator[RelayEngine]:
    """The large model with each of the small ones: one vocabulary, and two."""
    with RelayEngine.tiny(small=request.param) as engine:
        yield engine


@pytest.fixture(scope="module")
def pair() -> Iterator[RelayEngine]:
    with RelayEngine.tiny() as engine:
        yield engine


def assert_called(result: RelayResult, tools: Sequence[dict[str, Any]]) -> None:
    """The answer is calls of these tools, each valid by its schema, and nothing else."""
    assert (result.text, result.finish_reason) == ("", "tool_calls")
    assert result.tool_calls
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    for call in result.tool_calls:
        assert call.valid
        assert follows(json.loads(call.arguments), schemas[call.name]), call


@pytest.mark.parametrize("reasoning", [True, False])
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("policy", ["relaygen", "small-only"])
def test_a_forced_call_is_valid(engine: RelayEngine, policy: str, sampling: dict[str, Any], reasoning: bool) -> None:
    for number, problem in enumerate(drawn(5, 3)):
        named = problem.tools[-1]["function"]["name"]
        choice = "required" if number else named
        result = engine.generate(
            problem.messages, tools=problem.tools, tool_choice=choice, policy=policy, reasoning=reasoning, max_tokens=500, **sampling
        )
        assert_called(result, problem.tools)
        assert bool(result.reasoning) == reasoning
        assert choice == "required" or [call.name for call in result.tool_calls] == [named]


@pytest.mark.parametrize("reasoning", [True, False])
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("policy", ["relaygen", "small-only"])
def test_json_follows_its_schema(engine: RelayEngine, policy: str, sampling: dict[str, Any], reasoning: bool) -> None:
    result = engine.generate(
        "Mia has 12 coins. Give JSON.", response_format=FORMAT, policy=policy, reasoning=reasoning, max_tokens=500, **sampling
    )
    assert result.finish_reason == "stop"
    assert follows(json.loads(result.text), REPORT)


def test_the_constraint_changes_nothing_where_the_answer_satisfies_it_already(engine: RelayEngine) -> None:
    same = 0
    for problem in drawn(7, 9):
        asked: dict[str, Any] = {"tools": problem.tools, "policy": "small-only", "max_tokens": 300}
        free = engine.generate(problem.messages, **asked)
        held = engine.generate(problem.messages, **asked, tool_choice="required")
        schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in problem.tools}
        if free.tool_calls and not free.text and all(_is_written_as_asked(call, schemas) for call in free.tool_calls):
            ids = [[token for segment in result.segments for token in segment.ids] for result in (free, held)]
            assert ids[0] == ids[1]
            same += 1
    assert same >= 5


def _is_written_as_asked(call: ToolCall, schemas: dict[str, Any]) -> bool:
    if not call.valid or not follows(json.loads(call.arguments), schemas.get(call.name, False)):
        return False
    return json.dumps(json.loads(call.arguments), ensure_ascii=False) == call.arguments  # each key once, laid out as templates do


@pytest.mark.parametrize("tokens", [1, 4, 9, 14])
def test_a_call_goes_on_with_the_other_model_in_the_middle(engine: RelayEngine, tokens: int) -> None:
    (problem,) = drawn(5, 1)
    asked: dict[str, Any] = {"tools": problem.tools, "tool_choice": "required", "max_tokens": 400}
    free = engine.generate(problem.messages, **asked)
    thought = sum(segment.tokens for segment in free.segments[:-1] if segment.role == "large")
    result = engine.generate(problem.messages, **asked, large_token_budget=thought + tokens)
    assert [(s.role, s.reason) for s in result.segments[-2:]] == [("large", "think_end"), ("small", "budget")]
    assert result.segments[-2].tokens == tokens
    assert_called(result, problem.tools)


def test_a_call_that_is_cut_is_not_valid_and_says_length(engine: RelayEngine) -> None:
    (problem,) = drawn(5, 1)
    asked: dict[str, Any] = {"tools": problem.tools, "tool_choice": "required", "reasoning": False}
    result = engine.generate(problem.messages, **asked, max_tokens=12)
    assert (result.text, result.finish_reason) == ("", "length")
    assert [call.valid for call in result.tool_calls] == [False]


def test_each_choice_of_a_request_is_valid(pair: RelayEngine) -> None:
    (problem,) = drawn(5, 1)
    result = pair.generate(problem.messages, tools=problem.tools, tool_choice="required", n=3, max_tokens=400, **SAMPLED)
    for choice in result.choices:
        assert_called(RelayResult([choice]), problem.tools)


def test_with_tools_and_a_format_the_answer_is_a_call_or_json(pair: RelayEngine) -> None:
    kinds = set()
    for problem in drawn(5, 3):
        result = pair.generate(problem.messages, tools=problem.tools, response_format=FORMAT, max_tokens=500)
        kinds.add(result.finish_reason)
        if result.tool_calls:
            assert_called(result, problem.tools)
        else:
            assert follows(json.loads(result.text), REPORT)
    assert "tool_calls" in kinds
    answer = pair.generate("Mia has 12 coins.", tools=problem.tools, response_format=FORMAT, reasoning=False, max_tokens=500)
    assert answer.tool_calls or follows(json.loads(answer.text), REPORT)


def test_at_most_one_call_stops_the_model(pair: RelayEngine) -> None:
    several = [p for p in drawn(3, 200) if p.exchanges and len(p.exchanges[0].results) > 1][:2]
    free = [pair.generate(p.messages, tools=p.tools, max_tokens=300) for p in several]
    assert any(len(result.tool_calls) > 1 for result in free), "else the test says nothing"
    for problem, before in zip(several, free, strict=True):
        result = pair.generate(problem.messages, tools=problem.tools, parallel_tool_calls=False, max_tokens=300)
        assert [c.arguments for c in result.tool_calls] == [c.arguments for c in before.tool_calls[:1]]
        forced = pair.generate(problem.messages, tools=problem.tools, parallel_tool_calls=False, tool_choice="any", max_tokens=300)
        assert len(forced.tool_calls) == 1
