"""Where a prompt comes from: the command line, a file, or stdin; as text or as messages in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from relay_integrations.chat.messages import Message, read_messages
from relay_integrations.errors import ConfigError, MessageError

STDIN = "-"


@dataclass(frozen=True, slots=True)
class PromptSource:
    """What a command line says about the prompt. At most one of the first three is given; none means stdin.

    Attributes:
        text: The prompt itself; "-" for stdin.
        file: A text file; "-" for stdin.
        messages: A JSON file of messages, a list or an object with `messages`; "-" for stdin.
        system: A system message to put in front.
    """

    text: str | None = None
    file: str | None = None
    messages: str | None = None
    system: str | None = None

    def read(self, stdin: TextIO) -> list[Message]:
        """The conversation.

        Raises:
            ConfigError: No source or several, or a file that cannot be read.
            MessageError: What it holds is no conversation.
        """
        given = {"an argument": self.text, "--file": self.file, "--messages": self.messages}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ConfigError(f"the prompt comes from {' and from '.join(names)}: give one of them")
        conversation = self._messages(stdin) if self.messages is not None else [{"role": "user", "content": self._text(stdin)}]
        return self._with_system(read_messages(conversation))

    def _text(self, stdin: TextIO) -> str:
        if self.text is not None and self.text != STDIN:
            return self.text
        if self.file is not None:
            return _read(self.file, stdin)
        if self.text is None and stdin.isatty():
            raise ConfigError('no prompt: relay run "…", or --file, or --messages, or text on stdin')
        return _read(STDIN, stdin)

    def _messages(self, stdin: TextIO) -> list[Any]:
        source = str(self.messages)
        where = "stdin" if source == STDIN else source
        try:
            data = json.loads(_read(source, stdin))
        except ValueError as e:
            raise MessageError(f"{where} is not JSON: {e}") from e
        conversation = data.get("messages") if isinstance(data, dict) else data
        if not isinstance(conversation, list):
            raise MessageError(f'{where} holds no list of messages such as [{{"role": "user", "content": "…"}}]')
        return conversation

    def _with_system(self, messages: list[Message]) -> list[Message]:
        if self.system is None:
            return messages
        if messages[0].role == "system":
            raise ConfigError("the messages begin with a system message already: leave --system out")
        return [Message(role="system", content=self.system), *messages]


def _read(source: str, stdin: TextIO) -> str:
    """The text of a file or of stdin, without the line break at its end.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        text = stdin.read() if source == STDIN else Path(source).read_text(encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"{source!r} cannot be read: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{'stdin' if source == STDIN else repr(source)} is not UTF-8 text: {e.reason} at byte {e.start}") from e
    return text.removesuffix("\n")
