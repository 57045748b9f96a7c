"""The candidate switch cues of the RelayGen paper (arXiv 2602.06454)."""

from __future__ import annotations

_CAPITALISED = (
    "Therefore", "Thus", "So", "Similarly", "Also", "Alternatively", "Wait", "Hmm", "But", "However", "Hence", "Another",
    "Oh", "Maybe", "Other", "Again", "Now", "Ah", "Any", "Specifically", "Then", "Next",
)  # fmt: skip
_AS_THEY_ARE = ("check", "double-check", "verify")


def candidates() -> tuple[str, ...]:
    """The 91 candidates: most words capitalised and lower-case, each with and without a trailing comma."""
    words = [form for word in _CAPITALISED for form in (word, word.lower())]
    return (*(form for word in words for form in (word, word + ",")), *_AS_THEY_ARE)
