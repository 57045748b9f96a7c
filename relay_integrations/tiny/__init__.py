"""The shipped pair of tiny models, and the task that they were trained on. See MODEL_CARD.md."""

from __future__ import annotations

from pathlib import Path

_WEIGHTS = Path(__file__).parent / "weights"


def pair_paths() -> tuple[Path, Path]:
    """The folders of the large and the small model, in Hugging Face format; cue profiles know the pair by their names."""
    return _WEIGHTS / "relay-tiny-large", _WEIGHTS / "relay-tiny-small"
