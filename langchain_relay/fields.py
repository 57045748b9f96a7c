"""What a `ChatRelay` is made with, and the checks of it."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from langchain_core.language_models import ModelProfile
from pydantic import ConfigDict, Field, model_validator

from langchain_relay.profiles import profile_of_engine, profile_of_models
from langchain_relay.scoped_model import ScopedChatModel
from relay_integrations import ConfigError, __version__
from relay_integrations.adapter.fields import RelayFields


class ChatFields(RelayFields, ScopedChatModel):
    """The fields of `ChatRelay`, which documents them."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    free_options: ClassVar[str] = "model_kwargs"

    n: int | None = None
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    streaming: bool = False

    @model_validator(mode="after")
    def _check_output_version(self) -> Self:
        if self.output_version not in (None, "v0", "v1"):
            raise ConfigError(
                f"output_version={self.output_version!r} is unknown; there are: 'v0', 'v1'. LC_OUTPUT_VERSION in the environment sets it "
                "where the argument is left out"
            )
        return self

    @model_validator(mode="after")
    def _set_relay_version(self) -> Self:
        self._add_version("langchain-relay", __version__)
        return self

    def _resolve_model_profile(self) -> ModelProfile | None:
        if self.engine is not None:
            return profile_of_engine(self.engine)
        return None if self.large is None else profile_of_models(self.large, self.large_options)
