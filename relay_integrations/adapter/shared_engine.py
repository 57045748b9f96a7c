"""The engine behind a model and all of its copies: opened once, when it is first needed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from relay_integrations.config import FailureRules, Prices
from relay_integrations.engine import RelayEngine
from relay_integrations.errors import EngineClosed
from relay_integrations.roles import Role
from relay_integrations.tiny import LARGE, OTHER_SMALL, SMALL, locate


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is opened with.

    Attributes:
        large, small: Folders, hub ids, or names of the models that ship.
        backend: Kind of backend.
        placing: What both models share: device, dtype, device_map, trust_remote_code; only what was set.
        large_options, small_options: Options for one of them.
        rules: What happens when a backend fails.
        prices: By role.
    """

    large: str | Path
    small: str | Path
    backend: str
    placing: Mapping[str, Any]
    large_options: Mapping[str, Any]
    small_options: Mapping[str, Any]
    rules: FailureRules
    prices: Mapping[Role, Prices | dict[str, float | None]] | None

    @property
    def names(self) -> tuple[str, str]:
        """The models' names as the backends will say them, known before anything is loaded."""
        return _name(self.large, self.large_options), _name(self.small, self.small_options)

    def open(self) -> RelayEngine:
        """Loads the models.

        Raises:
            ModelLoadError: One cannot be loaded.
        """
        # The policy comes with each call, so that copies with another one share the engine; this one asks for no cue profile.
        settings: dict[str, Any] = {"policy": "large-only", "on_failure": self.rules, "prices": self.prices}
        options = (self.placing, self.large_options, self.small_options)
        if self.large == LARGE and self.small in (SMALL, OTHER_SMALL) and self.backend == "transformers" and not any(options):
            return RelayEngine.tiny(small=str(self.small), **settings)
        return RelayEngine.from_pretrained(
            locate(self.large),
            locate(self.small),
            backend=self.backend,
            large_options=self.large_options,
            small_options=self.small_options,
            **self.placing,
            **settings,
        )


class SharedEngine:
    """Opens an engine at its first use, and hands the same one to all who ask.

    Copies of it, deep ones too, are itself. Pickled, it takes its settings along and opens an engine of its own elsewhere.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._engine: RelayEngine | None = None
        self._closed = False

    def get(self) -> RelayEngine:
        """The engine; the first call loads the models, others wait for that.

        Raises:
            EngineClosed: `close` was called.
            ModelLoadError: A model cannot be loaded; the next call tries again.
        """
        if self._engine is not None:
            return self._engine
        with self._lock:
            if self._closed:
                raise EngineClosed("this model was closed before its first use, and its copies with it; build a new one")
            if self._engine is None:
                self._engine = self.settings.open()
            return self._engine

    async def aget(self) -> RelayEngine:
        """As `get`; the event loop stays free while the models load."""
        return self._engine if self._engine is not None else await asyncio.to_thread(self.get)

    def close(self) -> None:
        """Closes the engine, if it was opened; it is not opened again."""
        with self._lock:
            self._closed = True
            engine = self._engine
        if engine is not None:
            engine.close()

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[EngineSettings]]:
        return type(self), (self.settings,)


def _name(model: str | Path, options: Mapping[str, Any]) -> str:
    given = options.get("name")
    return str(given) if given else os.path.basename(os.fspath(model).rstrip("/\\"))
