"""What a relay is called, and what another model name in one call means."""

from __future__ import annotations

from dataclasses import dataclass

from relay_integrations import POLICIES, ConfigError

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

    def policy_of(self, model: str) -> str:
        """The policy that a call with `model=…` runs. The pair stays: other models are another chat model.

        Args:
            model: A policy's name, `LARGE+SMALL`, `LARGE+SMALL:POLICY`, or the name of one of the two models, which then runs alone.

        Raises:
            ConfigError: It is none of these.
        """
        if model in POLICIES:
            return model
        if model == self.model:
            return self.policy
        if model == self.pair:
            return DEFAULT_POLICY
        pair, _, policy = model.rpartition(":")
        if pair == self.pair and policy in POLICIES:
            return policy
        for name, alone in ((self.large, "large-only"), (self.small, "small-only")):
            if model == name:
                return alone
        raise ConfigError(
            f"model={model!r} is unknown: this chat model runs {self.pair!r}, and a call may choose a policy ({', '.join(POLICIES)}) or "
            "one of the two models by its name; for other models build another ChatRelay"
        )
