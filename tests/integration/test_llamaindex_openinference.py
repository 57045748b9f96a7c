"""What OpenInference (Phoenix, and any other reader of OpenTelemetry) is sent: segments are child spans, tokens stand on the LLM's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from relay_integrations.backends.scripted import Reply
from tests.unit.llamaindex_support import HI, WAYS, llm

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")  # OpenInference's own

SEGMENTS = {"relay": {"relay:large": {}, "relay:small": {}}}


@pytest.fixture
def sent() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = LlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield exporter
    instrumentor.uninstrument()


def tree(spans: tuple[ReadableSpan, ...]) -> dict[str, Any]:
    """The names of the spans within one another, all of one trace."""
    assert len({span.context.trace_id for span in spans if span.context}) == 1

    def within(parent: int | None) -> dict[str, Any]:
        inner = [span for span in spans if (span.parent.span_id if span.parent else None) == parent]
        return {span.name: within(span.context.span_id) for span in sorted(inner, key=lambda span: span.start_time or 0) if span.context}

    return within(None)


def tokens(spans: tuple[ReadableSpan, ...]) -> dict[str, Any]:
    """The completion tokens of each span that says some."""
    found = {span.name: (span.attributes or {}).get("llm.token_count.completion") for span in spans}
    return {name: count for name, count in found.items() if count is not None}


@pytest.mark.parametrize("way", WAYS)
def test_segments_are_child_spans_and_tokens_count_once(sent: InMemorySpanExporter, way: str) -> None:
    WAYS[way](llm(seed=1))
    spans = sent.get_finished_spans()
    name = f"Relay.{way}"
    assert tree(spans) == {name: SEGMENTS}
    assert tokens(spans) == {name: 42}
    assert all(span.status.is_ok for span in spans)


async def _left(model: Any) -> None:
    stream = await model.astream_chat(HI)
    async for _ in stream:
        break
    await stream.aclose()


@pytest.mark.parametrize("leave", [lambda model: next(model.stream_chat(HI)), lambda model: asyncio.run(_left(model))])
def test_a_stream_that_is_left_closes_all_spans(sent: InMemorySpanExporter, leave: Callable[[Any], Any]) -> None:
    leave(llm(seed=1))
    assert [span.name for span in sent.get_finished_spans() if span.name.startswith("relay")] == ["relay:large", "relay"]


def test_an_error_is_seen_on_every_span_that_it_ends(sent: InMemorySpanExporter) -> None:
    model = llm([Reply("<think>\nFirst we", fail_after=2)], engine={"on_failure": "raise"})
    with pytest.raises(Exception, match="scripted failure"):
        model.chat(HI)
    spans = sent.get_finished_spans()
    assert tree(spans) == {"Relay.chat": {"relay": {"relay:large": {}}}}
    assert not any(span.status.is_ok for span in spans)
