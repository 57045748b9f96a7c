"""Settings of the unit tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# CI repeats the same examples, so that a change is judged by what it changed; elsewhere each run tries others.
# Slow machines and threads make single examples slow now and then; what counts is the number of examples.
settings.register_profile(
    "relay", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize="CI" in os.environ
)
settings.load_profile("relay")


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on what the user has set or stored."""
    for name in ("NO_COLOR", "FORCE_COLOR", "HF_HOME", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
