"""One segment at work: the requests that it takes, and what becomes of each token that they yield."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from relay_integrations.backends.base import BACKEND_ERRORS, Backend, Chunk, GenerateRequest, StopHints
from relay_integrations.errors import ConstraintFailed
from relay_integrations.policies.base import Plan
from relay_integrations.roles import Role, SegmentEndCause
from relay_integrations.sampling import derive_seed
from relay_integrations.transcript import Segment, SegmentEnd
from relay_integrations.watch import SegmentWatch

if TYPE_CHECKING:
    from relay_integrations.run import RelayRun

EMPTY_STOPS = 2
"""A backend that stops so often without a token has nothing more to say."""


YIELD_EVERY = 64
"""Chunks after which others have a turn, where a backend never waits for anything."""

MOST_IDLE_CHUNKS = 10_000
"""A backend that sends more chunks than this without a token will send no other."""


class HopFailed(Exception):
    """A backend failed in the middle of a segment; what it gave before stays."""

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause
        super().__init__(str(cause))


class SegmentRun:
    """Writes one segment.

    Attributes:
        requests, sent, cached: Requests made, prompt tokens sent over them, cached ones of these (None: unknown).
        time_to_first_token: Seconds from the first request to its first chunk.
    """

    def __init__(self, run: RelayRun, segment: Segment) -> None:
        self._run = run
        self._transcript = run.transcript
        self._reader = run.reader
        self.segment = segment
        self.role: Role = segment.role
        self._backend: Backend = run.job.backends[segment.role]
        self._eos = self._backend.capabilities.eos_ids
        self.began = run.now()
        self.requests = 0
        self.sent = 0
        self.cached: int | None = None
        self.time_to_first_token: float | None = None
        self.error: str | None = None
        self._watch: SegmentWatch
        self._plan: Plan
        self._begun = 0
        self._allowed = 0
        self._cause: SegmentEndCause = "length"

    async def write(self, plan: Plan, retries: int) -> SegmentEnd:
        """Writes until the plan's stop rule, a limit or the end of the sequence.

        Raises:
            HopFailed: The backend failed, also when tried again.
            ConstraintFailed: The answer cannot be held to its constraint; that is not the backend's fault, and counts as none.
        """
        self._plan = plan
        self._watch = SegmentWatch(plan.stop, self._transcript.tail, self.segment.length, sentence_over=self._transcript.sentence_over)
        self._begun, empty = len(self.segment.ids), 0
        while True:
            await asyncio.sleep(0)  # lets a cancellation, and others, through even where a backend never waits
            written = len(self.segment.ids)
            try:
                await self._catch_up()
                self._measure()
                if self._allowed <= 0:
                    return SegmentEnd(self.role, self._cause)
                end = await self._request()
            except HopFailed:
                self._run.job.health.failed(self.role)
                if retries <= 0:
                    raise
                retries -= 1
                continue
            self._run.job.health.worked(self.role)
            if end is not None:
                return end
            # The backend stopped where our rules go on: the same role goes on.
            empty = empty + 1 if len(self.segment.ids) == written else 0
            if empty >= EMPTY_STOPS:
                return SegmentEnd(self.role, "eos")

    def _measure(self) -> None:
        """Works out how many tokens may still be written, and which limit says so."""
        limit = self._plan.max_tokens
        of_plan = None if limit is None else limit - (len(self.segment.ids) - self._begun)
        self._allowed, self._cause = self._run.limits.left(self.role, of_plan)

    async def _request(self) -> SegmentEnd | None:
        """One request; None where the backend stopped by itself without an end that counts."""
        request = self._build()
        asked = self._run.now()
        self.requests += 1
        self.sent += len(request.ids)
        chunks = self._open(request)
        finish, count, idle = None, 0, 0
        try:
            while finish is None:
                chunk = await _next_chunk(chunks)
                if chunk is None:
                    break
                count, idle = count + 1, 0 if chunk.ids else idle + 1
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                if idle > MOST_IDLE_CHUNKS:
                    raise HopFailed(RuntimeError(f"{idle} chunks in a row held no token"))
                if self.time_to_first_token is None:
                    self.time_to_first_token = self._run.now() - asked
                if chunk.cached_tokens is not None:
                    self.cached = (self.cached or 0) + chunk.cached_tokens
                end = await self._take(chunk)
                if end is not None:
                    return end
                finish = chunk.finish
                if self._run.sink.full:
                    await self._run.sink.drained()
        finally:
            with contextlib.suppress(Exception):  # its failure to stop is no reason to lose what it wrote
                await chunks.aclose()
        if finish is None:
            raise HopFailed(ConnectionError("the stream ended without a finish reason"))
        if finish == "eos":
            return SegmentEnd(self.role, "eos")
        return SegmentEnd(self.role, self._cause) if self._allowed <= 0 else None

    def _open(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        try:
            chunks = self._backend.generate(request)
        except BACKEND_ERRORS as e:
            raise HopFailed(e) from e
        if inspect.iscoroutine(chunks):
            chunks.close()
            raise HopFailed(TypeError("the backend's generate() is a coroutine: it must be an async generator"))
        return chunks

    async def _catch_up(self) -> None:
        """Encodes what the other model wrote, where this one has another vocabulary."""
        while pending := self._transcript.pending(self.role):
            try:
                self._transcript.extend(self.role, await self._backend.encode(pending))
            except BACKEND_ERRORS as e:
                raise HopFailed(e) from e

    def _build(self) -> GenerateRequest:
        t, job, role, rule = self._transcript, self._run.job, self.role, self._plan.stop
        return GenerateRequest(
            ids=t.ids(role),
            output_start=len(t.sides[role].prompt),
            sampling=job.sampling(role),
            max_tokens=self._allowed,
            seed=derive_seed(job.seed, self._run.choice, self.segment.index, self.requests),
            session=self._run.session,
            stop_hints=StopHints(
                strings=(*job.options.stop, *(rule.cues.cues if rule.cues else ()), *((".", "!", "?", "\n\n") if rule.sentences else ()))
            ),
            top2=self._plan.top2,
            constraint=self._plan.constraint,
            constraint_start=t.span_start(role) if self._plan.constraint is not None else 0,
        )

    async def _take(self, chunk: Chunk) -> SegmentEnd | None:
        """Takes a chunk token by token; what stands behind the end is dropped."""
        if not chunk.ids:
            return self._take_text(chunk.text) if chunk.text else None
        texts = chunk.texts
        if texts is None:
            texts = (chunk.text,) if len(chunk.ids) == 1 else await self._split(chunk.ids, chunk.text)
        if len(texts) != len(chunk.ids):
            raise HopFailed(ValueError(f"a chunk of {len(chunk.ids)} ids has {len(texts)} texts"))
        for i, token in enumerate(chunk.ids):
            if self._allowed <= 0:
                self._count(len(chunk.ids) - i)
                return SegmentEnd(self.role, self._cause)
            end = self._take_token(token, texts[i], last=i == len(chunk.ids) - 1 and chunk.finish is not None)
            if end is not None:
                self._count(len(chunk.ids) - i - 1)
                return end
        return None

    def _take_token(self, token: int, text: str, last: bool) -> SegmentEnd | None:
        self._count(1)
        self._transcript.append(token)
        self._allowed -= 1
        if token in self._eos:
            return SegmentEnd(self.role, "eos")
        if text:
            end = self._take_text(text)
            if end is not None:
                return end
        elif not last:
            return None  # its text may still come
        return SegmentEnd(self.role, self._cause) if self._allowed <= 0 else None

    def _take_text(self, text: str) -> SegmentEnd | None:
        """Takes the text of the latest token, and says whether the segment ends with it."""
        t, reader, rule, segment = self._transcript, self._reader, self._plan.stop, self.segment
        before = segment.length
        t.add_text(text)
        cut = None
        if t.in_call:
            self._watch.skip(text)
        elif rule.past_tool_calls or not reader.calls:
            cut = self._watch.feed(text, len(segment.ids) - 1)
        if cut is not None:
            t.cut(cut.chars)
            text = text[: max(0, segment.length - before)]
        closings, channel, in_call = reader.closings, reader.channel, t.in_call
        reader.feed(text, self.role, segment.index, t.output_tokens)
        t.channel, t.in_call = reader.channel, reader.in_call or reader.leading
        if reader.over:
            return SegmentEnd(self.role, "stop")
        if reader.closings != closings:
            t.close_reasoning()
            if rule.think_end:
                return SegmentEnd(self.role, "think_end")
        if reader.answering:
            return SegmentEnd(self.role, "constraint")
        if cut is not None:
            t.sentence_over = cut.cause == "sentence_end"
            return SegmentEnd(self.role, cut.cause, cut.cue)
        if (t.channel, t.in_call) != (channel, in_call):
            self._measure()  # the reasoning budget or the plan's limit begins or ceases to count
        if self._watch.loops(segment.ids):
            return SegmentEnd(self.role, "repetition")
        return SegmentEnd(self.role, self._cause) if self._allowed <= 0 else None

    def _count(self, tokens: int) -> None:
        self.segment.generated += tokens
        self._transcript.generated[self.role] += tokens

    async def _split(self, ids: Sequence[int], text: str) -> tuple[str, ...]:
        """The text of each id of a chunk that holds several: no segment may end in the middle of what others wrote behind it."""
        texts, done, begun = [], 0, tuple(self._transcript.unread)
        last = max((i for i, token in enumerate(ids) if token not in self._eos), default=0)
        for count in range(1, last + 1):
            try:
                prefix = (await self._backend.decode((*begun, *ids[:count]))).rstrip("\ufffd")
            except BACKEND_ERRORS as e:
                raise HopFailed(e) from e
            end = max(done, len(prefix)) if text.startswith(prefix) else done
            texts.append(text[done:end])
            done = end
        return (*texts, text[done:], *("" for _ in ids[last + 1 :]))


async def _next_chunk(chunks: AsyncGenerator[Chunk, None]) -> Chunk | None:
    try:
        chunk = await anext(chunks)
        if not isinstance(chunk, Chunk):
            raise TypeError(f"the backend yielded {type(chunk).__name__}, not Chunk")
        return chunk
    except StopAsyncIteration:
        return None
    except asyncio.CancelledError as e:
        if (task := asyncio.current_task()) is not None and not task.cancelling():
            raise HopFailed(RuntimeError("the backend cancelled its own generation")) from e
        raise
    except ConstraintFailed:
        raise
    except BACKEND_ERRORS as e:
        raise HopFailed(e) from e
