"""The vocabulary of the scripted backend: one id a byte (0-255), and an id for each word that a script splits off."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable
from typing import Literal

EOS = 256
_FIRST_WORD = 257
_TOKEN = re.compile(r"</?\w+>|\s?\w+|[^\w\s]+\n*|\s", re.DOTALL)

Split = Literal["words", "bytes", "chars"]


class Vocabulary:
    """Ids of byte strings; backends that share one share their ids.

    Args:
        split: How text becomes tokens: "words" (a word with the space before it, a run of marks with the line breaks behind it),
            "chars" or "bytes" (one id a byte, so that a character may span tokens).
        salt: Any text, to tell vocabularies apart when reading a hash.
    """

    _made = itertools.count()

    def __init__(self, split: Split = "words", salt: str = "scripted") -> None:
        self.split: Split = split
        self.salt = salt
        self._number = next(self._made)  # ids are given in the order of use, so no two vocabularies agree
        self._ids: dict[bytes, int] = {}
        self._words: list[bytes] = []

    @property
    def hash(self) -> str:
        """What `Capabilities.vocabulary` says."""
        return hashlib.sha256(f"{self.split}:{self.salt}:{self._number}".encode()).hexdigest()

    def pieces(self, text: str) -> list[bytes]:
        """The byte strings that a text is made of."""
        if self.split == "bytes":
            return [bytes([b]) for b in text.encode()]
        return [piece.encode() for piece in (_TOKEN.findall(text) if self.split == "words" else text)]

    def id_of(self, piece: bytes) -> int:
        """The id of a byte string, a new one for a new string."""
        if len(piece) == 1:
            return piece[0]
        if piece not in self._ids:
            self._ids[piece] = _FIRST_WORD + len(self._words)
            self._words.append(piece)
        return self._ids[piece]

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return [self.id_of(piece) for piece in self.pieces(text)]

    def bytes_of(self, ids: Iterable[int]) -> bytes:
        """What ids stand for; the end of sequence stands for nothing."""
        return b"".join(bytes([i]) if i < EOS else b"" if i == EOS else self._words[i - _FIRST_WORD] for i in ids)


COMMON_VOCABULARY = Vocabulary()
"""Of all scripted backends that are given no other: ids pass between them."""


class Decoder:
    """Text of ids one by one, whole characters only, continuing what stands before."""

    def __init__(self, vocabulary: Vocabulary, before: bytes) -> None:
        self._vocabulary = vocabulary
        self._pending = b""
        for count in (1, 2, 3):
            tail = before[-count:]
            if tail and tail[0] >= 0xC0 and not _decodes(tail):
                self._pending = tail
                break
        self.begun = self._pending

    def feed(self, token: int) -> str:
        """The text that this id completes."""
        self._pending += self._vocabulary.bytes_of([token])
        try:
            text = self._pending.decode()
        except UnicodeDecodeError as e:
            if e.reason == "unexpected end of data":
                return ""
            text = self._pending.decode(errors="replace")
        self._pending = b""
        return text


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
