"""Writes styled text to a console as it arrives: on a terminal in lines that break between words, elsewhere as it is."""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter

from rich.cells import cell_len
from rich.console import Console

_PIECES = re.compile(r"\n|[^\S\n]+|\S+")
_LONGEST_HELD = 32  # cells; what is longer is written before its end is known, and may break anywhere
_TAB = "    "

# A model's text must not steer the terminal: control characters show as pictures.
_HARMLESS: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_HARMLESS |= {code: "\N{REPLACEMENT CHARACTER}" for code in range(0x7F, 0xA0)} | {ord("\r"): None, ord("\t"): _TAB}


class TextFlow:
    """A stream of styled text.

    Args:
        console: Where it goes. Only a terminal gets styles and lines of its width.

    Attributes:
        used: Whether anything was written.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._terminal = console.is_terminal
        self._word: list[tuple[str, str]] = []
        self._word_cells = 0
        self._blank = ("", "")
        self._column = 0
        self._codes: dict[str, tuple[str, str]] = {}
        self.used = False

    def write(self, text: str, style: str = "") -> None:
        """Writes text; the last word stays back until it is known to be whole."""
        if not text:
            return
        self.used = True
        if not self._terminal:
            self._column = 0 if text.endswith("\n") else 1
            self._console.file.write(text)
        else:
            for piece in _PIECES.findall(text.translate(_HARMLESS)):
                self._take(piece, style)
        self._console.file.flush()

    def flush(self) -> None:
        """Writes what stays back."""
        self._end_word()
        self._console.file.flush()

    def end_line(self) -> None:
        """Ends the current line, if there is anything in it."""
        self.flush()
        if self._column:
            self.write("\n")

    def _take(self, piece: str, style: str) -> None:
        if piece == "\n":
            self._end_word()
            self._console.file.write("\n")
            self._column, self._blank = 0, ("", "")
        elif piece.isspace():
            self._end_word()
            self._blank = (self._blank[0] + piece, style)
        else:
            self._add(piece, style)

    def _add(self, piece: str, style: str) -> None:
        """Adds to the current word. Wide characters (Chinese, Japanese) need no space between them to break a line."""
        if cell_len(piece) == len(piece):
            self._add_narrow(piece, style)
            return
        for char in piece:
            self._add_narrow(char, style)
            if cell_len(char) > 1:
                self._end_word()

    def _add_narrow(self, piece: str, style: str) -> None:
        self._word.append((piece, style))
        self._word_cells += cell_len(piece)
        if self._word_cells >= _LONGEST_HELD:
            self._end_word()

    def _end_word(self) -> None:
        """Writes the current word, on a new line if it has no room in this one."""
        if not self._word:
            return
        width, (blank, style) = self._console.width, self._blank
        if self._column and self._column + len(blank) + self._word_cells > width:
            self._console.file.write("\n")
            self._column = 0
        elif blank:
            self._word.insert(0, (blank, style))
            self._column += len(blank)
        for style, pieces in groupby(self._word, key=itemgetter(1)):
            self._paint("".join(text for text, _ in pieces), style)
        self._column += self._word_cells
        if self._column > width:
            self._column %= width
        self._word, self._word_cells, self._blank = [], 0, ("", "")

    def _paint(self, text: str, style: str) -> None:
        # What rich writes around a text depends on the style alone; asking it once a style is fifty times faster than once a word.
        if style not in self._codes:
            with self._console.capture() as capture:
                self._console.out("x", style=style or None, end="", highlight=False)
            before, _, after = capture.get().partition("x")
            self._codes[style] = (before, after)
        before, after = self._codes[style]
        self._console.file.write(f"{before}{text}{after}")
