"""What a relay is called, and what another model name in one call means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay_integrations.errors import ConfigError
from relay_integrations.policies import POLICIES

DEFAULT_POLICY = "relaygen"


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The names of a pair, and the name of the policy that it runs by default."""

    large: str
    small: str
    policy: str = DEFAULT_POLICY

    @property
    def pair(self) -> str:
        """The pair under the policy that a relay has unless told otherwise."""
        return f"{self.large}+{self.small}"

    def of_policy(self, policy: str) -> str:
        """The pair under a policy: `LARGE+SMALL`, or `LARGE+SMALL:POLICY` for any but the default one."""
        return self.pair if policy == DEFAULT_POLICY else f"{self.pair}:{policy}"

    @property
    def model(self) -> str:
        """What is reported where the caller says nothing else."""
        return self.of_policy(self.policy)

    def policy_of(self, model: Any) -> str:
        """The policy that a call with `model=…` runs. The pair stays: other models are another object.

        Args:
            model: A policy's name, `LARGE+SMALL`, `LARGE+SMALL:POLICY`, or the name of one of the two models, which then runs alone.

        Raises:
            ConfigError: It is none of these.
        """
        meant = {name: name for name in POLICIES} | {self.of_policy(name): name for name in POLICIES}
        meant = {self.small: "small-only", self.large: "large-only", **meant, self.model: self.policy}
        if isinstance(model, str) and model in meant:
            return meant[model]
        raise ConfigError(
            f"model={model!r} is unknown: this model runs {self.pair!r}, and a call may choose a policy ({', '.join(POLICIES)}) or "
            "one of the two models by its name; for other models build another one"
        )
