"""Text out of token ids, one id at a time: whole characters only, continuing the prompt.

Pure: no tokenizer is imported here. A detokenizer is a function of the sequence of ids alone, so that a sequence cut into two
requests at any id gives the same text as one request.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

_REPLACEMENT = "\ufffd"
_CONTEXT = 4  # ids of context for a decoder that looks at its neighbours


class Detokenizer(Protocol):
    """Turns ids into text as they come."""

    def push(self, token: int) -> str:
        """The text that this id completes; empty while a character is unfinished."""

    def flush(self) -> str:
        """What was held back, its unfinished character as U+FFFD."""


class ByteDetokenizer:
    """For tokenizers where each id stands for fixed bytes.

    The bytes of an id are held until they form whole characters, all of them: "a" and half of a "é" in one id come together.
    Bytes that can no longer become a character turn into U+FFFD.

    Args:
        table: The bytes of each id; None for an id without text (a special token), which also ends an unfinished character.
        prompt: What the text continues.
    """

    __slots__ = ("_pending", "_table")

    def __init__(self, table: Mapping[int, bytes | None], prompt: Sequence[int] = ()) -> None:
        self._table = table
        self._pending = b""
        start = len(prompt)
        while start and not _ends_whole(table[prompt[start - 1]]):
            start -= 1
        for token in prompt[start:]:
            self.push(token)

    def push(self, token: int) -> str:
        piece = self._table[token]
        if piece is None:
            return self.flush()
        if self._pending:
            piece = self._pending + piece
        text = _decode_whole(piece)
        self._pending = piece if text is None else b""
        return text or ""

    def flush(self) -> str:
        text = self._pending.decode(errors="replace")
        self._pending = b""
        return text


def _decode_whole(data: bytes) -> str | None:
    """The text of bytes that end with a character; None where the last one is unfinished."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        return None if decoder.getstate()[0] else text


def _ends_whole(piece: bytes | None) -> bool:
    """Whether no character can be unfinished behind this piece, whatever came before it."""
    if piece is None:
        return True
    return any(byte & 0xC0 != 0x80 for byte in piece) and _decode_whole(piece) is not None


class DiffDetokenizer:
    """For all other tokenizers: decodes the last few ids again and takes what is new.

    Args:
        text_of: The text of ids that continue another text.
        silent: Whether an id has no text (a special token).
        prompt: What the text continues.
    """

    __slots__ = ("_sent", "_silent", "_text_of", "_window")

    def __init__(self, text_of: Callable[[Sequence[int]], str], silent: Callable[[int], bool], prompt: Sequence[int] = ()) -> None:
        self._text_of = text_of
        self._silent = silent
        window: list[int] = []
        for token in prompt[-2 * _CONTEXT :]:
            window = [] if silent(token) else [*window, token]
        whole = len(window)
        while whole and text_of(window[:whole]).endswith(_REPLACEMENT):
            whole -= 1
        self._window = window
        self._sent = text_of(window[:whole])

    def push(self, token: int) -> str:
        if self._silent(token):
            return self.flush()
        self._window.append(token)
        text = self._text_of(self._window)
        if text.endswith(_REPLACEMENT):
            return ""
        new = text[len(self._sent) :]
        if len(self._window) > 2 * _CONTEXT:
            del self._window[:-_CONTEXT]
            text = self._text_of(self._window)
        self._sent = text
        return new

    def flush(self) -> str:
        new = self._text_of(self._window)[len(self._sent) :]
        self._window, self._sent = [], ""
        return new
