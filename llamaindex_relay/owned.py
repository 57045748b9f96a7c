"""Streams that stop what is behind them.

LlamaIndex wraps a generator to tell its callbacks; when the wrapper is closed, the generator within is only dropped. These close both,
the inner one first, so that the models have stopped when a reader has left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TypeVar

T = TypeVar("T")


def owned(told: Generator[T, None, None], inner: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yields what the wrapper yields; closes what it wraps, then itself."""
    try:
        for item in told:  # noqa: UP028 - `yield from` would close the wrapper before what it wraps
            yield item
    finally:
        inner.close()
        told.close()


async def aowned(told: AsyncGenerator[T, None], inner: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """As `owned`, for async code."""
    try:
        async for item in told:
            yield item
    finally:
        await inner.aclose()
        await told.aclose()
