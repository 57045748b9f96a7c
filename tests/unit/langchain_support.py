"""What the tests of `langchain_relay` share: a chat model over scripted backends, and a callback handler that writes everything down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from langchain_relay import ChatRelay
from tests.unit.support import MATHS, AnyScript, relay

HANDOFFS_IN_MATHS = ["cue", "sentence_end", "cue", "sentence_end", "think_end"]
"""Reasons of the handoffs in `MATHS` under RelayGen."""


def chat(script: AnyScript = MATHS, small: AnyScript | None = None, *, engine: dict[str, Any] | None = None, **settings: Any) -> ChatRelay:
    """A chat model over two scripted backends; `engine` holds settings of the engine."""
    return ChatRelay(engine=relay(script, small, **(engine or {})), **settings)


def merged(chunks: Iterable[AIMessageChunk]) -> AIMessageChunk:
    """The chunks of a stream, added up as callers do."""
    first, *rest = chunks
    for chunk in rest:
        first += chunk
    return first


def plain(message: AIMessage) -> dict[str, Any]:
    """All fields of a message but those that differ from run to run: its id, and times."""
    whole = message_chunk_to_message(message) if isinstance(message, AIMessageChunk) else message
    data = whole.model_dump(exclude={"id"})
    for segment in data["response_metadata"]["relay"]["segments"]:
        del segment["started"], segment["ended"]
    return data


@dataclass(slots=True)
class Run:
    """One run, as callback handlers see it."""

    kind: str
    name: str | None
    parent: UUID | None
    tags: list[str]
    metadata: dict[str, Any]
    inputs: Any
    tokens: list[str] = field(default_factory=list)
    ended: bool = False
    error: BaseException | None = None
    outputs: Any = None


class Recorder(BaseCallbackHandler):
    """Writes down all runs, their ends, their tokens, and custom events. Errors in it are not swallowed."""

    raise_error = True
    run_inline = True

    def __init__(self) -> None:
        self.runs: dict[UUID, Run] = {}
        self.events: list[tuple[str, UUID, dict[str, Any]]] = []
        self.order: list[str] = []

    def of_kind(self, kind: str) -> list[tuple[UUID, Run]]:
        """The runs of a kind, in the order of their beginnings."""
        return [(run_id, run) for run_id, run in self.runs.items() if run.kind == kind]

    @property
    def llm(self) -> tuple[UUID, Run]:
        """The only LLM run."""
        (only,) = self.of_kind("llm")
        return only

    def segments(self, parent: UUID) -> list[Run]:
        """The runs right within another one."""
        return [run for run in self.runs.values() if run.parent == parent]

    @property
    def reasons(self) -> list[str]:
        """The reasons of the handoffs that were told of."""
        return [data["reason"] for name, _, data in self.events if name == "relay_handoff"]

    @property
    def all_ended(self) -> bool:
        """Whether no run is open."""
        return all(run.ended for run in self.runs.values())

    def _begin(self, kind: str, run_id: UUID, inputs: Any, parent: UUID | None, tags: Any, metadata: Any, name: Any) -> None:
        assert run_id not in self.runs
        self.runs[run_id] = Run(kind, name, parent, list(tags or []), dict(metadata or {}), inputs)
        self.order.append(f"{kind} begins")

    def _end(self, run_id: UUID, outputs: Any = None, error: BaseException | None = None) -> None:
        run = self.runs[run_id]
        assert not run.ended, f"the run {run.name} ends twice"
        run.ended, run.outputs, run.error = True, outputs, error
        self.order.append(f"{run.kind} {'fails' if error is not None else 'ends'}")

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        self._begin("llm", run_id, messages, parent_run_id, more.get("tags"), more.get("metadata"), more.get("name"))

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        self._begin("chain", run_id, inputs, parent_run_id, more.get("tags"), more.get("metadata"), more.get("name"))

    def on_llm_new_token(self, token: Any, *, run_id: UUID, chunk: Any = None, **more: Any) -> None:
        assert not self.runs[run_id].ended
        self.runs[run_id].tokens.append(token)
        self.order.append("token")

    def on_llm_end(self, response: Any, *, run_id: UUID, **more: Any) -> None:
        self._end(run_id, response)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self._end(run_id, more.get("response"), error)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        self._end(run_id, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self._end(run_id, None, error)

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **more: Any) -> None:
        self.events.append((name, run_id, data))
        self.order.append(name)
