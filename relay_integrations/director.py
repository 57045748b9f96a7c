"""Who goes next: what the policy wants, as far as budgets, windows, working backends and a constraint on the answer allow."""

from __future__ import annotations

import dataclasses
import logging

from relay_integrations.errors import BackendError
from relay_integrations.job import Job
from relay_integrations.limits import Limits
from relay_integrations.policies.base import Plan, StopRule
from relay_integrations.roles import HandoffReason, Role, other
from relay_integrations.transcript import SegmentEnd, Transcript

logger = logging.getLogger(__name__)

SMALL_WINDOW_FULL = "the small model's window is full"
NO_TAKE_OVER = "the other model writes tool calls in another format and cannot go on in the middle of one"


class Director:
    """The plans of one generation.

    Where the answer has to follow a constraint, the policy plans the reasoning. The answer is one span by one role, which ends with
    the end of the sequence.

    Attributes:
        alone: The role that goes on alone to the end, if one does.
        detail: Why, in words.
        owes_answer: Whether an answer under a constraint has still to begin.
    """

    def __init__(self, job: Job, transcript: Transcript, limits: Limits) -> None:
        self._job = job
        self._transcript = transcript
        self._limits = limits
        self.alone: Role | None = job.alone
        self.detail = job.why
        self.owes_answer = bool(job.constraints)

    def next(self, ended: SegmentEnd | None) -> Plan | None:
        """The plan behind a segment that ended by the policy's own rules, or the first plan; None where all is said."""
        if self._job.constraints and not self.owes_answer:
            return None  # the answer ended
        if self.owes_answer and ended is None and not self._may_reason:
            return self.answer("start")
        if self.owes_answer and ended is not None and (ended.cause == "think_end" or ended.cause == "constraint"):
            return self.answer(ended.cause)
        if self.alone is not None:
            return self._go_alone(self.alone, "fallback") if ended is None else None
        plan = self._job.policy.next(self._transcript, ended)
        if plan is None:
            return None
        if self.owes_answer:
            plan = dataclasses.replace(plan, stop=dataclasses.replace(plan.stop, think_end=True))
        return self._possible(plan)

    def answer(self, reason: HandoffReason) -> Plan:
        """The plan of an answer under a constraint."""
        self.owes_answer = False
        role = self.alone or self._job.policy.constrained_role
        if self.alone is not None and reason == "start":
            reason = "fallback"
        plan = Plan(role, reason, StopRule(think_end=False), constraint=self._job.constraints[role])
        return plan if self.alone is not None else self._possible(plan)

    def after_budget(self) -> Plan | None:
        """The large model's budget is spent: the small one goes on, if there is one."""
        return self._go_alone("small", "budget") if self._can_go_alone("small") else None

    def after_window(self) -> Plan | None:
        """The small model's window is full: the large one goes on."""
        return self._go_alone("large", "fallback", SMALL_WINDOW_FULL) if self._can_go_alone("large") else None

    def after_failure(self, failed: Role, error: BaseException | None) -> Plan:
        """A backend has failed: the other model goes on, if the rules say so.

        Raises:
            BackendError: They do not, or it cannot.
        """
        rest = other(failed)
        rule = self._job.rules.large if failed == "large" else self._job.rules.small
        spent = rest == "large" and self._limits.large_left() == 0
        if rule == "continue" and self._can_go_alone(rest) and not spent:
            name = self._job.backends[failed].capabilities.name
            logger.warning("the %s model %r failed, the other one goes on alone: %s: %s", failed, name, type(error).__name__, error)
            return self._go_alone(rest, "fallback", f"the {failed} model failed: {type(error).__name__}: {error}")
        name = self._job.backends[failed].capabilities.name
        way_out = "the other model cannot go on"
        if rule == "raise":
            way_out = f"on_failure={{{failed!r}: 'continue'}} lets the other model go on"
        elif self.alone is None and rest in self._transcript.sides and not self._can_take_over(rest):
            way_out = NO_TAKE_OVER
        raise BackendError(f"the {failed} model {name!r} failed: {error} ({way_out}; the error's `partial` holds all so far)") from error

    def retries(self, role: Role) -> int:
        """The leader, or who is alone, is worth another try; a helper is not waited for."""
        leads = role == self._job.policy.leader or self.alone == role
        return self._job.rules.retries if leads else 0

    def _possible(self, plan: Plan) -> Plan:
        """The plan, or a role alone where the planned one has no budget or no window left, or where the plans lead nowhere."""
        sides = self._transcript.sides
        if plan.role == "large" and self._limits.large_left() == 0 and "small" in sides:
            return self._go_alone("small", "budget")
        if plan.role == "small" and self._limits.window_left("small") <= 0 and "large" in sides:
            return self._go_alone("large", "fallback", SMALL_WINDOW_FULL)
        done = self._transcript.segments[:-1][-2:]
        if len(done) == 2 and not any(segment.ids for segment in done):
            # e.g. limits so short that no role can complete a character
            return self._go_alone(plan.role, "fallback", "two segments in a row came to nothing")
        return plan

    def _go_alone(self, role: Role, reason: HandoffReason, detail: str = "") -> Plan:
        self.alone = role
        self.detail = detail or self.detail
        answering = bool(self._job.constraints) and not self.owes_answer
        return Plan(role, reason, StopRule(think_end=self.owes_answer), constraint=self._job.constraints[role] if answering else None)

    @property
    def _may_reason(self) -> bool:
        """Whether there may be reasoning at all: it is open, or a model may open it itself."""
        t = self._transcript
        return t.channel == "reasoning" or (self._job.options.reasoning is not False and any(side.tags for side in t.sides.values()))

    def _can_go_alone(self, role: Role) -> bool:
        return self.alone is None and role in self._transcript.sides and self._can_take_over(role)

    def _can_take_over(self, role: Role) -> bool:
        """Whether the role could have written what the other one has of an answer under a constraint."""
        constraints = self._job.constraints
        return not self._transcript.span_begun or constraints[role] == constraints[other(role)]
