"""The backend protocol: what runs one model for one role.

A backend is stateless between calls as far as its caller can see: every request carries the whole prompt as token ids.
What it may keep between the hops of one relay (a KV cache) is filed under the request's `session` and dropped by `release`.
All methods run on the engine's own event loop.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from relay_integrations.chat.constraint import Constraint
from relay_integrations.chat.messages import Message
from relay_integrations.chat.tags import ThinkTags as ThinkTags
from relay_integrations.chat.tool_formats import HERMES, ToolFormat
from relay_integrations.errors import NotSupported
from relay_integrations.sampling import Sampling

BACKEND_ERRORS = (Exception, SystemExit, KeyboardInterrupt)
"""What counts as a backend's failure: on the engine's thread no Ctrl-C arrives, and no library there may end the program."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend's model is and can do.

    Attributes:
        name: The model's name, as shown in events, traces and errors.
        context_window: Tokens that prompt and output may take together.
        eos_ids: Ids that end a turn.
        vocabulary: Hash over the tokenizer's vocabulary; two backends with the same hash exchange ids as they are.
        think_tags: None for a model that does not reason.
        sampling: The model's own defaults (generation_config), else its family's, else empty.
        family: Key of `relay_integrations.sampling.FAMILIES`, if known.
        parameters: Number of parameters, for FLOPs.
        top2: Can give the margin p(top1) - p(top2) of each token, before sampling changes.
        constraints: Can hold the output to a constraint.
        scoring: Has `score`.
        drafting: Can draft for a peer (`attach_draft`).
        speculative: Decodes speculatively.
        reports_cached_tokens: Says how much of a prompt its prefix cache held.
        output_penalties: Counts penalties over the whole output of a relay (from `GenerateRequest.output_start`).
        tool_format: How the model writes tool calls.
    """

    name: str
    context_window: int
    eos_ids: frozenset[int]
    vocabulary: str
    think_tags: ThinkTags | None = ThinkTags()
    sampling: Sampling = Sampling()
    family: str | None = None
    parameters: int | None = None
    top2: bool = False
    constraints: bool = False
    scoring: bool = False
    drafting: bool = False
    speculative: bool = False
    reports_cached_tokens: bool = False
    output_penalties: bool = False
    tool_format: ToolFormat = HERMES


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How a chat template is to be rendered.

    Attributes:
        reasoning: Thinking on or off; None leaves it to the template.
        template: Further keyword arguments for the template.
    """

    reasoning: bool | None = None
    template: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. `reasoning_open`: the template itself has opened the think tag at its end."""

    ids: tuple[int, ...]
    reasoning_open: bool = False


@dataclass(frozen=True, slots=True)
class StopHints:
    """Where a backend may stop early. A speed-up, never the definition: the relay confirms every stop itself.

    A backend may ignore them. One that stops on a hint ends with `finish="stop"` and keeps the hint's tokens in the output.
    """

    strings: tuple[str, ...] = ()
    token_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One hop.

    Attributes:
        ids: The whole prompt; its first `output_start` ids are the rendered conversation, the rest is the output so far.
        sampling: Complete: no field is None.
        max_tokens: At least 1.
        seed: For this request alone.
        session: The same for all hops of one relay; see `Backend.release`.
        stop_hints: Where the backend may stop early.
        top2: Whether chunks must carry margins.
        constraint: What the text has to be from `constraint_start` on; the turn may end only where it is complete.
        constraint_start: Index in `ids` where that text begins. A request that goes on in the middle of it has its beginning there.
    """

    ids: Sequence[int]
    output_start: int
    sampling: Sampling
    max_tokens: int
    seed: int
    session: str
    stop_hints: StopHints = StopHints()
    top2: bool = False
    constraint: Constraint | None = None
    constraint_start: int = 0


@dataclass(slots=True)
class Chunk:
    """A piece of a generation.

    Ids and text may come apart: text without ids is the whole text of the latest id. Text holds whole characters only; it
    continues the prompt, so a character begun at the end of the prompt arrives with the id that completes it.

    Attributes:
        ids: New token ids, an end-of-sequence id included.
        text: New text. An end-of-sequence id has none.
        texts: The text of each id, if known; joined they are `text`.
        margins: p(top1) - p(top2) for each id, where `top2` was asked for.
        finish: On the last chunk: "eos", "length" (max_tokens reached) or "stop" (a stop hint matched).
        prompt_tokens: Length of the prompt as the backend counts it, once, on any chunk.
        cached_tokens: How many of them were cached, once, on any chunk; None where unknown.
    """

    ids: tuple[int, ...] = ()
    text: str = ""
    texts: tuple[str, ...] | None = None
    margins: tuple[float, ...] | None = None
    finish: Literal["eos", "length", "stop"] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(slots=True)
class TokenScores:
    """Teacher-forced scores, one row a token: the two best probabilities and the rank (0 = best) of the real token."""

    top1: list[float]
    top2: list[float]
    rank: list[int]
    best: list[int]


class Backend(ABC):
    """Runs one model. Subclass it for a new kind; what a backend lacks raises `NotSupported`."""

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str], **options: Any) -> Backend:
        """Loads a model from a local folder or a hub id, for backends that run models themselves."""
        raise NotSupported(cls.__name__, "loading a model by its name", "build the backend and pass it to RelayEngine(large=…, small=…)")

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What the model is and can do; constant over the backend's life."""

    @abstractmethod
    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        """Renders a conversation by the model's own chat template, ready for the assistant's turn.

        Raises:
            MessageError: The template refuses the conversation.
            NotSupported: There are tools and the template ignores them.
        """

    @abstractmethod
    async def encode(self, text: str) -> list[int]:
        """Ids of a text that continues another: no special tokens are added, none of its white space is lost."""

    @abstractmethod
    async def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, end-of-sequence ids left out; incomplete characters at either end become U+FFFD."""

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Continues `request.ids`. Closing the generator stops the generation in the model."""

    async def score(self, ids: Sequence[int], start: int = 1) -> TokenScores:
        """Scores ids[start:] under the model, teacher-forced."""
        raise NotSupported(self.capabilities.name, "scoring")

    async def check_constraint(self, constraint: Constraint) -> None:
        """Makes sure, before anything is generated, that the output can be held to a constraint.

        Raises:
            ConfigError: A schema in it cannot be followed; says which one and why.
            NotSupported: This backend cannot constrain its model at all.
        """
        if not self.capabilities.constraints:
            raise NotSupported(
                self.capabilities.name,
                "constrained output",
                "leave tool_choice and response_format out, or run this role on a backend that has it (transformers)",
            )

    async def attach_draft(self, peer: Backend) -> None:
        """Lets `peer` draft tokens for this model."""
        raise NotSupported(self.capabilities.name, "drafting by another model")

    async def release(self, session: str) -> None:  # noqa: B027 - a backend without state has nothing to drop
        """Drops what was kept for a relay. Called once when it ends, however it ends."""

    async def aclose(self) -> None:  # noqa: B027 - a backend may own nothing
        """Frees the model and whatever else the backend opened."""
