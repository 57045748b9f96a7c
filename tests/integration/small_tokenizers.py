"""Small tokenizers of other kinds than the tiny pair's, trained on a few lines."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.integration.support import TEMPLATE

LINES = [
    "So, Mia now has 90 coins. Thus, the number of coins is 12.",
    "hello world, the number becomes 3 times as large.\n\nAll steps are done.",
    "übergrößen ça va déjà été naïve 你好 世界",
] * 30
SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>", "<think>", "</think>"]


def wrap(tokenizer: Tokenizer, **more: Any) -> Any:
    """As a `transformers` tokenizer with a chat template and special think tags."""
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", **more)
    wrapped.chat_template = TEMPLATE
    return wrapped


def byte_level(prefix_space: bool) -> Any:
    """As GPT-2's and Qwen's; with `prefix_space`, a text gets a space in front."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(LINES, _trainer(initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    return wrap(tokenizer)


def llama_like(prepend: str = "always") -> Any:
    """SentencePiece with byte fallback, as Llama 2's and Mistral's."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.train_from_iterator(LINES, _trainer())
    return wrap(_with_byte_tokens(tokenizer))


def gemma_like() -> Any:
    """Spaces replaced by a normaliser, no prefix, byte fallback."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.train_from_iterator(LINES, _trainer())
    return wrap(_with_byte_tokens(tokenizer))


def unigram() -> Any:
    """SentencePiece's other model, without byte fallback: what it does not know is lost."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=200, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    )
    return wrap(tokenizer)


def suffix_bpe() -> Any:
    """Words marked by their end: a token's text depends on its neighbours, so there is no table of bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.train_from_iterator(LINES, _trainer(end_of_word_suffix="</w>"))
    return wrap(tokenizer)


def _trainer(**settings: Any) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False, **settings)


def _with_byte_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """Adds the 256 byte tokens to the vocabulary itself, where SentencePiece has them; a trainer would make them special."""
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    vocab.update({f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256)})
    return Tokenizer.from_str(json.dumps(data))
