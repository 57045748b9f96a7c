"""Which models a command runs, and by which policy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay_integrations.config import Prices
from relay_integrations.engine import RelayEngine
from relay_integrations.errors import ConfigError
from relay_integrations.policies import Policy, make_policy
from relay_integrations.roles import Role
from relay_integrations.tiny import LARGE, OTHER_SMALL, SMALL, locate, model_path


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The models, the policy and the cues that a command line names.

    Attributes:
        large, small: Folders, hub ids or names of the tiny models that ship; both None for the tiny pair.
        policy: Name of a policy; `settings` are its own, as `key=value`.
        cues: Name of a shipped cue profile, or path of one.
        device, dtype, device_map: Where and how both models run.
        prices: By role, for the cost of a generation; None where it does not matter.
    """

    large: str | None = None
    small: str | None = None
    policy: str = "relaygen"
    settings: Sequence[str] = ()
    cues: str | None = None
    device: str | None = None
    dtype: str | None = None
    device_map: str | None = None
    prices: Mapping[Role, Prices] | None = None

    @property
    def tiny(self) -> bool:
        """Whether shipped models are meant."""
        return self.large in (None, LARGE) and self.small in (None, SMALL, OTHER_SMALL)

    def describe(self) -> str:
        """The pair in words."""
        return "the tiny pair" if self.tiny and self.small != OTHER_SMALL else f"{self.large or LARGE} and {self.small}"

    def check(self) -> None:
        """Checks all that can be checked without a model.

        Raises:
            ConfigError: Names the option and the way out.
        """
        if not self.tiny and (self.large is None) != (self.small is None):
            given, missing = ("--large", "--small") if self.small is None else ("--small", "--large")
            raise ConfigError(f"{given} needs {missing} beside it; leave both out for the tiny pair that ships with relay")
        policy = self.make_policy()
        if self.cues is not None and not policy.needs_cues:
            raise ConfigError(f"policy {policy.name!r} takes no cue profile: leave --cues out, or use --policy relaygen")

    def make_policy(self) -> Policy:
        """The policy with its settings."""
        return make_policy(self.policy, **read_settings(self.settings))


def read_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Reads `key=value` pairs; a value is JSON where it can be read so, else text.

    Raises:
        ConfigError: A pair has no `=`.
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {pair!r} is not of the form key=value, e.g. --set answer_role=large")
        try:
            settings[key.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            settings[key.strip().replace("-", "_")] = value
    return settings


def open_engine(choice: ModelChoice) -> RelayEngine:
    """Loads the models.

    Raises:
        ConfigError: A setting is wrong.
        ModelLoadError: A model cannot be loaded.
    """
    choice.check()
    placing = {"device": choice.device, "dtype": choice.dtype, "device_map": choice.device_map}
    shared: dict[str, Any] = {key: value for key, value in placing.items() if value is not None}
    settings: dict[str, Any] = {"policy": choice.make_policy(), "cue_profile": choice.cues, "prices": choice.prices}
    if not choice.tiny:
        return RelayEngine.from_pretrained(locate(str(choice.large)), locate(str(choice.small)), **shared, **settings)
    # Its steps are far too small to share out: a second thread makes them ten times slower on a busy machine.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    small = choice.small or SMALL
    if not shared:
        return RelayEngine.tiny(small=small, **settings)
    return RelayEngine.from_pretrained(model_path(LARGE), model_path(small), **{"dtype": "float32", **shared}, **settings)
