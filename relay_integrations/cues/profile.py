"""Cue profiles: the measured switch cues of one large/small pair, as versioned JSON files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from relay_integrations.cues.lexicon import candidates
from relay_integrations.cues.matcher import CueSet, MatchMode
from relay_integrations.errors import CueProfileError
from relay_integrations.validation import explain

PROFILE_DIR = Path(__file__).parent / "profiles"
GENERIC = "generic"


class Cue(BaseModel):
    """One switch cue and the figures that it was chosen by, if any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    figures: dict[str, float] = Field(default_factory=dict)

    @field_validator("text")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("a cue cannot be blank")
        return text


class Pair(BaseModel):
    """The names of the two models that a profile was measured on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    large: str
    small: str


class CueProfile(BaseModel):
    """The switch cues of one pair.

    Attributes:
        schema_version: Version of the file format, 1.
        name: Short name, also the file's name where it is shipped.
        models: The pair, or None for a profile that is meant for any.
        match: "word" (on word boundaries) or "paper" (plain substring, to reproduce the paper's code).
        cues: At least one; a plain string in the file means a cue without figures.
        provenance: Where the cues come from, free-form.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1)
    models: Pair | None = None
    match: MatchMode = "word"
    cues: tuple[Cue, ...] = Field(min_length=1)
    provenance: dict[str, Any] = Field(default_factory=dict)

    @field_validator("cues", mode="before")
    @classmethod
    def _plain_strings(cls, cues: Any) -> Any:
        if isinstance(cues, (list, tuple)):
            return [{"text": cue} if isinstance(cue, str) else cue for cue in cues]
        return cues

    @cached_property
    def cue_set(self) -> CueSet:
        """The compiled cues."""
        return CueSet((cue.text for cue in self.cues), self.match)

    @classmethod
    def of(cls, *cues: str, match: MatchMode = "word", name: str = "custom") -> CueProfile:
        """A profile of these cues.

        Raises:
            CueProfileError: There is no cue, or a blank one.
        """
        return _validate({"name": name, "match": match, "cues": list(cues)}, "the given cues")

    def save(self, path: str | Path) -> None:
        """Writes the profile as JSON."""
        Path(path).write_text(self.model_dump_json(indent=1, exclude_defaults=False) + "\n", encoding="utf-8")


def load_profile(source: str | Path) -> CueProfile:
    """Loads a profile by the name of a shipped one, or from a JSON file.

    Raises:
        CueProfileError: Not found, not readable or not valid; says what to do.
    """
    path = Path(source)
    if str(source) in shipped_profiles():
        path = PROFILE_DIR / f"{source}.json"
    elif path.suffix != ".json" and not os.path.exists(path):
        raise CueProfileError(
            f"no cue profile named {str(source)!r}; shipped: {', '.join(shipped_profiles())}; or give the path of a .json file"
        )
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise CueProfileError(f"cue profile {str(path)!r} cannot be read: {e.strerror or e}") from e
    except (ValueError, RecursionError) as e:
        raise CueProfileError(f"cue profile {str(path)!r} is not JSON: {e}") from e
    return _validate(data, f"cue profile {str(path)!r}")


def read_profile(source: CueProfile | Mapping[str, Any] | str | Path) -> CueProfile:
    """A profile, or whatever one can be read from: its fields, the name of a shipped one, or a JSON file.

    Raises:
        CueProfileError: It cannot be read.
    """
    if isinstance(source, CueProfile):
        return source
    if isinstance(source, (str, Path)):
        return load_profile(source)
    return _validate(source, "the cue profile")


def shipped_profiles() -> list[str]:
    """Names of the profiles in the package."""
    return sorted(path.stem for path in PROFILE_DIR.glob("*.json"))


def find_profile(large: str, small: str) -> CueProfile | None:
    """The shipped profile of a pair, by the models' names; None if there is none."""
    for name in shipped_profiles():
        profile = load_profile(name)
        if profile.models and (profile.models.large, profile.models.small) == (large, small):
            return profile
    return None


def all_candidates() -> CueProfile:
    """The paper's whole candidate lexicon as a profile: the baseline `all-cues`."""
    return CueProfile(name="all-candidates", cues=tuple(Cue(text=text) for text in candidates()))


def _validate(data: Any, what: str) -> CueProfile:
    version = data.get("schema_version", 1) if isinstance(data, Mapping) else 1
    if isinstance(version, int) and version > 1:
        raise CueProfileError(f"{what} has schema_version {version}, this release reads 1: upgrade relay-integrations")
    try:
        return CueProfile.model_validate(data)
    except ValidationError as e:
        raise CueProfileError(f"{what} is not valid: {explain(e)}") from e
