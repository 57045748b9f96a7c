"""Properties of answers that have to follow a constraint, for random texts, tokens, chunks, policies, limits and failures.

Both models think one common text and give one common answer. Whatever comes in between, the answer is that text and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from relay_integrations import Event, Policy, RelayResult, fold
from relay_integrations.backends.scripted import ScriptedBackend, Vocabulary
from tests.unit.answer_support import CALL, FORMAT, JSON, WEATHER, beginnings, constrained, held
from tests.unit.support import assert_in_order, assert_prompts_grow, backend, relay, running, said, untimed
from tests.unit.test_properties import BODY, CLOSE, POLICY, REPLY, ROLE, SPLITS

OPENED = "<think>\n"


@dataclass
class Case:
    """A relay of two models that think one text and give one answer."""

    opened: bool
    body: str
    closing: str
    behind: str
    by_template: bool
    policy: Policy
    splits: tuple[Any, Any]
    shared: bool
    replies: tuple[dict[str, Any], dict[str, Any]]
    answer: str
    fails: tuple[int | None, int | None] = (None, None)
    options: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)

    @property
    def free(self) -> str:
        """What the models say where nothing holds them."""
        text = self.body + (self.closing + self.behind if self.closing else "")
        return text if self.by_template or not self.opened else OPENED + text

    @property
    def reasoning(self) -> str:
        """What a user is to see of it."""
        if not self.opened and not self.by_template:
            return ""
        body = self.body
        if self.by_template and body.lstrip().startswith("<think>"):
            body = body.lstrip().removeprefix("<think>")
        body = body.lstrip("\n") if self.opened and not self.by_template else body
        return body if self.closing else re.sub(r"</(th)?\Z", "", body)

    @property
    def asked(self) -> dict[str, Any]:
        demand = {"response_format": FORMAT} if self.answer == JSON else {"tools": [WEATHER], "tool_choice": "required"}
        return {**demand, **self.options}

    def pair(self) -> list[ScriptedBackend]:
        vocabularies = [Vocabulary(self.splits[0])] * 2 if self.shared else [Vocabulary(s, str(i)) for i, s in enumerate(self.splits)]
        return [
            ScriptedBackend(
                held(v, self.free, self.answer, **{**reply, "fail_after": fails}),
                name=name,
                vocabulary=v,
                open_reasoning=self.by_template,
                constraints=True,
            )
            for name, v, reply, fails in zip(("large", "small"), vocabularies, self.replies, self.fails, strict=True)
        ]

    def run(self) -> tuple[list[Event], RelayResult]:
        """The events of a stream and the result that is not streamed, after checking what holds for any of them."""
        with relay(*self.pair(), policy=self.policy, on_failure=self.rules) as engine:
            events = list(engine.stream("hi", seed=1, **self.asked))
            result = engine.generate("hi", seed=1, **self.asked)
            assert untimed(fold(events)) == untimed(result)
            assert running(engine) == 0
            for role in ("large", "small"):
                assert all(self.answer.startswith(text) for text in beginnings(backend(engine, role)))
                assert all(r.constraint_start >= r.output_start for r in constrained(backend(engine, role)))
            if all(not segment.discarded for segment in result.segments):
                assert_prompts_grow(engine)
        assert_in_order(events)
        note(str([(s.role, s.reason, s.cause, s.text) for s in result.segments]))
        usage = result.usage
        assert usage.large_tokens + usage.small_tokens == usage.completion_tokens == sum(s.tokens for s in result.segments)
        assert usage.discarded_tokens == sum(s.discarded for s in result.segments)
        assert self.answer.startswith(said(events)) or self.answer == CALL
        return events, result

    def is_whole(self, result: RelayResult) -> bool:
        """Whether the answer is complete, and alone."""
        if self.answer == JSON:
            return (result.text, result.tool_calls, result.finish_reason) == (JSON, [], "stop")
        return (result.text, [c.valid for c in result.tool_calls], result.finish_reason) == ("", [True], "tool_calls")


CASE = st.builds(
    Case,
    opened=st.booleans(),
    body=BODY,
    closing=CLOSE,
    behind=BODY,
    by_template=st.booleans(),
    policy=POLICY,
    splits=st.tuples(SPLITS, SPLITS),
    shared=st.booleans(),
    replies=st.tuples(REPLY, REPLY),
    answer=st.sampled_from([CALL, JSON]),
)


@given(CASE)
@settings(max_examples=200)
def test_the_answer_is_what_it_has_to_be_and_the_reasoning_what_it_was(case: Case) -> None:
    _, result = case.run()
    assert case.is_whole(result)
    assert result.reasoning == case.reasoning
    assert result.segments[-1].text == case.answer, "one segment"
    assert result.segments[-1].role == case.policy.constrained_role or any(s.reason == "fallback" for s in result.segments)


@given(CASE, st.integers(1, 60), st.integers(0, 30), st.integers(0, 20))
@settings(max_examples=150)
def test_budgets_hold_to_the_token_and_what_they_leave_is_a_beginning(case: Case, most: int, large: int, reasoning: int) -> None:
    case.options = {"max_tokens": most, "large_token_budget": large, "reasoning_budget": reasoning}
    _, result = case.run()
    assert result.usage.completion_tokens <= most
    assert result.usage.large_tokens <= large
    if not case.is_whole(result):
        assert result.finish_reason == "length"
        assert case.answer.startswith(result.text)


@given(CASE, ROLE, st.integers(0, 12))
@settings(max_examples=150)
def test_failures_lose_and_repeat_nothing(case: Case, role: str, after: int) -> None:
    if len(case.policy.roles) < 2:
        return
    if not case.shared:  # segments too short for a character of theirs leave one model alone, and then nobody takes over
        case.splits = ("words", "chars")
    case.fails = (after, None) if role == "large" else (None, after)
    case.rules = {"retries": 1, "cool_down_after": 1000}
    _, result = case.run()
    assert case.is_whole(result)
    assert result.reasoning == case.reasoning
