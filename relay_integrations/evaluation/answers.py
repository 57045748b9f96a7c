"""Judged answers, and the file that keeps them: a run that was broken off goes on where it stood."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_type_hints

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.data import Item
from relay_integrations.roles import ROLES, Role

FORMAT = 1
"""Grows when a reader of older files would misread newer ones."""

_SETTINGS = b'{"type": "settings", '
"""How such a file begins."""

_SHOWN = 60

Key = tuple[str, int, str]
"""Item, sample and policy."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer by one policy to one item, judged.

    Attributes:
        item: Id of the item; `fingerprint` says what it held.
        policy: Who answered.
        sample: Which of several answers, from 0.
        seed: Repeats it.
        right, found, detail: The grade; an answer that failed is wrong.
        grader: Who judged.
        text: The answer; tool calls as lines of JSON.
        written: Who wrote what, in order, raw.
        finish_reason: Why it ended.
        tokens, large_tokens: Output tokens by both, and by the large model.
        handoffs: Changes of role.
        seconds: From the request to the result.
        cost: None without prices.
        bridged: Why one model went on alone after the other had failed, if it did.
        error: Why there is no whole answer, if there is none.
    """

    item: str
    fingerprint: str
    policy: str
    sample: int
    seed: int
    right: bool
    found: str | None
    detail: str
    grader: str
    text: str = ""
    written: tuple[tuple[Role, str], ...] = field(default=(), repr=False)
    finish_reason: str | None = None
    tokens: int = 0
    large_tokens: int = 0
    handoffs: int = 0
    seconds: float = 0.0
    cost: float | None = None
    bridged: str | None = None
    error: str | None = None

    @property
    def key(self) -> Key:
        """What it answers."""
        return self.item, self.sample, self.policy

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; a line of the file."""
        data = {name: getattr(self, name) for name in _FIELDS}
        segments = [{"role": role, "text": text} for role, text in self.written]
        return {"type": "answer", **data, "segments": segments}


_FIELDS = tuple(name for name in Answer.__dataclass_fields__ if name != "written")
_TYPES = get_type_hints(Answer)


def answer_from_dict(data: Mapping[str, Any]) -> Answer:
    """Reads what `Answer.to_dict` gives.

    Raises:
        KeyError, TypeError: It is something else.
    """
    if data["type"] != "answer":
        raise TypeError(f"its type is {data['type']!r}")
    for name in _FIELDS:
        if not isinstance(data[name], _TYPES[name]):
            raise TypeError(f"{name} is {_short(data[name])}")
    written = tuple((segment["role"], segment["text"]) for segment in data["segments"])
    if not all(role in ROLES and isinstance(text, str) for role, text in written):
        raise TypeError("a segment has no role or no text")
    return Answer(**{name: data[name] for name in _FIELDS}, written=written)


def fingerprint(item: Item, grader: str) -> str:
    """What an item asks, and how it is judged, in short: an answer to another question must not be taken for one to this."""
    asked = [message.model_dump(exclude_defaults=True) for message in item.messages]
    data = json.dumps([asked, item.reference, grader, item.tools], sort_keys=True)
    return hashlib.sha256(data.encode()).hexdigest()[:16]


class AnswerFile:
    """Keeps answers, one JSON object a line, as they come; its first line holds the settings. A context manager.

    A last line that was not written to its end is dropped.

    Args:
        path: The file; made where there is none. Until it is closed, no other run can have it.
        settings: As in `begin`, which need not be called then.

    Attributes:
        answers: All that it holds, the last for each key.

    Raises:
        ConfigError: It cannot be used; says why, and the way out.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path)
        self.answers: dict[Key, Answer] = {}
        self._made: dict[str, Any] | None = None
        try:
            self._file = self.path.open("a+b", buffering=0)
        except OSError as e:
            raise ConfigError(f"{str(path)!r} cannot be written: {e.strerror or e}; choose another file") from e
        try:
            self._claim()
            self._read()
            if settings is not None:
                self.begin(settings)
        except BaseException:
            self._file.close()
            raise

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Says what the answers depend on; to be called before the first is added.

        Raises:
            ConfigError: There are answers in it that were made with other settings.
        """
        wanted = json.loads(json.dumps(settings))
        if self._made is not None and self.answers:
            self._compare(self._made, wanted)
        elif wanted != self._made:
            self._file.truncate(0)
            self._write({"type": "settings", "format": FORMAT, **wanted})

    def add(self, answer: Answer) -> None:
        """Writes an answer, at once and to its end.

        Raises:
            ConfigError: The disk is full, or gone.
        """
        self.answers[answer.key] = answer
        self._write(answer.to_dict())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _claim(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            raise ConfigError(f"{str(self.path)!r} is no plain file, and so keeps nothing to go on from: choose another")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise ConfigError(f"{str(self.path)!r} is being written by another run: wait for it, or choose another file") from e
        except OSError:  # a file system without locks
            pass

    def _read(self) -> None:
        whole = 0  # bytes in lines that were written to their end
        self._file.seek(0)
        with open(self._file.fileno(), "rb", closefd=False) as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    if number == 1 and not _SETTINGS.startswith(line[: len(_SETTINGS)]):
                        raise self._foreign()
                    self._file.truncate(whole)
                    return
                self._take(number, line)
                whole += len(line)

    def _take(self, number: int, line: bytes) -> None:
        data: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            data = json.loads(line)
        if number == 1:
            self._made = self._settings(data)
            return
        if not isinstance(data, dict):
            raise ConfigError(f"{str(self.path)!r}, line {number} is not a JSON object: remove the line")
        try:
            answer = answer_from_dict(data)
        except (KeyError, TypeError) as e:
            raise ConfigError(f"{str(self.path)!r}, line {number} is no answer ({type(e).__name__}: {e}): remove the line") from e
        self.answers[answer.key] = answer

    def _settings(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict) or data.get("type") != "settings":
            raise self._foreign()
        if data.get("format") != FORMAT:
            raise ConfigError(f"{str(self.path)!r} has format {data.get('format')!r}, this release reads {FORMAT}: choose another file")
        return {name: value for name, value in data.items() if name not in ("type", "format")}

    def _foreign(self) -> ConfigError:
        return ConfigError(f"{str(self.path)!r} exists and holds something else: choose another file (nothing was changed)")

    def _compare(self, made: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        changed = [
            f"{name} was {_short(made.get(name))}, is {_short(wanted.get(name))}"
            for name in {**made, **wanted}
            if made.get(name) != wanted.get(name)
        ]
        if changed:
            raise ConfigError(
                f"{str(self.path)!r} was made with other settings ({'; '.join(changed)}): choose another file, or the same settings"
            )

    def _write(self, data: Mapping[str, Any]) -> None:
        line = memoryview(json.dumps(data).encode() + b"\n")
        end = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as e:
            with contextlib.suppress(OSError):
                self._file.truncate(end)  # half a line must not stand before another
            raise ConfigError(
                f"{str(self.path)!r} cannot be written: {e.strerror or e}; what it holds is safe: make room, and the same command goes on"
            ) from e


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
