"""Properties of whole relays, for random texts, tokens, chunks, cues, stops, policies and failures.

Both models continue one common text, so under any policy the output must be what a few-line oracle reads out of that text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from relay_integrations import (
    CueProfile,
    Event,
    Policy,
    RelayEngine,
    RelayResult,
    SegmentFinished,
    TextDelta,
    fold,
)
from relay_integrations.backends.scripted import EOS, ScriptedBackend, Vocabulary
from relay_integrations.policies import AllCues, LargeOnly, RandomPolicy, RelayGen, Schedule, SmallOnly
from tests.unit.oracle import answer_of, cut
from tests.unit.support import WEATHER, assert_in_order, assert_prompts_grow, backend, continuing, relay, running, said, untimed

PIECES = ["we", "add", " ", " ", "So", "So,", " Thus ", "now", "known", "3.14", "e.g.", ".", ". ", "!", "\n", "\n\n", ".\n\n"]
ODD = ["STOP", "ST", "OP", "é", "日本", "🎉", "ü", "<", "</", "</b>", "th", "\u200b", '"', "(", "12", "a.b"]
OPENED = "<think>\n"
BODY = st.lists(st.sampled_from(PIECES + ODD), max_size=25).map("".join)
OPEN, CLOSE = st.sampled_from(["<think>", "<think>\n", ""]), st.sampled_from(["</think>", "</think>\n\n", ""])
TEXT = st.builds(lambda opening, a, closing, b: opening + a + closing + b if opening else a, OPEN, BODY, CLOSE, BODY)
CUES = st.lists(st.sampled_from(["So", "So,", "Thus", "now", "add", "日本"]), min_size=1, max_size=4, unique=True)
STOPS = st.lists(st.sampled_from(["STOP", "OP", "TO", ". ", "🎉", "3.1", "<", "\n\n"]), max_size=2, unique=True)
REPLY = st.one_of(
    st.fixed_dictionaries(
        {"chunk": st.integers(1, 9), "texts": st.booleans(), "overrun": st.booleans(), "honour_stops": st.booleans()},
    ),
    st.fixed_dictionaries({"text_apart": st.just(True), "honour_stops": st.booleans()}),
)
ROLE = st.sampled_from(["large", "small"])
COUNT = st.integers(1, 12)
POLICY = st.one_of(
    st.builds(
        RelayGen,
        cues=CUES.map(lambda cues: CueProfile.of(*cues)),
        min_large_tokens=st.integers(0, 6),
        max_small_tokens=st.integers(1, 30),
        answer_role=ROLE,
    ),
    st.builds(AllCues),
    st.builds(RandomPolicy, p=st.floats(0, 1), seed=st.integers(0, 99)),
    st.builds(lambda a, b: Schedule(segments=(("large", a), ("small", b))), COUNT, COUNT),
    st.just(LargeOnly()),
    st.just(SmallOnly()),
)
SPLITS = st.sampled_from(["words", "chars", "bytes"])


@dataclass
class Case:
    """A relay of two models that continue one text."""

    text: str
    policy: Policy
    splits: tuple[Any, Any]
    shared: bool
    replies: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    options: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    openers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.openers = tuple(role for role in self.openers if role in self.policy.roles and self.text.startswith(OPENED))
        self.shared = self.shared and len(self.openers) != 1

    @property
    def raw(self) -> str:
        """What the models say: without the open tag, if a template says that."""
        return self.text.removeprefix(OPENED) if self.openers else self.text

    def pair(self) -> list[ScriptedBackend]:
        vocabularies = [Vocabulary(self.splits[0])] * 2 if self.shared else [Vocabulary(s, str(i)) for i, s in enumerate(self.splits)]
        return [
            ScriptedBackend(
                continuing(self.raw if role in self.openers else self.text, **reply),
                name=role,
                vocabulary=vocabulary,
                open_reasoning=role in self.openers,
            )
            for role, vocabulary, reply in zip(("large", "small"), vocabularies, self.replies, strict=True)
        ]

    def expected(self, stops: Sequence[str] = ()) -> tuple[str, str, bool]:
        return oracle(self.raw, stops, opened=bool(self.openers))

    def run(self) -> tuple[list[Event], RelayResult]:
        """The events of a stream and the result that is not streamed, after checking that they agree and nothing stays behind."""
        with relay(*self.pair(), policy=self.policy, on_failure=self.rules) as engine:
            events = list(engine.stream("hi", seed=1, **self.options))
            result = engine.generate("hi", seed=1, **self.options)
            assert untimed(fold(events)) == untimed(result)
            assert_prompts_grow(engine)
            if self.shared and not result.usage.forced_tokens:
                assert_ids_are_kept(engine, events)
            assert running(engine) == 0
            assert not backend(engine, "large").sessions
            assert not backend(engine, "small").sessions
        return events, result


CASE = st.builds(
    Case,
    text=TEXT,
    policy=POLICY,
    splits=st.tuples(SPLITS, SPLITS),
    shared=st.booleans(),
    replies=st.tuples(REPLY, REPLY),
    openers=st.sampled_from([(), ("large",), ("small",), ("large", "small")]),
)


FRAGMENT = re.compile(r"(</(th)?|<th)\Z")


def oracle(text: str, stops: Sequence[str], *, opened: bool) -> tuple[str, str, bool]:
    """Reasoning and answer of a text, cut at the first stop sequence, and whether there was one."""
    text = "" if text == "<th" else text  # the beginning of a tag at the very end is dropped
    if not opened:
        if not text.startswith("<think>"):
            shown, stopped = answer_of(text, stops, begun=True)
            return "", shown if stopped else FRAGMENT.sub("", shown), bool(stopped)
        text = text.removeprefix("<think>").lstrip("\n")
    reasoning, closing, answer = text.partition("</think>")
    seen, stopped = cut(reasoning, stops)
    if stopped or not closing:
        return seen if stopped else re.sub(r"</(th)?\Z", "", seen), "", bool(stopped)
    shown, stopped = answer_of(answer, stops) if answer.strip() else ("", "")
    return seen, shown if stopped else FRAGMENT.sub("", shown), bool(stopped)


def assert_ids_are_kept(engine: RelayEngine, events: list[Event]) -> None:
    """The prompts of one relay, over both models, are its own prompt and the ids of all segments so far."""
    sent: dict[str, list[list[int]]] = {}
    for role in ("large", "small"):
        for request in backend(engine, role).requests:
            sent.setdefault(request.session, []).append(list(request.ids[request.output_start :]))
    written = [i for e in events if isinstance(e, SegmentFinished) for i in e.ids]
    for outputs in sent.values():
        for output in outputs:
            assert output == written[: len(output)]


@given(CASE)
@settings(max_examples=200)
def test_any_relay_says_exactly_the_text(case: Case) -> None:
    _, result = case.run()
    assert (result.reasoning, result.text, False) == case.expected()
    assert "".join(segment.text for segment in result.segments) == case.raw
    assert result.finish_reason == "stop"
    event(f"{len(result.handoffs)} handoffs" if len(result.handoffs) < 4 else "many handoffs")


@given(CASE, STOPS)
@settings(max_examples=150)
def test_a_stop_sequence_cuts_the_text_there_and_never_shows(case: Case, stops: list[str]) -> None:
    case.options = {"stop": stops}
    events, result = case.run()
    assert (result.reasoning, result.text, result.stop_sequence is not None) == case.expected(stops)
    for channel, whole in (("reasoning", result.reasoning), ("answer", result.text)):
        assert not any(stop in whole for stop in stops)
        so_far = ""
        for delta in (e for e in events if isinstance(e, TextDelta) and e.channel == channel):
            so_far += delta.text
            assert whole.startswith(so_far), "what was shown is never taken back"


@given(CASE, st.integers(1, 40), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=150)
def test_budgets_hold_to_the_token(case: Case, most: int, large: int, reasoning: int) -> None:
    case.options = {"max_tokens": most, "large_token_budget": large, "reasoning_budget": reasoning}
    case.rules = {"retries": 0}
    _, result = case.run()
    usage = result.usage
    assert usage.completion_tokens <= most
    assert usage.large_tokens <= large
    assert usage.large_tokens + usage.small_tokens == usage.completion_tokens == sum(segment.tokens for segment in result.segments)
    if result.reasoning:
        # The open tag, and a token that holds more, may stand in front of where the reasoning is known to have begun.
        opening = len(Vocabulary("bytes").encode("\n <think>\n\n"))
        assert usage.reasoning_tokens <= max(reasoning, opening)


@given(CASE)
@settings(max_examples=100)
def test_chunks_and_servers_with_a_mind_of_their_own_change_nothing(case: Case) -> None:
    _, odd = case.run()
    case.replies = ({}, {})
    _, plain = case.run()
    note(str(odd.segments))
    assert [(s.role, s.reason, s.cause, s.cue, s.text, s.ids) for s in odd.segments] == [
        (s.role, s.reason, s.cause, s.cue, s.text, s.ids) for s in plain.segments
    ]


@given(CASE, st.integers(1, 60))
@settings(max_examples=100)
def test_events_come_in_the_order_that_is_promised(case: Case, most: int) -> None:
    case.options = {"max_tokens": most}
    events, _ = case.run()
    assert_in_order(events)


@given(CASE, ROLE, st.integers(0, 12))
@settings(max_examples=150)
def test_failures_lose_and_repeat_nothing(case: Case, role: str, after: int) -> None:
    failing = {**case.replies[0], "fail_after": after}
    case.replies = (failing, case.replies[1]) if role == "large" else (case.replies[0], failing)
    if len(case.policy.roles) < 2:
        case.policy = RandomPolicy(p=0.5)
    case.rules = {"retries": 1, "cool_down_after": 1000}
    _, result = case.run()
    assert (result.reasoning, result.text, False) == case.expected()
    assert "".join(segment.text for segment in result.segments) == case.raw
    assert result.finish_reason == "stop"


INSIDE = '{"name": "f", "arguments": {"a": "So, it is. Thus, 1.5"}}'
CALL = f"<tool_call>\n{INSIDE}\n</tool_call>"


@given(CASE, st.lists(st.sampled_from(["We ask. ", "So, it is", CALL, CALL + "\n", ".\n\n"]), max_size=6).map("".join))
@settings(max_examples=100)
def test_one_role_writes_a_whole_tool_call(case: Case, answer: str) -> None:
    case = replace(case, text=case.text.partition("</think>")[0] + "</think>" + answer if OPENED in case.text else answer)
    case.options = {"tools": [WEATHER]}
    _, result = case.run()
    assert "".join(segment.text for segment in result.segments) == case.raw
    assert [call.arguments for call in result.tool_calls] == ['{"a": "So, it is. Thus, 1.5"}'] * answer.count(CALL)
    assert sum(segment.text.count(INSIDE) for segment in result.segments) == answer.count(CALL)


@given(BODY, SPLITS)
def test_a_vocabulary_loses_nothing(text: str, split: Any) -> None:
    vocabulary = Vocabulary(split)
    assert vocabulary.bytes_of([*vocabulary.encode(text), EOS]).decode() == text


@given(CASE, st.integers(0, 30))
@settings(max_examples=50)
def test_a_stream_that_is_left_early_has_shown_the_beginning_of_the_text(case: Case, steps: int) -> None:
    with relay(*case.pair(), policy=case.policy) as engine:
        stream = engine.stream("hi", seed=1)
        seen = [e for e, _ in zip(stream, range(steps), strict=False)]
        stream.close()
        assert running(engine) == 0
    reasoning, answer, _ = case.expected()
    assert reasoning.startswith(said(seen, "reasoning"))
    assert answer.startswith(said(seen))
