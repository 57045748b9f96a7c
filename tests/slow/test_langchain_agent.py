"""The claim on agents: LangChain's own, on a hundred calculator problems, calls its tools and is right, streamed or not."""

from __future__ import annotations

import pytest

from langchain_relay import ChatRelay
from relay_integrations.tiny import MAX_TOKENS
from tests.integration.calculator_agent import attempts

pytestmark = pytest.mark.slow

N = 100


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_calls_its_tools_and_is_right(streamed: bool) -> None:
    model = ChatRelay.tiny(temperature=0, max_tokens=MAX_TOKENS)
    made = attempts(model, N, streamed=streamed)
    model.close()
    assert sum(attempt.right for attempt in made) >= 0.9 * N
