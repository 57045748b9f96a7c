"""How the transformers backend draws tokens: greedy and sampled, penalties, margins, seeds."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from relay_integrations.backends.kv_cache import Runner
from relay_integrations.backends.sampler import Sampler, margin_of
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.sampling import NEUTRAL, Sampling
from tests.integration.support import generate, ids_of, pair_tokenizer, prompt_of, random_backend


def test_padding_and_gaps_of_the_vocabulary_are_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = pair_tokenizer()
    backend = random_backend(tokenizer)
    size = len(tokenizer)
    logits = torch.zeros(1, 1, size + 5)
    logits[..., size:] = 100
    logits[..., 7] = 50
    monkeypatch.setattr(backend, "_runner", _runner_with(logits, size, ()))
    assert ids_of(generate(backend, [1, 2], 3)) == [7, 7, 7]
    monkeypatch.setattr(backend, "_runner", _runner_with(logits, size, (7,)))
    for sampling in (Sampling(temperature=5), Sampling(temperature=5, top_k=size), Sampling(temperature=5, top_p=0.999)):
        drawn = ids_of(generate(backend, [1, 2], 300, sampling=sampling))
        assert 7 not in drawn
        assert max(drawn) < size


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0),
        Sampling(temperature=5),
        Sampling(temperature=5, top_k=50),
        Sampling(temperature=5, top_k=2, min_p=0.1),
        Sampling(temperature=5, top_p=0.9),
        Sampling(temperature=5, presence_penalty=2, frequency_penalty=2),
    ],
    ids=str,
)
def test_what_may_not_come_is_never_drawn_however_likely_it_is(sampling: Sampling) -> None:
    logits = torch.linspace(0, 10, 100)
    allowed = torch.zeros(100, dtype=torch.bool)
    allowed[[3, 40, 41]] = True
    sampler = Sampler(sampling.over(NEUTRAL), 1, [99, 41], margins=True)
    drawn = [sampler(logits, allowed) for _ in range(60)]
    assert {token for token, _ in drawn} <= {3, 40, 41}
    assert {margin for _, margin in drawn} == {margin_of(logits)}


def test_margins_are_those_of_the_plain_distribution(large: TransformersBackend) -> None:
    prompt = prompt_of(large)
    plain = generate(large, prompt, 40, top2=True)
    assert ids_of(plain) == ids_of(generate(large, prompt, 40))
    scores = asyncio.run(large.score([*prompt, *ids_of(plain)], len(prompt)))
    expected = [a - b for a, b in zip(scores.top1, scores.top2, strict=True)]
    assert [c.margins[0] for c in plain if c.margins] == pytest.approx(expected, abs=1e-4)
    hot = generate(large, prompt, 3, top2=True, sampling=Sampling(temperature=3, top_k=5, presence_penalty=2))
    assert hot[0].margins == plain[0].margins
    assert generate(large, prompt, 1)[0].margins is None


def test_sampling_repeats_with_its_seed_and_differs_with_another(large: TransformersBackend) -> None:
    prompt = prompt_of(large)
    for sampling in (Sampling(temperature=2.0), Sampling(temperature=2.0, top_k=50), Sampling(temperature=2.0, top_p=0.9)):
        first, again, other = (ids_of(generate(large, prompt, 40, sampling=sampling, seed=seed)) for seed in (3, 3, 4))
        assert first == again
        assert first != other


def test_top_k_1_and_tiny_temperatures_are_greedy(large: TransformersBackend) -> None:
    prompt = prompt_of(large)
    greedy = ids_of(generate(large, prompt, 30))
    for sampling in (Sampling(temperature=2, top_k=1), Sampling(temperature=1e-30), Sampling(temperature=2, top_p=1e-6)):
        assert ids_of(generate(large, prompt, 30, sampling=sampling)) == greedy
    assert ids_of(generate(large, prompt, 30, sampling=Sampling(temperature=2, min_p=1.0))) == greedy


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.5, 0.3, 0.15, 0.05]),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.75}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.75, "top_k": 3}, [0.625, 0.375, 0, 0]),
        ({"min_p": 0.25}, [0.5263, 0.3158, 0.1579, 0]),
        ({"min_p": 0.25, "top_k": 3, "top_p": 0.9}, [0.5263, 0.3158, 0.1579, 0]),
        ({"temperature": 0.5}, [0.6849, 0.2466, 0.0616, 0.0068]),
        ({"temperature": 0.5, "top_k": 3}, [0.6897, 0.2483, 0.0621, 0]),
        ({"presence_penalty": 1.0}, [0.2689, 0.4386, 0.2193, 0.0731]),
        ({"frequency_penalty": 0.5}, [0.2689, 0.4386, 0.2193, 0.0731]),
    ],
)
def test_drawn_shares_follow_the_settings(settings: Any, expected: list[float]) -> None:
    logits = torch.tensor([0.15, 0.5, 0.05, 0.3]).log()
    order = [1, 3, 0, 2]  # of the probabilities, downwards
    settings = Sampling(**settings).over(NEUTRAL)
    drawn = [Sampler(settings, seed, [1, 1], False)(logits)[0] for seed in range(3000)]  # the output so far is id 1, twice
    shares = [drawn.count(token) / len(drawn) for token in order]
    assert shares == pytest.approx(expected, abs=0.03)
    assert [share for share, p in zip(shares, expected, strict=True) if p == 0] == [0] * expected.count(0)


def test_penalties_count_the_whole_output_and_nothing_before_it(large: TransformersBackend) -> None:
    prompt = prompt_of(large)
    penalised = Sampling(temperature=0, frequency_penalty=2.0, presence_penalty=2.0)  # the most there is: the model is sure of itself
    whole = ids_of(generate(large, prompt, 60, sampling=penalised))
    assert whole != ids_of(generate(large, prompt, 60))
    hops = list(prompt)
    while len(hops) < len(prompt) + 60:
        hops += ids_of(generate(large, hops, 20, sampling=penalised, output_start=len(prompt), keep=True))
    asyncio.run(large.release("s"))
    assert hops[len(prompt) :] == whole


def _runner_with(logits: torch.Tensor, size: int, gaps: tuple[int, ...]) -> Any:
    class Model:
        config = SimpleNamespace()
        device = torch.device("cpu")

        def forward(self, **_: Any) -> Any:
            return SimpleNamespace(logits=logits)

        __call__ = forward

    runner = Runner(Model(), size, gaps)
    runner.new_cache = lambda: None  # type: ignore[method-assign]
    return runner
