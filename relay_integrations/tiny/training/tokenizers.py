"""The two byte-level tokenizers: that of the pair, and another one for a small model whose vocabulary is its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from relay_integrations.tiny.training.mix import draw_problem

_TEMPLATE = Path(__file__).parent / "chat_template.jinja"
_WINDOW = 4096

_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>")

_CORPUS_SEED = "tokenizer"
_CORPUS_PROBLEMS = 30_000


@dataclass(frozen=True, slots=True)
class TokenizerRecipe:
    """What makes a tokenizer.

    Attributes:
        entries: Size of the vocabulary at most, tags included.
        pattern: Splits text into the pieces that merges stay within.
        turn_open, turn_close, padding: Its special tokens; `turn_close` ends a turn.
    """

    entries: int
    pattern: str
    turn_open: str
    turn_close: str
    padding: str


PAIR = TokenizerRecipe(
    entries=1536,
    pattern=r"\n\n|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]|\s+(?!\S)|\s+",
    turn_open="<|im_start|>",
    turn_close="<|im_end|>",
    padding="<|endoftext|>",
)
"""Digits one by one; a blank line is a token of its own."""

OTHER = TokenizerRecipe(
    entries=1024,
    pattern=r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    turn_open="<|turn|>",
    turn_close="<|end|>",
    padding="<|pad|>",
)
"""Numbers up to three digits in one token; a sentence's end may merge with the blank line behind it, as in Qwen's and Llama's."""


def train_tokenizer(recipe: TokenizerRecipe) -> Any:
    """Trains a tokenizer on problems of the train split and returns it in the class of `transformers`."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(recipe.pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    special = [recipe.padding, recipe.turn_open, recipe.turn_close]
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.entries - len(_TAGS),
        min_frequency=20,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=special,
        show_progress=False,
    )
    core.train_from_iterator(_corpus(), trainer)
    core.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in _TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=recipe.turn_close,
        pad_token=recipe.padding,
        additional_special_tokens=[recipe.turn_open, recipe.turn_close],
        model_max_length=_WINDOW,
        clean_up_tokenization_spaces=False,
    )
    template = _TEMPLATE.read_text(encoding="utf-8")
    tokenizer.chat_template = template.replace("@OPEN@", recipe.turn_open).replace("@CLOSE@", recipe.turn_close)
    return tokenizer


def _corpus() -> Iterator[str]:
    """The texts of the training mix; of the prompts that frameworks repeat, as often as they come."""
    rng = Random(_CORPUS_SEED)
    for _ in range(_CORPUS_PROBLEMS):
        problem = draw_problem(rng)
        yield from (message.content for message in problem.messages)
        yield from (json.dumps(tool, ensure_ascii=False) for tool in problem.tools)
        texts = [problem.trace, *(exchange.text for exchange in problem.exchanges)]
        for text in texts:
            for tag in _TAGS:
                text = text.replace(tag, "\n")
            yield text
    for role in ("system", "user", "assistant"):
        yield from [f"{role}\n"] * 100
