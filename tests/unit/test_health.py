"""The cool-down: a role that fails again and again is left in peace for a while."""

from __future__ import annotations

from typing import Any

import pytest

from relay_integrations import BackendError, FailureRules, RelayEngine
from relay_integrations.health import Health
from tests.unit.support import MATHS, backend, continuing, reasons, relay, requests, turns


def dying(after: int = 0) -> Any:
    """A script that fails after so many tokens of each request."""
    return continuing(MATHS, fail_after=after)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def cooling(*scripts: Any, **rules: Any) -> tuple[RelayEngine, Clock]:
    clock = Clock()
    engine = relay(*scripts, on_failure=rules)
    engine.health = Health(engine.rules, clock)
    return engine, clock


def test_repeated_failures_open_a_cool_down_and_time_ends_it() -> None:
    engine, clock = cooling(MATHS, dying(1), cool_down_after=2, cool_down_s=10)
    with engine:
        for _ in range(2):
            assert reasons(engine.generate("hi")) == ["cue", "fallback"]
        assert requests_of(engine, "small") == 2
        result = engine.generate("hi")
        assert turns(result) == [("large", MATHS)]
        assert result.segments[0].reason == "fallback"
        assert requests_of(engine, "small") == 2, "it is left in peace"
        clock.now += 10
        assert reasons(engine.generate("hi")) == ["cue", "fallback"]
        assert turns(engine.generate("hi")) == [("large", MATHS)], "the next failure opens another cool-down at once"


def requests_of(engine: RelayEngine, role: str) -> int:
    return len(backend(engine, role).requests)


def test_a_success_ends_the_count() -> None:
    health = Health(FailureRules(cool_down_after=2), Clock())
    health.failed("small")
    health.worked("small")
    health.failed("small")
    assert health.available("small")
    health.failed("small")
    assert not health.available("small")
    assert health.available("large")


def test_a_role_that_must_raise_is_asked_even_while_it_cools_down() -> None:
    engine, _ = cooling(MATHS, dying(1), small="raise", cool_down_after=1)
    with engine:
        for _ in range(2):
            with pytest.raises(BackendError):
                engine.generate("hi")
        assert requests_of(engine, "small") == 2


def test_where_both_cool_down_both_are_tried() -> None:
    engine, _ = cooling(dying(), dying(), cool_down_after=1, retries=0)
    with engine:
        for _ in range(2):
            with pytest.raises(BackendError):
                engine.generate("hi")
        assert requests(engine) == 4
