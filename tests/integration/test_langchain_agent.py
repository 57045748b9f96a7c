"""An agent on real weights: LangChain's own, its calculator really called, its answers right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from langchain_relay import ChatRelay
from relay_integrations.tiny import MAX_TOKENS
from tests.integration.calculator_agent import attempts

PROBLEMS = 25  # tests/slow has a hundred


@pytest.fixture(scope="module")
def model() -> Iterator[ChatRelay]:
    made = ChatRelay.tiny(temperature=0, max_tokens=MAX_TOKENS)
    yield made
    made.close()


@pytest.mark.parametrize("streamed", [False, True])
def test_it_calls_its_tools_and_answers_right(model: ChatRelay, streamed: bool) -> None:
    made = attempts(model, PROBLEMS, streamed=streamed)
    assert sum(attempt.right for attempt in made) >= 0.9 * PROBLEMS
    assert not streamed or all(attempt.pieces > 1 for attempt in made)
