"""The one loop that runs a policy over two backends and yields events: one generation, from its first segment to its last."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from typing import Literal

from relay_integrations.chat.reader import OutputReader
from relay_integrations.chat.tags import translate
from relay_integrations.chat.tool_formats import call_id
from relay_integrations.director import Director
from relay_integrations.errors import RelayError
from relay_integrations.events import Event, Handoff, RelayFailed, RelayFinished, SegmentFinished, SegmentStarted, Usage
from relay_integrations.hop import HopFailed, SegmentRun
from relay_integrations.job import Job
from relay_integrations.limits import Limits
from relay_integrations.policies.base import Plan
from relay_integrations.roles import FinishReason, Role, SegmentEndCause
from relay_integrations.sink import Sink
from relay_integrations.transcript import SegmentEnd, Side, Transcript
from relay_integrations.usage import Meter

CANCELLED = "the generation was cancelled"


class RelayRun:
    """Generates one choice of a job.

    Args:
        job: A prepared job.
        choice: Its number.
        sink: Takes the events.
        clock: Monotonic seconds.
    """

    def __init__(self, job: Job, choice: int, sink: Sink, clock: Callable[[], float] = time.perf_counter) -> None:
        self.job = job
        self.choice = choice
        self.sink = sink
        self._clock = clock
        self.session = f"{job.session}-{choice}"
        sides = {
            role: Side(
                prompt.ids, prompt.reasoning_open, job.backends[role].capabilities.think_tags, job.backends[role].capabilities.vocabulary
            )
            for role, prompt in job.prompts.items()
        }
        key, forms = job.key, {role: job.backends[role].capabilities.tool_format for role in sides}
        short_ids = any(form.short_ids for form in forms.values())
        self.transcript = Transcript(sides, tools=bool(job.tools), key=key + choice)
        tags = [side.tags for side in sides.values() if side.tags]
        self.reader = OutputReader(
            self.emit,
            self.now,
            tags=tags,
            reasoning_open=any(side.reasoning_open for side in sides.values()),
            stops=job.options.stop,
            tools=forms if job.tools else None,
            most_calls=1 if job.options.parallel_tool_calls is False else None,
            hold_answer=bool(job.constraints),
            call_id=lambda index: call_id(key, choice, index, short=short_ids),
        )
        self.transcript.in_call = self.reader.leading
        self.limits = Limits(job, self.transcript, has_reasoning=bool(tags))
        self.meter = Meter(job, self.transcript)
        self.director = Director(job, self.transcript, self.limits)
        self._segment: SegmentRun | None = None
        self._handoffs = 0
        self._error: BaseException | None = None

    def now(self) -> float:
        """Seconds since the request began."""
        return self._clock() - self.job.started

    def emit(self, event: Event) -> None:
        """Passes an event on as this choice's."""
        event.choice = self.choice
        self.sink.put(event)

    async def run(self) -> None:
        """Runs to the end.

        Raises:
            BackendError: A failure that the rules did not bridge; `RelayFailed` was emitted.
        """
        try:
            await self._relay()
        except asyncio.CancelledError:
            self._fail("cancelled", CANCELLED)
            raise
        except RelayError as e:
            self._fail("error", str(e))
            raise
        except Exception as e:
            self._fail("error", f"{type(e).__name__}: {e}")
            raise
        finally:
            await self._release()

    async def _release(self) -> None:
        """Lets the backends forget this relay, also when cancellations come meanwhile."""
        releasing = asyncio.gather(*(self.job.backends[role].release(self.session) for role in self.job.prompts), return_exceptions=True)
        cancelled = False
        while not releasing.done():
            try:
                await asyncio.shield(releasing)
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    async def _relay(self) -> None:
        ended: SegmentEnd | None = None
        plan = self.director.next(None)
        while plan is not None:
            self._switch(plan, ended)
            ended = await self._write(plan)
            if ended.cause in ("stop", "length"):
                break
            plan = await self._after(plan, ended)
            if plan is not None and self._full(plan.role):
                ended = dataclasses.replace(ended, cause="length")
                break
        self.reader.finish()  # closes a call that was cut, within its segment
        self._close_segment(ended, last=True)
        self._finish(ended)

    def _full(self, role: Role) -> bool:
        """Whether there is no room for a single token more, whoever writes it."""
        left, cause = self.limits.left(role, None)
        return left <= 0 and cause == "length"

    async def _after(self, plan: Plan, ended: SegmentEnd) -> Plan | None:
        """The next plan after a segment ended, for whichever cause."""
        if self.reader.leading:
            self._drop_lead()
        if ended.cause == "error":
            return self.director.after_failure(ended.role, self._error)
        if ended.cause == "budget":
            return await self._force_close(plan, ended, "budget") if self.limits.reasoning_spent() else self.director.after_budget()
        if ended.cause == "segment_limit" and plan.role == "small" and self.limits.window_left("small") <= 0:
            return self.director.after_window()
        following, owing = self.director.next(ended), self.director.owes_answer
        ids = self.transcript.current.ids
        if (following is not None or owing) and ids and ids[-1] in self.job.backends[ended.role].capabilities.eos_ids:
            self.transcript.drop_last()  # the end of the turn was not for this role to say
        if following is None and owing:
            open_reasoning = self.reader.channel == "reasoning"
            return await self._force_close(plan, ended, "constraint") if open_reasoning else self.director.answer("constraint")
        return following

    def _drop_lead(self) -> None:
        """What stands in front of an answer under a constraint has not opened the reasoning: none of it is the answer's."""
        self.transcript.cut(0)
        self.reader.drop_lead()

    async def _force_close(self, plan: Plan, ended: SegmentEnd, by: Literal["budget", "constraint"]) -> Plan | None:
        """The reasoning has to end: writes the closing tag, which no role is charged for, and goes on with the answer."""
        t, own = self.transcript, self.transcript.sides[plan.role].tags
        tags = own or next(side.tags for side in t.sides.values() if side.tags)
        text = ("" if t.tail.endswith("\n") else "\n") + tags.close + "\n\n"
        try:
            ids = await self.job.backends[plan.role].encode(translate(text, tags, own))
        except Exception as e:
            self._failed(plan.role, e)
            return self.director.after_failure(plan.role, e)
        t.roll_back()
        self.reader.close_reasoning(t.output_tokens, by)
        if self.reader.stopped is not None:
            return None
        self._close_segment(ended)
        t.force(plan.role, ids, text)
        t.close_reasoning()
        t.channel = self.reader.channel
        if not plan.stop.think_end:
            return dataclasses.replace(plan, reason="budget")
        return self.director.next(SegmentEnd(plan.role, "think_end"))

    def _switch(self, plan: Plan, ended: SegmentEnd | None) -> None:
        """Opens the plan's segment, unless its role goes on in the one that is open; that it goes on alone is to be seen."""
        apart = plan.reason in ("budget", "fallback") or plan.constraint is not None
        if self._segment is not None and self._segment.role == plan.role and not apart:
            return
        last = self.transcript.segments[-1].role if self.transcript.segments else None
        self._close_segment(ended)
        role, position, name = plan.role, self.transcript.output_tokens, self._name(plan.role)
        if last is not None and last != role:
            self.meter.handoff(plan.reason)
            cue = ended.cue if ended else None
            self.reader.mark(
                Handoff(
                    index=self._handoffs,
                    from_role=last,
                    to_role=role,
                    from_model=self._name(last),
                    to_model=name,
                    reason=plan.reason,
                    cue=cue,
                    position=position,
                    time=self.now(),
                )
            )
            self._handoffs += 1
        segment = self.transcript.begin(role, plan.reason)
        self._segment = SegmentRun(self, segment)
        if plan.constraint is not None and self.reader.holding:
            self.transcript.begin_span()
            self.transcript.in_call = False
            self.reader.open_answer(calls_only=self.job.options.tool_choice.forced)
        self.reader.mark(
            SegmentStarted(
                index=segment.index,
                role=role,
                model=name,
                reason=plan.reason,
                position=position,
                detail=self.director.detail or None if plan.reason == "fallback" else None,
                time=self.now(),
            )
        )

    async def _write(self, plan: Plan) -> SegmentEnd:
        assert self._segment is not None
        try:
            return await self._segment.write(plan, retries=self.director.retries(plan.role))
        except HopFailed as e:
            return self._failed(plan.role, e.cause)

    def _failed(self, role: Role, cause: BaseException) -> SegmentEnd:
        self._error = cause
        if self._segment is not None:
            self._segment.error = f"{type(cause).__name__}: {cause}"
        return SegmentEnd(role, "error")

    def _close_segment(self, ended: SegmentEnd | None, cause: SegmentEndCause | None = None, *, last: bool = False) -> None:
        run, self._segment = self._segment, None
        if run is None:
            return
        if not last:
            self.transcript.hand_over()
        segment = run.segment
        self.meter.segment(run)
        self.reader.mark(
            SegmentFinished(
                index=segment.index,
                role=segment.role,
                model=self._name(segment.role),
                reason=segment.reason,
                cause=cause or (ended.cause if ended else "error"),
                cue=ended.cue if ended else None,
                text=segment.text,
                ids=tuple(segment.ids),
                tokens=len(segment.ids),
                discarded=segment.generated - len(segment.ids),
                requests=run.requests,
                sent_tokens=run.sent,
                cached_tokens=run.cached,
                time_to_first_token=run.time_to_first_token,
                duration=self.now() - run.began,
                error=run.error,
                time=self.now(),
            )
        )

    def _finish(self, ended: SegmentEnd | None) -> None:
        reason: FinishReason = "stop"
        if self.reader.stopped is not None:
            pass
        elif ended is not None and ended.cause in ("length", "budget", "segment_limit"):
            reason = "length"
        elif self.reader.calls:
            reason = "tool_calls"
        usage = self.meter.usage()
        self.emit(RelayFinished(finish_reason=reason, stop_sequence=self.reader.stopped, usage=usage, seed=self.job.seed, time=self.now()))

    def _fail(self, reason: Literal["error", "cancelled"], message: str) -> None:
        self.reader.finish()
        self._close_segment(None, "cancelled" if reason == "cancelled" else "error", last=True)
        self.emit(RelayFailed(finish_reason=reason, error=message, usage=self.meter.usage(), seed=self.job.seed, time=self.now()))

    def _name(self, role: Role) -> str:
        return self.job.backends[role].capabilities.name


def failed_before_start(job: Job, choice: int, error: BaseException, elapsed: float) -> RelayFailed:
    """The only event of a choice that could not begin."""
    cancelled = isinstance(error, asyncio.CancelledError)
    reason: FinishReason = "cancelled" if cancelled else "error"
    message = CANCELLED if cancelled else str(error)
    return RelayFailed(choice=choice, finish_reason=reason, error=message, usage=Usage(), seed=job.seed, time=elapsed)
