"""The shipped tiny models, and the problems that they were trained on. See MODEL_CARD.md."""

from __future__ import annotations

from pathlib import Path

VERSION = "1.0"
"""Of the weights; grows whenever they are trained anew."""

LARGE = "relay-tiny-large"
SMALL = "relay-tiny-small"
OTHER_SMALL = "relay-tiny-small-other"
"""A small model with a tokenizer of its own."""

MAX_TOKENS = 700
"""A right response has up to some 450 tokens; a model that has lost its way stops here."""

WEIGHTS = Path(__file__).parent / "weights"


def model_path(name: str) -> Path:
    """The folder of a shipped model, in Hugging Face format; cue profiles know models by their folders' names."""
    return WEIGHTS / name


def locate(model: str | Path) -> str | Path:
    """Where a model is: one that ships goes by its name, any other by its folder or hub id, which is given back as it is."""
    return model_path(str(model)) if str(model) in (LARGE, SMALL, OTHER_SMALL) else model


def pair_paths() -> tuple[Path, Path]:
    """The folders of the large model and of the small one with the same tokenizer."""
    return model_path(LARGE), model_path(SMALL)
