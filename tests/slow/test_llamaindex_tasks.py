"""The claims on LlamaIndex: a hundred calculator problems by FunctionAgent, and fifty questions over retrieved context."""

from __future__ import annotations

import pytest

from llamaindex_relay import Relay
from relay_integrations.evaluation.statistics import Pairs, newcombe_paired
from relay_integrations.tiny import MAX_TOKENS
from tests.integration.llamaindex_tasks import agent_attempts, answers_from_context

pytestmark = pytest.mark.slow


def test_an_agent_calls_its_tools_and_is_right() -> None:
    llm = Relay.tiny(temperature=0, max_tokens=MAX_TOKENS)
    made = agent_attempts(llm, 100)
    llm.close()
    assert sum(attempt.right for attempt in made) >= 90


def test_over_retrieved_context_the_relay_is_as_often_right_as_the_large_model_alone() -> None:
    llm = Relay.tiny(temperature=0, max_tokens=MAX_TOKENS)
    relayed = answers_from_context(llm, 50)
    llm.close()
    alone_llm = Relay.tiny(temperature=0, max_tokens=MAX_TOKENS, policy="large-only")
    alone = answers_from_context(alone_llm, 50)
    alone_llm.close()
    counts = [0, 0, 0, 0]
    for mine, other in zip(relayed, alone, strict=True):
        counts[2 * (not mine) + (not other)] += 1
    low, high = newcombe_paired(Pairs(*counts))
    assert low <= 0 <= high
    assert sum(relayed) >= 45
