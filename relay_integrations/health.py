"""Keeps count of failures: after several in a row, new generations do without a role for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from relay_integrations.config import FailureRules
from relay_integrations.roles import Role


class Health:
    """The failures of both roles of one engine.

    Args:
        rules: When a cool-down opens and how long it lasts.
        clock: Monotonic seconds.
    """

    def __init__(self, rules: FailureRules, clock: Callable[[], float] = time.monotonic) -> None:
        self._rules = rules
        self._clock = clock
        self._failures: dict[Role, int] = {"large": 0, "small": 0}
        self._closed_until: dict[Role, float] = {"large": 0.0, "small": 0.0}

    def failed(self, role: Role) -> None:
        """Counts a failed request."""
        self._failures[role] += 1
        if self._failures[role] >= self._rules.cool_down_after:
            self._closed_until[role] = self._clock() + self._rules.cool_down_s

    def worked(self, role: Role) -> None:
        """A request came to its end: the count starts anew."""
        self._failures[role] = 0
        self._closed_until[role] = 0.0

    def available(self, role: Role) -> bool:
        """Whether new generations may use the role. After a cool-down the next failure opens another at once."""
        return self._clock() >= self._closed_until[role]
