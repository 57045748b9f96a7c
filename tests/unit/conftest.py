"""Settings of the unit tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import pytest_socket
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
    for name in ("NO_COLOR", "FORCE_COLOR", "HF_HOME", "HF_TOKEN", "LC_OUTPUT_VERSION"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.startswith(("RELAY_", "LANGSMITH_", "LANGCHAIN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def _no_socket() -> Iterator[None]:
    """No test opens a connection. Event loops wake themselves by a pair of Unix sockets."""
    pytest_socket.disable_socket(allow_unix_socket=True)
    yield
    pytest_socket.enable_socket()
