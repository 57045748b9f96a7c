"""A Hugging Face tokenizer as the relay needs it: text that continues other text, and the bytes of single ids.

Two things differ from the tokenizer's own `encode` and `decode`. A text is never taken as the start of a sequence, so no space
is added to it or taken from it. And what a special token would read as is text like any other; only tags count as tokens.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from relay_integrations.backends.detokenize import ByteDetokenizer, Detokenizer, DiffDetokenizer

_ANCHORS = ("\n", "a", ".")  # texts to put in front of another; each fails where it merges with what follows
_PROBES = ("x", " x", "\nx")
_SAMPLE = "So, aé 你好 🙂 = 12.\n\nx"


class TokenBytes(dict[int, bytes | None]):
    """The bytes of each id, found when first asked for; None for an id without text."""

    def __init__(self, find: Callable[[int], bytes | None]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, token: int) -> bytes | None:
        found = self[token] = self._find(token)
        return found


class Vocabulary:
    """Text to ids and back.

    Args:
        tokenizer: A `transformers` tokenizer.
        tags: Texts that are tokens of their own and have text even where they are special: think and tool-call tags.
        silent: Ids without text besides the special tokens.

    Attributes:
        size: One more than the largest id.
        gaps: Ids below it that stand for nothing.
        fingerprint: Hash over all tokens and how text is split and put together; equal where ids can be exchanged.
    """

    def __init__(self, tokenizer: Any, tags: Iterable[str] = (), silent: Iterable[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._rust = getattr(tokenizer, "backend_tokenizer", None)  # None for a tokenizer in Python
        if self._rust is not None:
            self._rust.no_truncation()
            self._rust.no_padding()
        vocab: dict[str, int] = tokenizer.get_vocab()
        self._tags = {tag: vocab[tag] for tag in tags if tag in vocab}
        self._split_tags = re.compile("|".join(map(re.escape, sorted(self._tags, key=len, reverse=True))) or r"(?!)")
        self._added = {int(token): added for token, added in tokenizer.added_tokens_decoder.items()}
        special = {token for token, added in self._added.items() if added.special} | set(tokenizer.all_special_ids)
        self._silent = (special - set(self._tags.values())) | set(silent)
        self.size = max(vocab.values()) + 1
        self.gaps = tuple(sorted(set(range(self.size)) - set(vocab.values())))
        self.fingerprint = _fingerprint(vocab, self._rust)
        self._table = self._token_bytes()

    def encode(self, text: str) -> list[int]:
        """Ids of a text that continues another. Tags become their tokens; special tokens' names stay text."""
        ids: list[int] = []
        for part in self._parts(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode_plain(part)
        return ids

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of a rendered chat template, whose special tokens are meant as such. None is added."""
        return self._raw(text, special=True)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out; bytes that are no whole character become U+FFFD."""
        detokenizer = self.detokenizer()
        return "".join([*map(detokenizer.push, ids), detokenizer.flush()])

    def detokenizer(self, prompt: Sequence[int] = ()) -> Detokenizer:
        """A detokenizer for ids that follow the prompt."""
        if self._table is None:
            return DiffDetokenizer(self._continue, self._silent.__contains__, prompt)
        return ByteDetokenizer(self._table, prompt)

    def _parts(self, text: str) -> Iterator[str | int]:
        """The text cut at its tags, which come as ids."""
        position = 0
        for match in self._split_tags.finditer(text):
            yield text[position : match.start()]
            yield self._tags[match.group()]
            position = match.end()
        yield text[position:]

    def _encode_plain(self, text: str) -> list[int]:
        if not text:
            return []
        if self._exact:
            return self._raw(text)
        found: list[int] | None = None
        for anchor in _ANCHORS:
            head, ids = self._raw(anchor), self._raw(anchor + text)
            if ids[: len(head)] != head:
                continue
            rest = ids[len(head) :]
            if self.decode(rest) == text:
                return rest
            found = found or rest  # near enough where the vocabulary cannot write the text at all
        return self._raw(text) if found is None else found

    @cached_property
    def _exact(self) -> bool:
        """Whether the tokenizer adds nothing to the start of a text."""
        return all(self.decode(self._raw(probe)) == probe for probe in _PROBES)

    def _raw(self, text: str, special: bool = False) -> list[int]:
        """The tokenizer's own ids; the names of special tokens are read as such only if `special`."""
        if self._rust is None:
            return list(self._tokenizer(text, add_special_tokens=False, split_special_tokens=not special)["input_ids"])
        self._rust.encode_special_tokens = not special
        try:
            return list(self._rust.encode(text, add_special_tokens=False).ids)
        finally:
            self._rust.encode_special_tokens = False

    def _continue(self, ids: Sequence[int]) -> str:
        """The tokenizer's own text of ids that follow another text, none of whose spaces are eaten."""
        anchor, length = self._anchor
        return self._own_text([*anchor, *ids])[length:]

    @cached_property
    def _anchor(self) -> tuple[list[int], int]:
        ids = self._raw("a")
        return ids, len(self._own_text(ids))

    def _own_text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _token_bytes(self) -> TokenBytes | None:
        """The table of bytes, if ids have fixed ones."""
        read = _piece_reader(self._rust)
        if read is None:
            return None
        table = TokenBytes(lambda token: self._bytes(token, read))
        ids = [token for token in self._raw(_SAMPLE) if token not in self._silent]
        joined = b"".join(table[token] or b"" for token in ids).decode(errors="replace")
        return table if joined.strip() == self._own_text(ids).strip() else None

    def _bytes(self, token: int, read: Callable[[str], bytes]) -> bytes | None:
        if token in self._silent:
            return None
        if token in self._added:
            return str(self._added[token].content).encode()
        piece: str | None = self._tokenizer.convert_ids_to_tokens(token)
        return None if piece is None else read(piece)


def _fingerprint(vocab: dict[str, int], rust: Any) -> str:
    tokens = sorted((token, text) for text, token in vocab.items())
    shape = [type(getattr(rust, part, None)).__name__ for part in ("pre_tokenizer", "decoder")]
    return hashlib.sha256(json.dumps([shape, tokens]).encode()).hexdigest()


def _piece_reader(rust: Any) -> Callable[[str], bytes] | None:
    """How this tokenizer's decoder turns one token into bytes; None where that depends on the tokens around it."""
    if rust is None or rust.decoder is None:
        return None
    steps = list(_flat(json.loads(rust.decoder.__getstate__())))
    kinds = {step["type"] for step in steps}
    if kinds == {"ByteLevel"}:
        return _byte_level
    # What is stripped is the start of a whole text, and a relay only continues one.
    if not kinds <= {"Metaspace", "Replace", "ByteFallback", "Fuse", "Strip"} or not kinds & {"Metaspace", "Replace"}:
        return None
    spaces = [_replacement(step) for step in steps if step["type"] in ("Metaspace", "Replace")]
    if None in spaces:
        return None
    pairs = [pair for pair in spaces if pair]
    byte_fallback = "ByteFallback" in kinds

    def read(piece: str) -> bytes:
        if byte_fallback and (match := re.fullmatch("<0x([0-9A-F]{2})>", piece)):
            return bytes.fromhex(match[1])
        for mark, text in pairs:
            piece = piece.replace(mark, text)
        return piece.encode()

    return read


def _flat(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if step["type"] == "Sequence":
        for inner in step["decoders"]:
            yield from _flat(inner)
    else:
        yield step


def _replacement(step: dict[str, Any]) -> tuple[str, str] | None:
    if step["type"] == "Metaspace":
        return step["replacement"], " "
    mark = step["pattern"].get("String")  # a regular expression may look beyond the token
    return (mark, step["content"]) if mark else None


def _byte_level(piece: str) -> bytes:
    try:
        return bytes(map(_BYTES.__getitem__, piece))
    except KeyError:  # not written in the byte alphabet: stands for itself
        return piece.encode()


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-in for each byte in byte-level vocabularies: itself, or the next free code point from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    rest = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(256 + i): byte for i, byte in enumerate(rest)}}


_BYTES = _byte_alphabet()
