"""What LlamaIndex's instrumentation is told of a relay: handoffs as events, and a tree of spans. Runs offline, on the tiny pair.

python examples/llamaindex/events.py
"""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler

from llamaindex_relay import Relay, RelayHandoffEvent


class PrintHandoffs(BaseEventHandler):
    """Prints each handoff as it happens."""

    @classmethod
    def class_name(cls) -> str:
        return "PrintHandoffs"

    def handle(self, event: Any, **more: Any) -> None:
        if isinstance(event, RelayHandoffEvent):
            cue = f" {event.cue!r}" if event.cue else ""
            print(f"{event.tokens_so_far:4} tokens: {event.from_model} → {event.to_model} ({event.reason}{cue})")


class Span(BaseSpan):
    """A span, and what came of it."""

    result: Any = None


class Tree(BaseSpanHandler[Span]):
    """Keeps all spans, and prints them as a tree."""

    kept: list[Span] = []  # noqa: RUF012 - a field of pydantic

    @classmethod
    def class_name(cls) -> str:
        return "Tree"

    def new_span(self, id_: str, bound_args: Any, instance: Any = None, parent_span_id: Any = None, **more: Any) -> Span:
        span = Span(id_=id_, parent_id=parent_span_id)
        self.kept.append(span)
        return span

    def prepare_to_exit_span(self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **more: Any) -> Span:
        span = self.open_spans[id_]
        span.result = result if isinstance(result, dict) else None
        return span

    def prepare_to_drop_span(self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **more: Any) -> Span:
        return self.open_spans[id_]

    def print(self, parent: str | None = None, depth: int = 0) -> None:
        for span in self.kept:
            if span.parent_id == parent:
                tokens = (span.result or {}).get("relay_usage", span.result or {})
                count = tokens.get("tokens", tokens.get("completion_tokens"))
                print("  " * depth + span.id_.partition("-")[0] + (f": {count} tokens" if count is not None else ""))
                self.print(span.id_, depth + 1)


def main() -> None:
    tree, root = Tree(), get_dispatcher()
    root.add_event_handler(PrintHandoffs())
    root.add_span_handler(tree)
    model = Relay.tiny(temperature=0)
    print("=", model.complete("Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?").text, "\n")
    tree.print()
    model.close()


if __name__ == "__main__":
    main()
