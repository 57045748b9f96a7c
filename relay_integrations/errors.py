"""Every error a user of the relay can meet.

One small hierarchy: catch `RelayError` for all of it. Each message names the thing that is wrong and the way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay_integrations.result import RelayResult


class RelayError(Exception):
    """Base class of all errors raised by this package."""


class ConfigError(RelayError, ValueError):
    """A setting, argument or file that the caller gave cannot be used."""


class MessageError(ConfigError):
    """The messages are empty or malformed."""


class CueProfileError(ConfigError):
    """A cue profile cannot be found, read or used."""


class ModelLoadError(RelayError):
    """A model, its tokenizer or its chat template cannot be loaded."""


class NotSupported(RelayError, NotImplementedError):
    """A backend lacks a feature that was asked for.

    Attributes:
        backend: Name of the backend, as in its capabilities.
        feature: The missing feature.
    """

    def __init__(self, backend: str, feature: str, hint: str = "") -> None:
        self.backend = backend
        self.feature = feature
        super().__init__(f"backend {backend!r} does not support {feature}" + (f": {hint}" if hint else ""))


class GenerationError(RelayError):
    """A generation could not be completed. Nothing that was generated before it is lost.

    Attributes:
        partial: Text, segments and usage up to the failure, empty where nothing had started; None until the error reaches the caller.
    """

    def __init__(self, message: str, partial: RelayResult | None = None) -> None:
        self.partial = partial
        super().__init__(message)


class PromptTooLong(GenerationError, ValueError):
    """The prompt leaves no room in the large model's window (nothing is ever truncated)."""


class BackendError(GenerationError):
    """A backend failed while it generated, and the failure rules did not allow to go on without it."""


class ConstraintFailed(GenerationError, RuntimeError):
    """An answer could not be held to its schema any longer. The schema is the reason, not the backend: no other model goes on."""


class EngineClosed(RelayError, RuntimeError):
    """The engine was closed, and cannot generate any more."""
