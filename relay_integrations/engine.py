"""RelayEngine: the composite model. Two backends, a policy, and a thread on which they run."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import wait
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from relay_integrations.backends import backend_class
from relay_integrations.backends.base import Backend, RenderOptions
from relay_integrations.chat.messages import MessagesInput, parse_messages, read_messages, read_tools
from relay_integrations.config import (
    FailureRules,
    OnFailure,
    Prices,
    RequestOptions,
    read_failure_rules,
    read_options,
    read_prices,
)
from relay_integrations.cues.profile import GENERIC, CueProfile, find_profile, load_profile, read_profile
from relay_integrations.errors import ConfigError, GenerationError, MessageError
from relay_integrations.health import Health
from relay_integrations.job import Job, constraints_of, prepare
from relay_integrations.loop import LoopThread, Make, T
from relay_integrations.policies import Policy, make_policy
from relay_integrations.result import RelayResult
from relay_integrations.roles import ROLES, Role
from relay_integrations.run import RelayRun, failed_before_start
from relay_integrations.sink import Collector, EventQueue, Sink
from relay_integrations.stream import AsyncRelayStream, RelayStream
from relay_integrations.validation import without_surrogates

Tools = Sequence[Mapping[str, Any]]


class RelayWarning(UserWarning):
    """Something works, but hardly as the caller means it."""


class RelayEngine:
    """A large and a small model that take turns inside one generation.

    Args:
        large: Backend of the large model.
        small: Backend of the small model.
        policy: Name of a policy or a policy; RelayGen by default.
        cue_profile: Cues for policies that need them: a profile or its fields, the name of a shipped one, or the path of a JSON file.
            None finds the pair's own by the models' names, else takes the generic one and warns.
        on_failure: What happens when a backend fails: "continue" (the other model goes on alone) or "raise", for both roles or by role;
            or all `FailureRules`.
        prices: Prices by role, for `Usage.cost`.
        owns_backends: Whether closing the engine closes the backends; the constructors that load them set it.
        clock: Monotonic seconds, for tests.

    The engine may be used from any thread and any event loop. It is a context manager, synchronous and asynchronous.

    Raises:
        ConfigError: A setting is wrong; the message names it.
    """

    def __init__(
        self,
        large: Backend,
        small: Backend,
        *,
        policy: str | Policy = "relaygen",
        cue_profile: CueProfile | Mapping[str, Any] | str | Path | None = None,
        on_failure: OnFailure | Mapping[str, Any] | FailureRules | None = None,
        prices: Mapping[Role, Prices | Mapping[str, float]] | None = None,
        owns_backends: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.backends: dict[Role, Backend] = {"large": large, "small": small}
        for role, backend in self.backends.items():
            if not isinstance(backend, Backend):
                kind = type(backend).__name__
                raise ConfigError(f"{role} must be a Backend, not {kind}; RelayEngine.from_pretrained takes names and paths")
        self.rules = read_failure_rules(on_failure)
        self.prices = read_prices(prices)
        self.health = Health(self.rules, clock)
        self._clock = clock
        self._owns_backends = owns_backends
        self._loop = LoopThread()
        self.cue_profile = None if cue_profile is None else read_profile(cue_profile)
        self.policy = self._resolve_policy(policy)

    @classmethod
    def tiny(cls, *, small: str = "relay-tiny-small", **settings: Any) -> Self:
        """The trained tiny pair that ships with the package, for trying things out. Needs the extra `transformers`.

        Models this small are many times slower on several threads than on one, so this sets torch to one thread for the process, unless
        the environment variable OMP_NUM_THREADS says otherwise.

        Args:
            small: Which small model: "relay-tiny-small", or "relay-tiny-small-other", which has a tokenizer of its own.
            **settings: As in `RelayEngine`.
        """
        from relay_integrations.backends.transformers import TransformersBackend, use_one_thread
        from relay_integrations.tiny import LARGE, OTHER_SMALL, SMALL, model_path

        if small not in (SMALL, OTHER_SMALL):
            raise ConfigError(f"there is no tiny small model {small!r}; there are: {SMALL}, {OTHER_SMALL}")
        use_one_thread()
        return cls(
            TransformersBackend.from_pretrained(model_path(LARGE), dtype="float32"),
            TransformersBackend.from_pretrained(model_path(small), dtype="float32"),
            owns_backends=True,
            **settings,
        )

    @classmethod
    def from_pretrained(
        cls,
        large: str | Path,
        small: str | Path,
        *,
        backend: str = "transformers",
        large_options: Mapping[str, Any] | None = None,
        small_options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Self:
        """Loads two models into this process.

        Args:
            large: Local folder or hub id.
            small: Local folder or hub id.
            backend: Kind of backend, a key of `relay_integrations.backends.BACKENDS`; "transformers" needs the extra of that name.
            large_options: What the backend's `from_pretrained` takes (device, dtype, device_map, …), for the large model alone.
            small_options: The same for the small one.
            **settings: As in `RelayEngine`; what both models share (device, dtype, device_map, trust_remote_code, tool_format) may stand
                here too.

        Raises:
            ModelLoadError: A model, tokenizer or chat template cannot be loaded; names the folder and the way out.
        """
        load = backend_class(backend).from_pretrained
        shared: dict[str, Any] = {
            k: settings.pop(k) for k in ("device", "dtype", "device_map", "trust_remote_code", "tool_format") if k in settings
        }
        return cls(
            load(large, **{**shared, **dict(large_options or {})}),
            load(small, **{**shared, **dict(small_options or {})}),
            owns_backends=True,
            **settings,
        )

    def generate(
        self,
        messages: MessagesInput,
        *,
        tools: Tools | None = None,
        policy: str | Policy | None = None,
        **options: Any,
    ) -> RelayResult:
        """Generates and waits for the result.

        Args:
            messages: A string, or messages as OpenAI-style dicts or `Message`.
            tools: Tools in OpenAI's format.
            policy: Another policy for this request.
            **options: The fields of `RequestOptions`: temperature, max_tokens, seed, stop, n, reasoning, budgets, …

        Returns:
            The result; the fold of the events that `stream` would yield.

        Raises:
            ConfigError: An argument or message is wrong.
            PromptTooLong: The prompt leaves no room in the window.
            BackendError: A backend failed and the rules did not bridge it; `partial` holds what there was.
        """
        self._not_inside("generate", "agenerate")
        job = self._job(messages, tools, policy, options)
        return self._wait_for(lambda: self._collect(job))

    async def agenerate(
        self,
        messages: MessagesInput,
        *,
        tools: Tools | None = None,
        policy: str | Policy | None = None,
        **options: Any,
    ) -> RelayResult:
        """As `generate`, for any event loop, which stays free. Cancelling it stops the running model."""
        job = self._job(messages, tools, policy, options)
        return await asyncio.wrap_future(self._loop.submit(lambda: self._collect(job)))

    def stream(
        self,
        messages: MessagesInput,
        *,
        tools: Tools | None = None,
        policy: str | Policy | None = None,
        **options: Any,
    ) -> RelayStream:
        """Generates and yields events as they happen. Arguments as in `generate`, checked at once."""
        self._not_inside("stream", "astream")
        queue, cancel = self._start(self._job(messages, tools, policy, options))
        return RelayStream(queue, cancel)

    def astream(
        self,
        messages: MessagesInput,
        *,
        tools: Tools | None = None,
        policy: str | Policy | None = None,
        **options: Any,
    ) -> AsyncRelayStream:
        """As `stream`, for any event loop: `async for event in engine.astream(…)`."""
        queue, cancel = self._start(self._job(messages, tools, policy, options))
        return AsyncRelayStream(queue, cancel)

    def encode(self, text: str, *, role: Role = "large") -> list[int]:
        """The ids of a text in the vocabulary of one of the models, without special tokens."""
        self._not_inside("encode", "backends[role].encode")
        try:
            without_surrogates(text)
        except ValueError as e:
            raise MessageError(str(e)) from e
        return self._wait_for(lambda: self.backends[role].encode(text))

    def prompt_ids(
        self,
        messages: MessagesInput,
        *,
        tools: Tools | None = None,
        role: Role = "large",
        reasoning: bool | None = None,
        template_options: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        """The ids of a conversation as one of the models reads it, rendered by its own chat template: to count them, say.

        Any part of a conversation will do; whether it can be answered is not checked.

        Raises:
            MessageError: A message is malformed, or the template refuses the conversation.
        """
        self._not_inside("prompt_ids", "backends[role].render")
        parsed, checked_tools = parse_messages(messages), read_tools(tools)
        options = RenderOptions(reasoning=reasoning, template=dict(template_options or {}))
        return self._wait_for(lambda: self.backends[role].render(parsed, checked_tools, options)).ids

    def close(self) -> None:
        """Cancels what runs, closes the backends that the engine opened, and stops its thread. May be called twice."""
        self._loop.close(self._aclose_backends if self._owns_backends else None)

    async def aclose(self) -> None:
        """As `close`, without blocking the caller's loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def __copy__(self) -> Self:
        return self  # whoever copies what holds an engine means to share it

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("an engine cannot be pickled: it holds models and a thread; build one where it is needed")

    def __repr__(self) -> str:
        names = (f"{role}={backend.capabilities.name!r}" for role, backend in self.backends.items())
        return f"{type(self).__name__}({', '.join(names)}, policy={self.policy.name!r})"

    def _resolve_policy(self, policy: str | Policy) -> Policy:
        made = make_policy(policy) if isinstance(policy, str) else policy
        if not isinstance(made, Policy):
            raise ConfigError(f"policy must be a name or a Policy, not {type(policy).__name__}")
        return made.with_cues(self._cues()) if made.needs_cues and getattr(made, "cues", None) is None else made

    def _cues(self) -> CueProfile:
        if self.cue_profile is None:
            large, small = (self.backends[role].capabilities.name for role in ROLES)
            self.cue_profile = find_profile(large, small)
            if self.cue_profile is None:
                self.cue_profile = load_profile(GENERIC)
                warnings.warn(
                    f"no cue profile is known for {large!r} with {small!r}: the generic one is used, which was not measured on this pair; "
                    "pass cue_profile=… to choose",
                    RelayWarning,
                    stacklevel=4,
                )
        return self.cue_profile

    def _job(self, messages: MessagesInput, tools: Tools | None, policy: str | Policy | None, options: dict[str, Any]) -> Job:
        read = read_options(**options)
        seed = random.getrandbits(31) if read.seed is None else read.seed
        chosen = self.policy if policy is None else self._resolve_policy(policy)
        offered = read_tools(tools)
        job = Job(
            backends=self.backends,
            policy=chosen,
            options=read,
            messages=read_messages(messages),
            tools=[] if read.tool_choice.mode == "none" else offered,
            constraints=constraints_of(self.backends, chosen, read, offered),
            rules=self.rules,
            health=self.health,
            prices=self.prices,
            seed=seed,
            session=uuid.uuid4().hex,
            started=self._clock(),
        )
        self._warn_greedy(job, read)
        return job

    def _warn_greedy(self, job: Job, options: RequestOptions) -> None:
        for role in job.policy.roles:
            capabilities = self.backends[role].capabilities
            asked = job.sampling(role).greedy and not capabilities.sampling.greedy
            if asked and capabilities.family == "qwen3" and options.reasoning is not False:
                warnings.warn(
                    f"greedy decoding makes a thinking Qwen3 ({capabilities.name!r}) repeat itself without end; its authors recommend "
                    "temperature=0.6, top_p=0.95, top_k=20",
                    RelayWarning,
                    stacklevel=4,
                )

    def _start(self, job: Job) -> tuple[EventQueue, Callable[[], object]]:
        queue = EventQueue(self._loop.loop)
        return queue, self._loop.start(lambda: self._run(job, queue), queue.close)

    async def _collect(self, job: Job) -> RelayResult:
        sink = Collector()
        try:
            await self._run(job, sink)
        except GenerationError as e:
            e.partial = sink.fold.result()
            raise
        return sink.fold.result()

    async def _run(self, job: Job, sink: Sink) -> None:
        try:
            try:
                await prepare(job)
            except (Exception, asyncio.CancelledError) as e:
                for choice in range(job.options.n):
                    sink.put(failed_before_start(job, choice, e, self._clock() - job.started))
                raise
            await self._run_choices(job, sink)
        except asyncio.CancelledError:
            if asyncio.current_task() in self._loop.ended:  # its reader did not ask for that
                raise GenerationError("the engine was closed while it generated") from None
            raise

    async def _run_choices(self, job: Job, sink: Sink) -> None:
        runs: list[Coroutine[Any, Any, None]] = [RelayRun(job, choice, sink, self._clock).run() for choice in range(job.options.n)]
        if len(runs) == 1:
            await runs[0]
            return
        # One choice's failure leaves the others alone; it is raised when they have ended.
        ended = await asyncio.gather(*runs, return_exceptions=True)
        failures = [e for e in ended if isinstance(e, BaseException)]
        if failures:
            raise failures[0]

    async def _aclose_backends(self) -> None:
        ended = await asyncio.gather(*(backend.aclose() for backend in self.backends.values()), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    def _wait_for(self, make: Make[T]) -> T:
        """Runs a coroutine on the engine's thread and waits for what it returns."""
        future = self._loop.submit(make)
        try:
            while not wait([future], timeout=0.5).done:  # in short turns, so that a Ctrl-C is not missed
                pass
            return future.result()
        except BaseException:  # KeyboardInterrupt too: the models must not go on for nobody
            future.cancel()
            raise

    def _not_inside(self, method: str, instead: str) -> None:
        if self._loop.inside:
            raise ConfigError(f"{method}() would wait for itself on the engine's own thread; use {instead}() there")
