"""The settings that the classes for the frameworks share, and the checks of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, SecretStr, field_serializer, field_validator, model_validator

from relay_integrations.adapter.model_names import DEFAULT_POLICY, ModelNames
from relay_integrations.adapter.segment_trace import TraceMode
from relay_integrations.adapter.shared_engine import EngineSettings, SharedEngine
from relay_integrations.backends import BACKENDS
from relay_integrations.config import FailureRules, Prices, RequestOptions, checked, read_failure_rules, read_options
from relay_integrations.cues.profile import CueProfile, read_profile
from relay_integrations.engine import RelayEngine
from relay_integrations.errors import ConfigError
from relay_integrations.policies import POLICIES, Policy, make_policy
from relay_integrations.sampling import Sampling

PLACING = ("device", "dtype", "device_map", "trust_remote_code")
OF_AN_ENGINE = ("large", "small", *PLACING, "large_options", "small_options", "cue_profile", "on_failure", "prices")
"""Fields that say how an engine is opened; one that is given has been opened already."""

_choosing = threading.Lock()


class RelayFields(BaseModel):
    """Fields of a model that is a relay. The classes that users see document them."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    free_options: ClassVar[str]
    """The field that holds further request options."""

    engine: InstanceOf[RelayEngine] | None = Field(None, exclude=True)
    large: str | Path | None = None
    small: str | Path | None = None
    backend: str = "transformers"
    large_url: str | None = Field(default_factory=lambda: os.environ.get("RELAY_LARGE_URL"))
    small_url: str | None = Field(default_factory=lambda: os.environ.get("RELAY_SMALL_URL"))
    api_key: SecretStr | None = Field(None, exclude=True)
    timeout: float | None = None
    max_retries: int | None = Field(None, ge=0)
    device: str | None = None
    dtype: str | None = None
    device_map: Any = None
    trust_remote_code: bool | None = None
    large_options: dict[str, Any] = Field(default_factory=dict)
    small_options: dict[str, Any] = Field(default_factory=dict)
    policy: str | InstanceOf[Policy] | None = None
    cue_profile: InstanceOf[CueProfile] | dict[str, Any] | str | Path | None = None
    on_failure: InstanceOf[FailureRules] | Literal["continue", "raise"] | dict[str, Any] | None = None
    prices: dict[Literal["large", "small"], InstanceOf[Prices] | dict[str, float | None]] | None = None

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    penalties: Literal["output", "per_hop"] | None = None
    large_sampling: InstanceOf[Sampling] | dict[str, Any] | None = None
    small_sampling: InstanceOf[Sampling] | dict[str, Any] | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: list[str] | str | None = None
    reasoning: bool | None = None
    template_options: dict[str, Any] | None = None
    large_token_budget: int | float | None = None
    reasoning_budget: int | None = None

    trace_segments: TraceMode = "summary"
    max_segments: int = Field(100, ge=0)
    shared_engine: SharedEngine | None = Field(None, exclude=True, repr=False)

    @model_validator(mode="after")
    def _check_relay_settings(self) -> Self:
        if self.engine is None:
            self._check_models()
        else:
            self._check_beside_engine()
        if isinstance(self.policy, str):
            make_policy(self.policy)
        if self.cue_profile is not None:
            read_cue_profile(self.cue_profile)
        for role, price in (self.prices or {}).items():
            if not isinstance(price, Prices):
                checked(Prices, price, f"prices[{role!r}]")
        read_options(**self.default_options())
        return self

    @field_validator("policy", mode="before")
    @classmethod
    def _read_plain_policy(cls, policy: Any) -> Any:
        return make_policy(**policy) if isinstance(policy, Mapping) and "name" in policy else policy

    @field_serializer("policy")
    def _write_plain_policy(self, policy: str | Policy | None) -> Any:
        if not isinstance(policy, Policy):
            return policy
        return {"name": policy.name, **policy.model_dump(mode="json", exclude_defaults=True)}

    @model_validator(mode="before")
    @classmethod
    def _refuse_one_model(cls, values: Any) -> Any:
        if isinstance(values, dict) and ("model" in values or "model_name" in values):
            raise ConfigError("a relay has two models: say large=… and small=… (and policy=… for who writes when)")
        return values

    @model_validator(mode="after")
    def _share_engine(self) -> Self:
        if self.engine is None:
            self.opener()
        return self

    def _check_models(self) -> None:
        given = [name for name in ("large_url", "small_url") if getattr(self, name)]
        if given and "backend" not in self.model_fields_set:
            raise ConfigError(
                f"{given[0]} (or {'RELAY_' + given[0].upper()} in the environment) asks for models on a server, which this release has no "
                f"backend for; leave it out, or say backend={self.backend!r} to run models in this process all the same"
            )
        if self.backend not in BACKENDS:
            raise ConfigError(f"unknown backend {self.backend!r}; there are: {', '.join(BACKENDS)}")
        missing = [name for name in ("large", "small") if getattr(self, name) is None]
        if len(missing) == 2:
            raise ConfigError(f"give large=… and small=…, or engine=…; {type(self).__name__}.tiny() runs the pair that ships with relay")
        if missing:
            raise ConfigError(f"{missing[0]} is missing: a relay needs two models")
        self._engine_settings()

    def _check_beside_engine(self) -> None:
        for name in OF_AN_ENGINE:
            if getattr(self, name):
                raise ConfigError(f"{name} is a setting of the engine, and engine=… has its own: leave one of them out")

    def default_options(self) -> dict[str, Any]:
        """The request options that this model sends unless a call says otherwise; only what was set."""
        own = {name: value for name in RequestOptions.model_fields if (value := getattr(self, name, None)) is not None}
        free: dict[str, Any] = getattr(self, self.free_options)
        twice = sorted(own.keys() & free.keys())
        if twice:
            raise ConfigError(f"{twice[0]} is given twice: in {self.free_options} and as a field of its own")
        return {**own, **free}

    def opener(self) -> SharedEngine:
        """What opens the engine. Copies share it, unless they were given other models or other settings of an engine."""
        settings = self._engine_settings()
        with _choosing:
            if self.shared_engine is None or self.shared_engine.settings != settings:
                self.shared_engine = SharedEngine(settings)
            return self.shared_engine

    def close(self) -> None:
        """Closes the engine that this model opened, for all copies of it. An engine that was passed in stays open."""
        if self.engine is None:
            self.opener().close()

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop."""
        if self.engine is None:
            await self.opener().aclose()

    def _open(self) -> RelayEngine:
        return self.engine if self.engine is not None else self.opener().get()

    async def _aopen(self) -> RelayEngine:
        return self.engine if self.engine is not None else await self.opener().aget()

    def _engine_settings(self) -> EngineSettings:
        assert self.large is not None
        assert self.small is not None
        rules = read_failure_rules(self.on_failure)
        return EngineSettings(
            large=self.large,
            small=self.small,
            backend=self.backend,
            placing={name: getattr(self, name) for name in PLACING if getattr(self, name) is not None},
            large_options=self.large_options,
            small_options=self.small_options,
            rules=rules if self.max_retries is None else rules.model_copy(update={"retries": self.max_retries}),
            prices=self.prices,
        )

    @property
    def names(self) -> ModelNames:
        """What the pair and its models are called."""
        if self.engine is not None:
            large, small = (self.engine.backends[role].capabilities.name for role in ("large", "small"))
        else:
            large, small = self._engine_settings().names
        return ModelNames(large, small, self._policy_name)

    @property
    def _policy_name(self) -> str:
        if self.policy is None:
            return DEFAULT_POLICY if self.engine is None else self.engine.policy.name
        return self.policy if isinstance(self.policy, str) else self.policy.name

    def read_policy(self, asked: Any, policy: Any) -> tuple[str, Policy | None]:
        """The name of the policy that a call runs, and the policy itself where it is not the engine's own.

        Args:
            asked: What the call says is its `model`: a policy by its name, or one of the two models.
            policy: What it says is its `policy`, by name or itself.

        Raises:
            ConfigError: They name no policy, or both name one.
        """
        if asked is not None and policy is not None:
            raise ConfigError("model=… and policy=… both choose a policy: leave one of them out")
        if isinstance(policy, Policy):
            return policy.name, policy if self.cue_profile is None else policy.with_cues(read_cue_profile(self.cue_profile))
        if not isinstance(policy, str | None):
            raise ConfigError(f"policy={policy!r} is no policy: give the name of one ({', '.join(POLICIES)}) or a Policy")
        name = self.names.policy_of(asked) if asked is not None else policy
        return name or self.names.policy, self.policy_for(name)

    def policy_for(self, name: str | None) -> Policy | None:
        """The policy of a call, by its name or by this model's settings; None where it is the engine's own."""
        if name is not None and name != self._policy_name:
            policy = make_policy(name)
        elif isinstance(self.policy, Policy):
            policy = self.policy
        elif self.policy is None and self.engine is not None:
            return None
        else:
            policy = make_policy(self._policy_name)
        return policy if self.cue_profile is None else policy.with_cues(read_cue_profile(self.cue_profile))


def read_cue_profile(source: CueProfile | Mapping[str, Any] | str | Path) -> CueProfile:
    """As `read_profile`; a file is read once."""
    return _read_file(source) if isinstance(source, (str, Path)) else read_profile(source)


_read_file = lru_cache(maxsize=32)(read_profile)
