"""What the backends alone cost: timed in place, or their calls recorded and made again in a bare loop without the engine.

In place is exact where one relay runs alone. Where many run at once, a call's time holds that of the others, and only a bare loop
tells.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from relay_integrations.backends.base import Backend, Capabilities, Chunk, GenerateRequest, Prompt, RenderOptions
from relay_integrations.backends.scripted import ScriptedBackend
from relay_integrations.chat.messages import Message

T = TypeVar("T")


@dataclass(slots=True)
class Hop:
    """A request, and how many chunks of it the relay took before it closed it."""

    backend: Backend
    request: GenerateRequest
    taken: int = 0

    async def repeat(self) -> None:
        """Makes the request again and takes as much."""
        chunks = self.backend.generate(self.request)
        try:
            for _ in range(self.taken):
                await anext(chunks)
        finally:
            await chunks.aclose()


@dataclass(slots=True)
class Other:
    """Any other call with arguments that can be used again."""

    backend: Backend
    method: str
    arguments: tuple[Any, ...]

    async def repeat(self) -> None:
        """Makes the call again."""
        await getattr(self.backend, self.method)(*self.arguments)


@dataclass(slots=True)
class Recording:
    """The calls of one relay, in order."""

    calls: list[Hop | Other] = field(default_factory=list)

    async def repeat(self) -> None:
        """Makes them all again."""
        for call in self.calls:
            await call.repeat()


class TimedBackend(Backend):
    """Passes every call on to a backend, and adds up the time that is spent there.

    Args:
        inner: The backend.

    Attributes:
        seconds: Time so far.
    """

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.seconds = 0.0

    @property
    def capabilities(self) -> Capabilities:
        """The inner backend's."""
        return self._inner.capabilities

    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        """Passed on and timed."""
        return await self._timed(self._inner.render(messages, tools, options))

    async def encode(self, text: str) -> list[int]:
        """Passed on and timed."""
        return await self._timed(self._inner.encode(text))

    async def decode(self, ids: Sequence[int]) -> str:
        """Passed on and timed."""
        return await self._timed(self._inner.decode(ids))

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Passed on and timed."""
        chunks = self._inner.generate(request)
        try:
            while (chunk := await self._timed(anext(chunks, None))) is not None:
                yield chunk
        finally:
            await self._timed(chunks.aclose())

    async def release(self, session: str) -> None:
        """Passed on and timed."""
        await self._timed(self._inner.release(session))

    async def _timed(self, call: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            return await call
        finally:
            self.seconds += time.perf_counter() - began


class RecordingBackend(Backend):
    """Passes every call on to a backend, and notes it for the replay.

    Args:
        inner: The backend.
        recording: Takes the notes.
    """

    def __init__(self, inner: ScriptedBackend, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    @property
    def capabilities(self) -> Capabilities:
        """The inner backend's."""
        return self._inner.capabilities

    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        """Passed on and noted."""
        self._recording.calls.append(Other(self._inner, "render", (messages, tools, options)))
        return await self._inner.render(messages, tools, options)

    async def encode(self, text: str) -> list[int]:
        """Passed on and noted."""
        self._recording.calls.append(Other(self._inner, "encode", (text,)))
        return await self._inner.encode(text)

    async def decode(self, ids: Sequence[int]) -> str:
        """Passed on and noted."""
        self._recording.calls.append(Other(self._inner, "decode", (ids,)))
        return await self._inner.decode(ids)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Passed on and noted."""
        hop = Hop(self._inner, request)
        self._recording.calls.append(hop)
        chunks = self._inner.generate(request)
        try:
            async for chunk in chunks:
                hop.taken += 1
                yield chunk
        finally:
            await chunks.aclose()


def bare_seconds(recording: Recording, times: int) -> float:
    """Wall time of so many replays at once."""

    async def measure() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(recording.repeat() for _ in range(times)))
        return time.perf_counter() - began

    return asyncio.run(measure())
