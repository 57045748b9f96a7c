"""LangChain's model profile of a relay: what agents and their middleware ask before they use a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.language_models import ModelProfile

from relay_integrations import RelayEngine
from relay_integrations.adapter.window import window_before_loading


def profile_of_engine(engine: RelayEngine) -> ModelProfile:
    """The profile of an engine's pair."""
    capabilities = engine.backends["large"].capabilities
    return {
        **_common(),
        "max_input_tokens": capabilities.context_window,
        "reasoning_output": capabilities.think_tags is not None,
        "tool_choice": all(backend.capabilities.constraints for backend in engine.backends.values()),
    }


def profile_of_models(large: str | Path, options: Mapping[str, Any]) -> ModelProfile:
    """What is known of a pair before it is loaded: the window, where the large model's config lies in a folder here.

    Args:
        large: Folder, hub id or name of the large model.
        options: The options that it will be loaded with.
    """
    profile: ModelProfile = {**_common(), "reasoning_output": True}
    window = window_before_loading(large, options)
    return {**profile, "max_input_tokens": window} if window else profile


def _common() -> ModelProfile:
    # No `structured_output`: agents would then ask for JSON beside tools; without it they ask for a forced tool call, which every
    # backend that can constrain its output can give.
    return {
        "text_inputs": True,
        "text_outputs": True,
        "image_inputs": False,
        "audio_inputs": False,
        "video_inputs": False,
        "pdf_inputs": False,
        "tool_calling": True,
        "tool_call_streaming": True,
        "temperature": True,
    }
