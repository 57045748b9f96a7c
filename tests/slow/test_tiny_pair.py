"""The claim of RelayGen on the shipped pair: as right as the large model alone, with a good part of its tokens left to the small one."""

from __future__ import annotations

import pytest
import torch

from relay_integrations import Policy, RelayEngine, make_policy
from relay_integrations.tiny.task import HELD_OUT_SEED, is_right, problems

pytestmark = pytest.mark.slow

N = 100


def accuracy_and_share(engine: RelayEngine, policy: str | Policy) -> tuple[float, float]:
    right = large = tokens = 0
    for problem in problems(N, seed=HELD_OUT_SEED):
        result = engine.generate(problem.question, policy=policy, max_tokens=700)
        right += is_right(problem, result.text)
        large += result.usage.large_tokens
        tokens += result.usage.completion_tokens
    return right / N, large / tokens


def test_relay_is_as_right_as_the_large_model_and_random_delegation_is_not() -> None:
    torch.set_num_threads(1)
    with RelayEngine.tiny() as engine:
        large, _ = accuracy_and_share(engine, "large-only")
        small, _ = accuracy_and_share(engine, "small-only")
        relay, share = accuracy_and_share(engine, "relaygen")
        by_chance, chance_share = accuracy_and_share(engine, make_policy("random", p=0.32))
    assert large >= 0.97
    assert small <= large - 0.3
    assert relay >= large - 0.02
    assert share <= 0.72
    assert chance_share >= share - 0.02, "random was given a harder job than the relay"
    assert by_chance <= relay - 0.15
