"""The window of a model that is not loaded yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay_integrations.tiny import locate


def window_before_loading(large: str | Path, options: Mapping[str, Any]) -> int | None:
    """The window that a large model will have, as far as it can be known: from its options, or the config that lies in its folder.

    Args:
        large: Folder, hub id or name of the model.
        options: The options that it will be loaded with.
    """
    given = options.get("context_window")
    return given if isinstance(given, int) else _in_config(Path(locate(large)) / "config.json")


def _in_config(config: Path) -> int | None:
    try:
        data = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    window = (data.get("text_config") or data).get("max_position_embeddings") if isinstance(data, dict) else None
    return window if isinstance(window, int) else None
