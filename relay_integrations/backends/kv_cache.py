"""The KV cache of one model for one relay, and the forward passes that fill it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import torch
from transformers import DynamicCache


class Runner:
    """One model's forward pass.

    Args:
        model: A `transformers` causal language model.
        size: Logits beyond this many ids are cut off: vocabularies are padded, and padding must never be sampled.
        gaps: Ids below `size` that stand for nothing, for the same reason.
    """

    def __init__(self, model: Any, size: int, gaps: Sequence[int] = ()) -> None:
        parameters = inspect.signature(type(model).forward).parameters
        # transformers 5.24 renamed `past_key_values`; models with code of their own may still have the old name
        self._cache_argument = "cache" if "cache" in parameters or "past_key_values" not in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        self._model = model
        self._size = size
        self._gaps = torch.tensor(gaps, dtype=torch.long) if gaps else None
        self.device: torch.device = model.device

    def new_cache(self) -> Any:
        """An empty cache, laid out as the model's layers need it."""
        return DynamicCache(config=self._model.config)

    def last(self, ids: Sequence[int], cache: Any) -> torch.Tensor:
        """Feeds ids behind what the cache holds; the logits of the last position, in one dimension."""
        return self._without_gaps(self._forward(ids, cache, 1)[0, -1, : self._size])

    def rows(self, ids: Sequence[int], cache: Any) -> torch.Tensor:
        """Feeds ids behind what the cache holds; the logits of all of them, one row each."""
        return self._without_gaps(self._forward(ids, cache, 0)[0, :, : self._size])

    def _forward(self, ids: Sequence[int], cache: Any, keep: int) -> torch.Tensor:
        arguments = {self._cache_argument: cache}
        if self._keeps_logits:
            arguments["logits_to_keep"] = keep  # 0 keeps all
        with torch.inference_mode():
            logits: torch.Tensor = self._model(input_ids=torch.tensor([ids], device=self.device), use_cache=True, **arguments).logits
            return logits

    def _without_gaps(self, logits: torch.Tensor) -> torch.Tensor:
        return logits if self._gaps is None else logits.index_fill(-1, self._gaps.to(logits.device), -torch.inf)


class SessionCache:
    """What one model has read of one relay. `ids` are always exactly those that the cache holds.

    Attributes:
        ids: The ids in the cache.
        busy: Whether a generation is using it.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.busy = False
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self.ids: list[int] = []
        self._cache = self._runner.new_cache()

    def align(self, prompt: list[int]) -> int:
        """Keeps what the prompt begins with and drops the rest; how many ids are kept, at most all but one.

        One is left over because the forward pass of the last id is what yields the next.
        """
        common = _common_prefix(self.ids, prompt[:-1])
        self._crop(len(self.ids) - common)
        return len(self.ids)

    def feed(self, ids: Sequence[int]) -> torch.Tensor:
        """Reads further ids; the logits of the last one, in one dimension."""
        return self._read(self._runner.last, ids)

    def feed_rows(self, ids: Sequence[int]) -> torch.Tensor:
        """Reads further ids; the logits of each, one row each."""
        return self._read(self._runner.rows, ids)

    def _read(self, run: Callable[[Sequence[int], Any], torch.Tensor], ids: Sequence[int]) -> torch.Tensor:
        try:
            logits = run(ids, self._cache)
        except BaseException:
            self.reset()  # some layers may hold the new ids and some not
            raise
        self.ids += ids
        return logits

    def _crop(self, count: int) -> None:
        """Drops the last `count` ids, or all of them where the cache has no way back (sliding windows, recurrent states)."""
        if not count:
            return
        try:
            if self._cache.is_croppable:
                with torch.inference_mode():
                    self._cache.crop(-count)
                del self.ids[-count:]
                return
        except RuntimeError:  # a sliding window that is full
            pass
        self.reset()


def _common_prefix(a: list[int], b: list[int]) -> int:
    if b[: len(a)] == a:  # the usual case, and a fast one
        return len(a)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
