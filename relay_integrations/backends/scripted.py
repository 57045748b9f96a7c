"""A backend that says what it is told: for tests of everything that is built on the relay, without a model.

It speaks a vocabulary of its own, in which any text has ids and a token may end in mid-character; chunks may hold any number of ids
or come apart from their text.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay_integrations.backends.base import Backend, Capabilities, Chunk, GenerateRequest, Prompt, RenderOptions, TokenScores
from relay_integrations.backends.scripted_vocabulary import COMMON_VOCABULARY as COMMON_VOCABULARY
from relay_integrations.backends.scripted_vocabulary import EOS as EOS
from relay_integrations.backends.scripted_vocabulary import Decoder
from relay_integrations.backends.scripted_vocabulary import Vocabulary as Vocabulary
from relay_integrations.chat.constraint import Constraint
from relay_integrations.chat.messages import Message
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.chat.tool_formats import HERMES, ToolFormat
from relay_integrations.errors import NotSupported
from relay_integrations.sampling import Sampling


@dataclass(slots=True)
class Reply:
    """What the backend does in one request.

    Attributes:
        text: What it says, then it ends its turn (unless `eos` is off: then it stops as if a server's stop had matched).
        chunk: Ids a chunk; or a function from the number of the chunk to that.
        margins: Margin of each token, repeated from the start when used up.
        fail_after: Raises after so many tokens.
        stall_after: Says nothing more after so many tokens, until it is closed.
        error: What it raises.
        eos: Whether it ends its turn after `text`.
        texts: Whether chunks say the text of each id.
        overrun: Ignores `max_tokens`.
        honour_stops: Stops at the request's stop hints, as a server would.
        text_apart: Sends the text of a single id apart from it, an empty chunk between them.
        delay: Seconds to sleep before each chunk.
        cached: Prompt tokens that it says were cached; None says nothing.
    """

    text: str = ""
    chunk: int | Callable[[int], int] = 1
    margins: Sequence[float] = (1.0,)
    fail_after: int | None = None
    stall_after: int | None = None
    error: Exception = field(default_factory=lambda: ConnectionError("scripted failure"))
    eos: bool = True
    texts: bool = True
    overrun: bool = False
    honour_stops: bool = False
    text_apart: bool = False
    delay: float = 0.0
    cached: int | None = 0


Script = Callable[[str, GenerateRequest], "Reply | str"]
"""From the text so far (the output, not the prompt) and the request to a reply."""


class ScriptedBackend(Backend):
    """Says what a script tells it.

    Args:
        script: A function (see `Script`); or a list of replies, one a request, the last one repeated; or a string: the whole output
            that the relay is to arrive at, which the backend continues from wherever it stands.
        name: Model name.
        vocabulary: Backends with the same one exchange ids, others text; all have one in common if left out.
        think_tags, context_window, parameters, sampling: As in `Capabilities`.
        open_reasoning: Whether the template opens the think tag.
        tool_format: How it writes tool calls.
        output_penalties, template_tools: Features to lack.
        constraints: A feature to have. The script is trusted to keep to what `requests` and `constraints_checked` say.

    Attributes:
        requests: Every request it was given.
        running: Requests being generated now; `most_running` at once so far.
        generated: Tokens generated in all.
        sessions: Sessions that were used and not yet released.
        rendered: The conversations that it was given, with tools and options.
        constraints_checked: The constraints that it was asked about.
        closed: Whether `aclose` was called.
    """

    def __init__(
        self,
        script: Script | Sequence[Reply | str] | str = "",
        *,
        name: str = "scripted",
        vocabulary: Vocabulary | None = None,
        think_tags: ThinkTags | None = ThinkTags(),  # noqa: B008 - frozen
        context_window: int = 1 << 20,
        parameters: int | None = None,
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        open_reasoning: bool = False,
        output_penalties: bool = True,
        template_tools: bool = True,
        family: str | None = None,
        tool_format: ToolFormat = HERMES,
        constraints: bool = False,
    ) -> None:
        self.vocabulary = vocabulary or COMMON_VOCABULARY
        self._script = _as_script(script)
        self._reads = callable(script) or isinstance(script, str)
        self._open_reasoning = open_reasoning
        self._template_tools = template_tools
        self._capabilities = Capabilities(
            name=name,
            context_window=context_window,
            eos_ids=frozenset({EOS}),
            vocabulary=self.vocabulary.hash,
            think_tags=think_tags,
            sampling=sampling,
            family=family,
            parameters=parameters,
            top2=True,
            constraints=constraints,
            reports_cached_tokens=True,
            output_penalties=output_penalties,
            tool_format=tool_format,
        )
        self.requests: list[GenerateRequest] = []
        self.running = 0
        self.most_running = 0
        self.generated = 0
        self.sessions: set[str] = set()
        self.rendered: list[tuple[list[Message], list[dict[str, Any]], RenderOptions]] = []
        self.constraints_checked: list[Constraint] = []
        self.closed = False

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        if tools and not self._template_tools:
            raise NotSupported(self._capabilities.name, "tools", "its chat template never mentions them")
        self.rendered.append((list(messages), list(tools), options))
        text = "".join(f"<{m.role}>{m.content}</{m.role}>" for m in messages) + "<assistant>"
        tags = self._capabilities.think_tags
        opened = self._open_reasoning and tags is not None and options.reasoning is not False
        return Prompt(tuple(self.vocabulary.encode(text + (f"{tags.open}\n" if opened and tags else ""))), opened)

    async def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(text)

    async def decode(self, ids: Sequence[int]) -> str:
        return self.vocabulary.bytes_of(ids).decode(errors="replace")

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        self.sessions.add(request.session)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            async with contextlib.aclosing(self._speak(request)) as chunks:
                async for chunk in chunks:
                    self.generated += len(chunk.ids)
                    yield chunk
        finally:
            self.running -= 1

    async def score(self, ids: Sequence[int], start: int = 1) -> TokenScores:
        raise NotSupported(self._capabilities.name, "scoring", "it has no probabilities")

    async def check_constraint(self, constraint: Constraint) -> None:
        self.constraints_checked.append(constraint)
        await super().check_constraint(constraint)

    async def release(self, session: str) -> None:
        self.sessions.discard(session)

    async def aclose(self) -> None:
        self.closed = True

    async def _speak(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        output = request.ids[request.output_start :]
        # A list of replies goes on whatever was said, and reading it all at each hop would cost more than the relay.
        so_far = self.vocabulary.bytes_of(output if self._reads else output[-4:])
        reply = self._script(so_far.decode(errors="ignore"), request)
        if isinstance(reply, str):
            reply = Reply(reply)
        decoder = Decoder(self.vocabulary, so_far)
        ids, finish = self._plan(reply, request, decoder.begun if self._reads else b"")
        yield Chunk(prompt_tokens=len(request.ids), cached_tokens=reply.cached)
        at, number = 0, 0
        while at < len(ids) or number == 0:
            if reply.delay:
                await asyncio.sleep(reply.delay)
            if reply.stall_after is not None and at >= reply.stall_after:
                await asyncio.Event().wait()
            if reply.fail_after is not None and at >= reply.fail_after:
                raise reply.error
            size = reply.chunk(number) if callable(reply.chunk) else reply.chunk
            number += 1
            part = ids[at : at + max(1, size)]
            if reply.fail_after is not None:
                part = part[: max(0, reply.fail_after - at)]
            at += len(part)
            for chunk in self._chunks(part, decoder, reply, finish if at >= len(ids) else None):
                yield chunk
            if number % 64 == 0:
                await asyncio.sleep(0)

    def _chunks(self, ids: Sequence[int], decoder: Decoder, reply: Reply, finish: Any) -> list[Chunk]:
        texts = tuple(decoder.feed(i) for i in ids)
        margins = tuple(reply.margins[n % len(reply.margins)] for n in range(len(ids))) if reply.margins else None
        text = "".join(texts)
        if reply.text_apart and len(ids) == 1:
            return [Chunk(ids=tuple(ids), margins=margins), Chunk(), Chunk(text=text, finish=finish)]
        return [Chunk(ids=tuple(ids), text=text, texts=texts if reply.texts else None, margins=margins, finish=finish)]

    def _plan(self, reply: Reply, request: GenerateRequest, begun: bytes) -> tuple[list[int], str]:
        """The ids of a reply within the request's limits, and how it ends. `begun`: bytes of its first character that stand already."""
        ids = self.vocabulary.encode(reply.text)
        if begun and reply.text.encode().startswith(begun):
            ids = ids[len(begun) :]
        finish = "stop"
        if reply.eos:
            ids, finish = [*ids, EOS], "eos"
        if reply.honour_stops:
            for count in range(1, len(ids) + 1):
                text = self.vocabulary.bytes_of(ids[:count]).decode(errors="ignore")
                if any(stop in text for stop in request.stop_hints.strings):
                    ids, finish = ids[:count], "stop"
                    break
        if len(ids) > request.max_tokens and not reply.overrun:
            ids, finish = ids[: request.max_tokens], "length"
        return ids, finish


def _as_script(script: Script | Sequence[Reply | str] | str) -> Script:
    if callable(script):
        return script
    if isinstance(script, str):
        whole = script
        return lambda so_far, request: whole[len(so_far) :] if whole.startswith(so_far) else ""
    replies = list(script)
    return lambda so_far, request: replies.pop(0) if len(replies) > 1 else replies[0]
