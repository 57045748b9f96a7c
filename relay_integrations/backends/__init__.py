"""The backends. A new one is one file beside this, and one line in `BACKENDS`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from relay_integrations.errors import ConfigError

if TYPE_CHECKING:
    from relay_integrations.backends.base import Backend

BACKENDS: dict[str, str] = {
    "scripted": "relay_integrations.backends.scripted:ScriptedBackend",
    "transformers": "relay_integrations.backends.transformers:TransformersBackend",
}
"""Where each kind of backend is; its packages are imported only when it is used."""


def backend_class(kind: str) -> type[Backend]:
    """The class of a kind of backend.

    Raises:
        ConfigError: There is no such kind.
        ModelLoadError: A package that it needs is not installed; names the extra.
    """
    if kind not in BACKENDS:
        raise ConfigError(f"unknown backend {kind!r}; there are: {', '.join(BACKENDS)}")
    module, name = BACKENDS[kind].split(":")
    found: type[Backend] = getattr(importlib.import_module(module), name)
    return found
