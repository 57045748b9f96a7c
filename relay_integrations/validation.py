"""Turns what pydantic says of a wrong value into one line that a person can act on."""

from __future__ import annotations

from pydantic import ValidationError


def explain(error: ValidationError) -> str:
    """The first thing that is wrong: where, and what."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
