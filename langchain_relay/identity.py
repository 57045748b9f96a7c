"""What tells one chat model from another: the key of LangChain's cache, and what traces show as its parameters."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import BaseModel

from langchain_relay.fields import ChatFields
from relay_integrations import CueProfile, Policy, RelayEngine
from relay_integrations.adapter.fields import read_cue_profile

_KEYS = {"stop": "default_stop"}


def identity(model: ChatFields) -> dict[str, Any]:
    """All that an answer depends on, but for what a call itself says. Known before anything is loaded."""
    own: dict[str, Any] = {
        "model": model.names.model,
        # Of the message's form, not of the answer; but the cache keeps messages.
        "output_version": model.output_version,
        "max_segments": model.max_segments,
        "policy": _policy(model.policy),
        "cue_profile": None if model.cue_profile is None else _cues(read_cue_profile(model.cue_profile)),
    }
    pair = _of_models(model) if model.engine is None else _of_engine(model.engine)
    # `stop` is core's own key for what a call says: the model's own goes by another name, or it would be lost.
    return {**own, **pair, **{_KEYS.get(name, name): _plain(value) for name, value in model.default_options().items()}}


def _of_models(model: ChatFields) -> dict[str, Any]:
    settings = model.opener().settings
    return {
        "large": str(settings.large),
        "small": str(settings.small),
        "backend": settings.backend,
        **{name: str(value) for name, value in settings.placing.items()},
        "large_options": dict(settings.large_options),
        "small_options": dict(settings.small_options),
        "on_failure": settings.rules.model_dump(),
    }


def _of_engine(engine: RelayEngine) -> dict[str, Any]:
    facts: dict[str, Any] = {"engine_policy": _policy(engine.policy), "on_failure": engine.rules.model_dump()}
    for role, backend in engine.backends.items():
        capabilities = backend.capabilities
        facts[role] = {"name": capabilities.name, "parameters": capabilities.parameters, "vocabulary": capabilities.vocabulary}
    return facts


def _policy(policy: str | Policy | None) -> Any:
    if not isinstance(policy, Policy):
        return policy
    return {"name": policy.name, **{name: _plain(getattr(policy, name)) for name in type(policy).model_fields}}


def _cues(profile: CueProfile) -> str:
    """Name and content, in short: it may hold hundreds of cues."""
    return f"{profile.name}#{hashlib.blake2b(profile.model_dump_json().encode(), digest_size=6).hexdigest()}"


def _plain(value: Any) -> Any:
    if isinstance(value, CueProfile):
        return _cues(value)
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
