"""Checks of values, and what pydantic says of a wrong one as a line that a person can act on."""

from __future__ import annotations

from pydantic import ValidationError


def explain(error: ValidationError) -> str:
    """The first thing that is wrong: where, and what."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def without_surrogates(text: str) -> str:
    """The text, if all of it is characters.

    Raises:
        ValueError: It holds half of a character.
    """
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise ValueError(f"the text holds a lone surrogate at {e.start}, which is no character") from e
    return text
