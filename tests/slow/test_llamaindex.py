"""The claims on LlamaIndex: its agent on a hundred calculator problems, its query engine on fifty questions about documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llamaindex_relay import Relay
from relay_integrations.evaluation.statistics import newcombe_paired
from relay_integrations.tiny import MAX_TOKENS
from tests.integration.llamaindex_tasks import attempts, compare_query_engines
from tests.unit.llamaindex_support import core_warns

pytestmark = [pytest.mark.slow, *core_warns]

AGENT_PROBLEMS, QUERIES = 100, 50


@pytest.fixture(scope="module")
def model() -> Iterator[Relay]:
    made = Relay.tiny(temperature=0, max_tokens=MAX_TOKENS)
    yield made
    made.close()


def test_a_function_agent_calls_its_tools_and_is_right(model: Relay) -> None:
    made = attempts(model, AGENT_PROBLEMS)
    assert sum(attempt.right for attempt in made) >= 0.9 * AGENT_PROBLEMS


def test_a_query_engine_is_right_as_often_as_with_the_large_model_alone(model: Relay) -> None:
    pairs = compare_query_engines(model, QUERIES)
    low, high = newcombe_paired(pairs)
    print(f"right: both {pairs.both}, the relay alone {pairs.first}, the large model alone {pairs.second}, neither {pairs.neither}")
    assert low <= 0 <= high
