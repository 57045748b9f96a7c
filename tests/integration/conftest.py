"""What the tests with real models share: the tiny pair as backends, and short ways to drive a backend without an engine."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.tiny import pair_paths

# One thread: with anything else on the machine, two threads waiting for each other take many times as long.
torch.set_num_threads(1)

settings.register_profile(
    "models", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize="CI" in os.environ
)
settings.load_profile("models")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the standard tests that a class names in `beyond_its_models`; overriding them is not allowed."""
    left_out = [item for item in items if getattr(item, "originalname", "") in getattr(getattr(item, "cls", None), "beyond_its_models", ())]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches for the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture(scope="session")
def large() -> TransformersBackend:
    return TransformersBackend.from_pretrained(pair_paths()[0], dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def small() -> TransformersBackend:
    return TransformersBackend.from_pretrained(pair_paths()[1], dtype="float32", device="cpu")
