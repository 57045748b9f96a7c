"""What the tests of `llamaindex_relay` share: an LLM over scripted backends, the eight methods as one table, and a recorder of traces."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import ChatMessage
from pydantic import Field

from llamaindex_relay import Relay
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import COMMON_VOCABULARY, Reply, ScriptedBackend
from tests.unit.support import MATHS, AnyScript, backend, relay, running
from tests.unit.talking import THOUGHT, talking_engine

HANDOFFS_IN_MATHS = ["cue", "sentence_end", "cue", "sentence_end", "think_end"]
"""Reasons of the handoffs in `MATHS` under RelayGen."""

REASONING = "First we add 3.5 and 4. So, Mia now has 7.5 coins. Then we go on with it. Thus we know it.\n"
ANSWER = "The answer is 7.5."

HI = [ChatMessage(role="user", content="hi")]


core_warns = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
]
"""Core's agents look at all attributes of themselves, deprecated ones of pydantic too, and ask their own workflow what is deprecated."""


def llm(script: AnyScript = MATHS, small: AnyScript | None = None, *, engine: dict[str, Any] | None = None, **settings: Any) -> Relay:
    """An LLM over two scripted backends; `engine` holds settings of the engine."""
    return Relay(engine=relay(script, small, **(engine or {})), **settings)


def talker(**settings: Any) -> Relay:
    """An LLM over a pair that holds a conversation, and calls tools by their schemas."""
    return Relay(engine=talking_engine(), seed=1, **settings)


def answering(respond: Callable[[str], str], thought: str = THOUGHT, *, chunk: int = 1, **settings: Any) -> Relay:
    """An LLM that reads its prompt: `respond` makes the answer of it, behind a `thought` with two cues."""

    def script(so_far: str, request: GenerateRequest) -> Reply:
        prompt = COMMON_VOCABULARY.bytes_of(request.ids[: request.output_start]).decode()
        whole = thought + respond(prompt)
        return Reply(whole[len(so_far) :] if whole.startswith(so_far) else "", chunk=chunk)

    return Relay(engine=relay(*(ScriptedBackend(script, name=name) for name in ("big", "tiny"))), **settings)


def stopped(model: Relay) -> bool:
    """Whether neither backend works any more, and none keeps anything."""
    assert model.engine is not None
    return running(model.engine) == 0 and not any(backend(model.engine, role).sessions for role in ("large", "small"))


def rendered(model: Relay) -> Any:
    """Messages, tools and options that the large model's template was last given."""
    assert model.engine is not None
    return backend(model.engine, "large").rendered[-1]


async def _read(stream: Any) -> list[Any]:
    return [response async for response in await stream]


WAYS: dict[str, Callable[..., list[Any]]] = {
    "chat": lambda llm, /, **more: [llm.chat(HI, **more)],
    "stream_chat": lambda llm, /, **more: list(llm.stream_chat(HI, **more)),
    "achat": lambda llm, /, **more: [asyncio.run(llm.achat(HI, **more))],
    "astream_chat": lambda llm, /, **more: asyncio.run(_read(llm.astream_chat(HI, **more))),
    "complete": lambda llm, /, **more: [llm.complete("hi", **more)],
    "stream_complete": lambda llm, /, **more: list(llm.stream_complete("hi", **more)),
    "acomplete": lambda llm, /, **more: [asyncio.run(llm.acomplete("hi", **more))],
    "astream_complete": lambda llm, /, **more: asyncio.run(_read(llm.astream_complete("hi", **more))),
}
"""Each of the eight methods, as a list of its responses."""


class _Span(BaseSpan):
    """One span, as span handlers see it."""

    name: str = ""
    about: Any = None
    tags: dict[str, Any] = Field(default_factory=dict)
    state: str = "open"
    result: Any = None
    error: Any = None


class _Spans(BaseSpanHandler[_Span]):
    seen: dict[str, _Span] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        return "Spans"

    def new_span(self, id_: str, bound_args: Any, instance: Any = None, parent_span_id: Any = None, tags: Any = None, **more: Any) -> _Span:
        span = _Span(id_=id_, parent_id=parent_span_id, name=id_.partition("-")[0], about=dict(bound_args.arguments), tags=dict(tags or {}))
        self.seen[id_] = span
        return span

    def prepare_to_exit_span(self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **more: Any) -> _Span:
        return self._close(id_, "exited", result, None)

    def prepare_to_drop_span(self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **more: Any) -> _Span:
        return self._close(id_, "dropped", None, err)

    def _close(self, id_: str, state: str, result: Any, error: Any) -> _Span:
        span = self.seen[id_]
        span.state = state if span.state == "open" else f"{span.state}, {state}"
        # A stream that is held here would not be closed when its reader leaves it.
        span.result, span.error = None if hasattr(result, "close") or hasattr(result, "aclose") else result, error
        return span


class _Events(BaseEventHandler):
    seen: list[Any] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **more: Any) -> None:
        self.seen.append(event)


class Recorder:
    """All that LlamaIndex's handlers are told."""

    def __init__(self) -> None:
        self._spans, self._events = _Spans(), _Events()
        self._spans.seen, self._events.seen = {}, []

    @property
    def spans(self) -> list[_Span]:
        """In the order of their beginnings."""
        return list(self._spans.seen.values())

    @property
    def events(self) -> list[Any]:
        return list(self._events.seen)

    def of(self, name: str) -> list[Any]:
        """The events of a class."""
        return [event for event in self.events if event.class_name() == name]

    @property
    def reasons(self) -> list[str]:
        """The reasons of the handoffs."""
        return [event.reason for event in self.of("RelayHandoffEvent")]

    @property
    def states(self) -> dict[str, str]:
        """How each span stands, by its name; each name comes once."""
        assert len({span.name for span in self.spans}) == len(self.spans)
        return {span.name: span.state for span in self.spans}

    @property
    def all_closed_once(self) -> bool:
        return all(span.state in ("exited", "dropped") for span in self.spans)

    def parent(self, span: _Span) -> str | None:
        """The name of a span's parent."""
        return self._spans.seen[span.parent_id].name if span.parent_id in self._spans.seen else None


@contextmanager
def recorded() -> Iterator[Recorder]:
    """What handlers are told within the block."""
    recorder, root = Recorder(), get_dispatcher()
    root.add_event_handler(recorder._events)
    root.add_span_handler(recorder._spans)
    try:
        yield recorder
    finally:
        root.event_handlers.remove(recorder._events)
        root.span_handlers.remove(recorder._spans)


@contextmanager
def own_loop() -> Iterator[None]:
    """An event loop for core's sync methods that run async ones; it would make one otherwise, and leave it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class HashEmbedding(BaseEmbedding):
    """Texts that share words are near each other; small, and of no model."""

    @classmethod
    def class_name(cls) -> str:
        return "HashEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        counts = [0.001] * 64
        for word in re.findall(r"\w+", query.lower()):
            counts[zlib.crc32(word.encode()) % 64] += 1.0
        return counts

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_query_embedding(text)
