"""Think tags: the texts around a model's reasoning, and their translation between two models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThinkTags:
    """The texts that open and close a model's reasoning."""

    open: str = "<think>"
    close: str = "</think>"


def translate(text: str, source: ThinkTags | None, target: ThinkTags | None) -> str:
    """Replaces one model's tags by another's; a model without tags is shown none."""
    if source is None or source == target:
        return text
    text = text.replace(source.open, target.open if target else "")
    return text.replace(source.close, target.close if target else "")
