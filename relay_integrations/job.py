"""One request, checked and rendered: what all of its choices share."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay_integrations.backends.base import BACKEND_ERRORS, Backend, Prompt, RenderOptions
from relay_integrations.chat.constraint import Constraint, constrain
from relay_integrations.chat.messages import Message
from relay_integrations.config import FailureRules, Prices, RequestOptions
from relay_integrations.errors import BackendError, ConfigError, PromptTooLong, RelayError
from relay_integrations.health import Health
from relay_integrations.policies.base import Policy
from relay_integrations.roles import Role, other
from relay_integrations.sampling import NEUTRAL, Sampling

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Job:
    """One request.

    Attributes:
        backends: Of both roles.
        tools: Those that are offered.
        constraints: What the answer has to be, by role, as each writes tool calls; empty where it is free.
        prompts: Rendered once, filled by `prepare`; only of the roles that take part.
        alone: A role that has to do without the other from the start (cool-down, window, failed template), and `why`.
        session: Name under which backends keep state for this request's relays.
    """

    backends: Mapping[Role, Backend]
    policy: Policy
    options: RequestOptions
    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]]
    rules: FailureRules
    health: Health
    prices: Mapping[Role, Prices]
    seed: int
    session: str
    started: float
    constraints: Mapping[Role, Constraint] = field(default_factory=dict)
    prompts: dict[Role, Prompt] = field(default_factory=dict)
    alone: Role | None = None
    why: str = ""
    _sampling: dict[Role, Sampling] = field(default_factory=dict)

    def sampling(self, role: Role) -> Sampling:
        """The complete sampling settings of a role."""
        if role not in self._sampling:
            self._sampling[role] = self.options.sampling(role, self.backends[role].capabilities.sampling).over(NEUTRAL)
        return self._sampling[role]

    def window(self, role: Role) -> int:
        """The context window of a role's model."""
        return self.backends[role].capabilities.context_window

    @property
    def key(self) -> int:
        """The same for the same prompt."""
        ids = next(iter(self.prompts.values())).ids
        return int.from_bytes(hashlib.blake2b(repr(ids).encode(), digest_size=6).digest(), "big")


def constraints_of(
    backends: Mapping[Role, Backend], policy: Policy, options: RequestOptions, tools: Sequence[dict[str, Any]]
) -> dict[Role, Constraint]:
    """What the answer has to be, as each role that takes part writes tool calls; empty where it is free.

    Raises:
        ConfigError: The tool choice asks for a call that no tool allows, or a tool's parameters are no schema.
    """
    choice, parallel, response = options.tool_choice, options.parallel_tool_calls, options.response_format
    allowed = choice.choose(tools)
    found = {role: constrain(allowed, choice, parallel, response, backends[role].capabilities.tool_format) for role in policy.roles}
    return {role: constraint for role, constraint in found.items() if constraint is not None}


async def prepare(job: Job) -> None:
    """Renders the prompt for each role that takes part, and checks that it fits.

    Raises:
        PromptTooLong: It leaves no room in the window of the large model (of the only model, where one is used alone).
        ConfigError: A backend cannot count penalties over the whole output, or cannot follow a schema.
        NotSupported: A backend cannot constrain its model, and the answer has to follow a constraint.
        BackendError: The leader's backend fails and the rules do not allow to go on without it.
    """
    wanted = list(job.policy.roles)
    if len(wanted) == 2:
        wanted = [r for r in wanted if job.health.available(r) or _rule(job, r) == "raise"] or list(job.policy.roles)
        if len(wanted) == 1:
            job.alone, job.why = wanted[0], f"the {other(wanted[0])} model is cooling down after repeated failures"
    _check_penalties(job, wanted)
    rendered = await _render_all(job, wanted)
    failures = {role: r for role, r in zip(wanted, rendered, strict=True) if isinstance(r, Exception)}
    job.prompts = {role: r for role, r in zip(wanted, rendered, strict=True) if isinstance(r, Prompt)}
    for role, error in failures.items():
        if not job.prompts or _rule(job, role) == "raise":
            raise BackendError(f"the {role} model {job.backends[role].capabilities.name!r} failed to render the prompt: {error}") from error
        job.alone, job.why = other(role), f"the {role} model failed to render the prompt: {error}"
        logger.warning("%s; the other one goes on alone", job.why)
    _check_windows(job)


def _rule(job: Job, role: Role) -> str:
    return job.rules.large if role == "large" else job.rules.small


async def _render_all(job: Job, roles: Sequence[Role]) -> list[Prompt | Exception]:
    rendering = [asyncio.ensure_future(_render(job, role)) for role in roles]
    try:
        return await asyncio.gather(*rendering)
    except BaseException:
        for task in rendering:  # one that is not wanted any more must not go on
            task.cancel()
        await asyncio.gather(*rendering, return_exceptions=True)
        raise


async def _render(job: Job, role: Role) -> Prompt | Exception:
    options = RenderOptions(reasoning=job.options.reasoning, template=job.options.template_options)
    try:
        if role in job.constraints:
            await job.backends[role].check_constraint(job.constraints[role])
        prompt = await job.backends[role].render(job.messages, job.tools, options)
        if not isinstance(prompt, Prompt):
            raise TypeError(f"render() gave {type(prompt).__name__}, not Prompt")
        return prompt
    except RelayError:
        raise  # the caller's to mend: malformed messages, tools that a template ignores
    except BACKEND_ERRORS as e:
        job.health.failed(role)
        return e if isinstance(e, Exception) else RuntimeError(f"{type(e).__name__}: {e}")


def _check_penalties(job: Job, roles: Sequence[Role]) -> None:
    for role in roles:
        capabilities = job.backends[role].capabilities
        if job.options.penalties == "output" and not capabilities.output_penalties and job.sampling(role).penalised:
            raise ConfigError(
                f"the backend of the {role} model {capabilities.name!r} counts presence_penalty and frequency_penalty anew at every hop; "
                'leave them out, or accept that with penalties="per_hop"'
            )


def _check_windows(job: Job) -> None:
    for role, prompt in list(job.prompts.items()):
        if len(prompt.ids) < job.window(role):
            continue
        if role == "small" and "large" in job.prompts:
            del job.prompts[role]
            job.alone, job.why = "large", "the prompt does not fit the small model's window"
            continue
        raise PromptTooLong(
            f"the prompt has {len(prompt.ids)} tokens and the window of the {role} model {job.backends[role].capabilities.name!r} is "
            f"{job.window(role)}: no room is left to answer; shorten the conversation (nothing is truncated)"
        )
