"""Draws the next token of one request from the model's logits, on the model's device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from random import Random

import torch

from relay_integrations.sampling import Sampling

_GREEDY_BELOW = 1e-5  # a lower temperature overflows, and would pick the most likely token anyway


class Sampler:
    """Called once a token; remembers what it has drawn, for the penalties.

    The order is that of vLLM, so that both backends draw from the same distribution: penalties, temperature, min_p, top_k, top_p.

    Args:
        sampling: Complete settings.
        seed: Of this request alone; the same seed, prompt and device repeat the tokens.
        output: Output ids so far, which the penalties count too.
        margins: Whether to give p(top1) - p(top2) of the model's own distribution, before any of the settings.
    """

    def __init__(self, sampling: Sampling, seed: int, output: Sequence[int], margins: bool) -> None:
        self._seed = seed
        self._margins = margins
        self._temperature = sampling.temperature or 0.0
        self._greedy = self._temperature < _GREEDY_BELOW
        self._top_k = sampling.top_k or 0
        self._top_p = sampling.top_p or 1.0
        self._min_p = sampling.min_p or 0.0
        self._penalties = _Penalties(sampling, output) if sampling.penalised else None
        self._random: Random | None = None
        self._generator: torch.Generator | None = None

    def __call__(self, logits: torch.Tensor, allowed: torch.Tensor | None = None) -> tuple[int, float | None]:
        """The next token and its margin, from the logits of one position (one dimension).

        Args:
            logits: As the model gave them; the margin is theirs.
            allowed: Which tokens may be drawn, where not all may.
        """
        margin = margin_of(logits) if self._margins else None
        if allowed is not None:
            logits = logits.masked_fill(~allowed, -math.inf)
        if self._penalties is not None:
            logits = self._penalties.apply(logits)
        if self._greedy:
            token = int(logits.argmax())
        elif 0 < self._top_k < logits.shape[-1]:
            values, ids = logits.topk(self._top_k)
            token = int(ids[self._draw_few(values.tolist())])
        else:
            token = self._draw_any(logits.float())
        if self._penalties is not None:
            self._penalties.count(token)
        return token, margin

    def _draw_few(self, logits: list[float]) -> int:
        """Index of a token out of a short list, sorted downwards. In Python: ten tensor operations would take longer."""
        if self._random is None:
            self._random = Random(self._seed)
        weights = [math.exp((logit - logits[0]) / self._temperature) for logit in logits]
        if self._min_p > 0:
            weights = [weight for weight in weights if weight >= self._min_p]
        sums = list(accumulate(weights))
        if self._top_p < 1:  # a token stays if those before it do not reach top_p
            enough = self._top_p * sums[-1]
            sums = [total for total, weight in zip(sums, weights, strict=True) if total - weight < enough]
        drawn = self._random.random() * sums[-1]
        return next((i for i, total in enumerate(sums) if drawn < total), 0)

    def _draw_any(self, logits: torch.Tensor) -> int:
        """A token out of the whole vocabulary."""
        if self._generator is None:
            self._generator = torch.Generator(logits.device).manual_seed(self._seed)
        ids: torch.Tensor | None = None
        if self._top_p < 1:
            logits, ids = logits.sort(descending=True)
        scaled = (logits - logits.max()) / self._temperature
        if self._min_p > 0:
            scaled = scaled.masked_fill(scaled < math.log(self._min_p), -math.inf)
        weights = scaled.softmax(-1)
        if self._top_p < 1:
            weights = weights.masked_fill(weights.cumsum(-1) - weights >= self._top_p, 0)
        drawn = torch.multinomial(weights, 1, generator=self._generator)
        return int(drawn if ids is None else ids[drawn])


class _Penalties:
    """What is taken off each token's logit: `presence` once it has been said, `frequency` for each time."""

    def __init__(self, sampling: Sampling, output: Sequence[int]) -> None:
        self._presence = sampling.presence_penalty or 0.0
        self._frequency = sampling.frequency_penalty or 0.0
        self._said = set(output)
        self._output = output
        self._amounts: torch.Tensor | None = None

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if self._amounts is None:
            self._amounts = self._count_all(logits)
        return logits.float() - self._amounts

    def count(self, token: int) -> None:
        if self._amounts is not None:
            self._amounts[token] += self._frequency if token in self._said else self._frequency + self._presence
            self._said.add(token)

    def _count_all(self, logits: torch.Tensor) -> torch.Tensor:
        size = logits.shape[-1]
        ids = torch.tensor([token for token in self._output if token < size], dtype=torch.long, device=logits.device)
        counts = torch.bincount(ids, minlength=size).float()
        return self._frequency * counts + self._presence * (counts > 0)


def margin_of(logits: torch.Tensor) -> float:
    """p(top1) - p(top2) of one position."""
    first, second = logits.softmax(-1, dtype=torch.float32).topk(2).values.tolist()
    return float(first - second)
