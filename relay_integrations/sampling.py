"""How tokens are drawn: the settings, their defaults by model family, and the seeds of single segments."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict, Field


class Sampling(BaseModel):
    """Sampling settings; a field that is None takes the next default in line (request, model's own, family's, neutral)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: float | None = Field(None, ge=0, description="0 is greedy.")
    top_p: float | None = Field(None, gt=0, le=1, description="Nucleus: smallest set of tokens with this probability.")
    top_k: int | None = Field(None, ge=0, description="Only the k most likely tokens; 0 means all.")
    min_p: float | None = Field(None, ge=0, le=1, description="Least probability, relative to the most likely token's.")
    presence_penalty: float | None = Field(None, ge=-2, le=2, description="Over the whole output, both roles.")
    frequency_penalty: float | None = Field(None, ge=-2, le=2, description="Over the whole output, both roles.")

    def over(self, default: Sampling) -> Sampling:
        """These settings, with what is None here taken from `default`."""
        return Sampling(**{**default.model_dump(), **self.model_dump(exclude_none=True)})

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0

    @property
    def penalised(self) -> bool:
        """Whether any penalty is on."""
        return bool(self.presence_penalty or self.frequency_penalty)


NEUTRAL = Sampling(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0)
"""The plain distribution of the model."""

FAMILIES: dict[str, Sampling] = {
    "qwen3": Sampling(temperature=0.6, top_p=0.95, top_k=20, min_p=0.0),
    "deepseek-r1": Sampling(temperature=0.6, top_p=0.95),
}
"""What the families' authors recommend for reasoning; used where a model folder has no generation_config of its own."""


def family_of(name: str) -> str | None:
    """The family that a model name belongs to, a key of `FAMILIES`, or None."""
    lowered = name.lower()
    for family, marks in {"deepseek-r1": ("deepseek-r1", "r1-distill"), "qwen3": ("qwen3",)}.items():
        if any(mark in lowered for mark in marks):
            return family
    return None


def derive_seed(seed: int, choice: int, segment: int, request: int) -> int:
    """The seed of one request: distinct for each choice, segment and request of a run, the same in every repetition."""
    digest = hashlib.blake2b(f"{seed}:{choice}:{segment}:{request}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 33  # 31 bits: every server and generator takes them
