"""The policies. A new one is one file beside this, and one line in `POLICIES`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from relay_integrations.errors import ConfigError
from relay_integrations.policies.base import Plan, Policy, StopRule
from relay_integrations.policies.baselines import LargeOnly, RandomPolicy, Schedule, SmallOnly
from relay_integrations.policies.relaygen import AllCues, RelayGen
from relay_integrations.validation import explain

POLICIES: dict[str, type[Policy]] = {p.name: p for p in (RelayGen, LargeOnly, SmallOnly, RandomPolicy, AllCues, Schedule)}


def make_policy(name: str, **options: Any) -> Policy:
    """Builds a policy by its name.

    Args:
        name: One of `POLICIES`.
        **options: The policy's own settings.

    Raises:
        ConfigError: The name or an option is unknown, or a value is out of range.
    """
    if name not in POLICIES:
        raise ConfigError(f"unknown policy {name!r}; there are: {', '.join(POLICIES)}")
    try:
        return POLICIES[name](**options)
    except ValidationError as e:
        known = ", ".join(POLICIES[name].model_fields) or "none"
        raise ConfigError(f"policy {name!r}: {explain(e)} (its settings: {known})") from e


__all__ = [
    "POLICIES",
    "AllCues",
    "LargeOnly",
    "Plan",
    "Policy",
    "RandomPolicy",
    "RelayGen",
    "Schedule",
    "SmallOnly",
    "StopRule",
    "make_policy",
]
