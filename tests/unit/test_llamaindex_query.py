"""As the LLM of query engines and chat engines: the text is exact, every handoff is told, each call is in the engine's one trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Document, Settings, SummaryIndex, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RouterQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool
from pydantic import BaseModel

from llamaindex_relay import Relay
from tests.unit.llamaindex_support import HANDOFFS_IN_MATHS, HashEmbedding, answering, core_warns, own_loop, recorded, talker

pytestmark = core_warns

TEXTS = ["Ann owns pens, 7 of them.", "Tom keeps cups, 12 in all.", "Mia lives in Rome."]
DOCUMENTS = [Document(text=text, doc_id=str(number)) for number, text in enumerate(TEXTS)]


@pytest.fixture(autouse=True)
def _own_loop() -> Iterator[None]:
    with own_loop():
        yield


QUESTION = "How many pens does Ann have?"
SAID = "Ann has 7 pens."


def said(prompt: str) -> str:
    """Answers what is asked of the context, and asks what a conversation leads to."""
    if "Given the following conversation" in prompt or "rephrase the follow up" in prompt.lower():
        return QUESTION
    return SAID if "pens" in prompt else "I do not know."


def index(kind: Any = VectorStoreIndex) -> Any:
    return kind.from_documents(DOCUMENTS, embed_model=HashEmbedding()) if kind is VectorStoreIndex else kind.from_documents(DOCUMENTS)


def engine(model: Relay, **settings: Any) -> Any:
    return index().as_query_engine(llm=model, embed_model=HashEmbedding(), **{"similarity_top_k": 3, **settings})


MODES = {
    ResponseMode.COMPACT: 1,
    ResponseMode.REFINE: 3,
    ResponseMode.TREE_SUMMARIZE: 1,
    ResponseMode.SIMPLE_SUMMARIZE: 1,
}
"""How often each asks the LLM for three short documents."""


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_query_engine_says_the_answer_alone_and_every_handoff_is_told(mode: ResponseMode, streaming: bool) -> None:
    with recorded() as told:
        response = engine(answering(said), response_mode=mode, streaming=streaming).query(QUESTION)
        pieces = list(response.response_gen) if streaming else [str(response)]
    assert "".join(pieces) == SAID
    assert (len(pieces) > 3) == streaming
    assert told.reasons == HANDOFFS_IN_MATHS * MODES[mode]
    assert told.all_closed_once


@pytest.mark.parametrize("streaming", [False, True])
def test_an_async_query_says_the_same(streaming: bool) -> None:
    async def ask() -> str:
        response: Any = await engine(answering(said), streaming=streaming).aquery(QUESTION)
        return "".join([piece async for piece in response.async_response_gen()]) if streaming else str(response)

    with recorded() as told:
        assert asyncio.run(ask()) == SAID
    assert told.reasons == HANDOFFS_IN_MATHS
    assert told.all_closed_once


def roots(told: Any) -> list[str]:
    return [span.name for span in told.spans if told.parent(span) is None]


def test_a_query_is_one_trace() -> None:
    made = engine(answering(said))
    with recorded() as told:
        made.query(QUESTION)
    assert roots(told) == ["RetrieverQueryEngine.query"]
    assert {"relay", "relay:large", "relay:small"} <= {span.name for span in told.spans}


def test_where_core_asks_the_llm_only_when_its_reader_reads_the_relay_is_in_the_trace_of_that() -> None:
    made = engine(answering(said), streaming=True)
    with recorded() as told:
        str(made.query(QUESTION))
    assert roots(told) == ["RetrieverQueryEngine.query", "Relay.stream"]
    assert [told.parent(span) for span in told.spans][-4:] == ["Relay.stream", "Relay.stream_chat", "relay", "relay"]


def test_the_context_and_the_question_reach_the_models() -> None:
    seen: list[str] = []
    engine(answering(lambda prompt: (seen.append(prompt), SAID)[1])).query(QUESTION)
    assert all(text in seen[0] for text in (*TEXTS, QUESTION))


def test_the_tokens_of_a_query_are_counted() -> None:
    counts, before = TokenCountingHandler(tokenizer=lambda text: [1]), Settings._callback_manager
    try:
        Settings.callback_manager = CallbackManager([counts])  # it replaces the LLM's own
        model = answering(said)
        engine(model, response_mode=ResponseMode.REFINE).query(QUESTION)
    finally:
        Settings._callback_manager = before
    assert len(counts.llm_token_counts) == 3
    assert model.engine is not None
    generated = sum(backend.generated for backend in model.engine.backends.values())  # type: ignore[attr-defined]
    assert 3 * 20 < counts.completion_llm_token_count <= generated


class Count(BaseModel):
    """How many there are."""

    owner: str
    count: int


@pytest.mark.parametrize("mode", [ResponseMode.COMPACT, ResponseMode.TREE_SUMMARIZE, ResponseMode.REFINE])
def test_an_answer_takes_the_form_of_a_class(mode: ResponseMode) -> None:
    with recorded() as told:
        response = engine(talker(), output_cls=Count, response_mode=mode).query(QUESTION)
    assert isinstance(response.response, Count)
    assert told.of("RelayHandoffEvent")


def test_a_summary_index_and_the_settings_llm_work_too() -> None:
    before = Settings._llm
    try:
        Settings.llm = answering(said)
        assert str(index(SummaryIndex).as_query_engine().query(QUESTION)) == SAID
    finally:
        Settings._llm = before


CHATS: dict[str, int] = {"context": 1, "condense_plus_context": 1, "simple": 1, "condense_question": 1}


def chat_engine(model: Relay, mode: str) -> Any:
    memory = ChatMemoryBuffer.from_defaults(tokenizer_fn=str.split)  # the default one leaves a database open
    return index().as_chat_engine(chat_mode=mode, llm=model, similarity_top_k=3, memory=memory)


async def _achat(chat: Any, text: str) -> str:
    return str(await chat.achat(text))


async def _astream(chat: Any, text: str) -> str:
    return "".join([piece async for piece in (await chat.astream_chat(text)).async_response_gen()])


ASKS: dict[str, Callable[[Any, str], str]] = {
    "chat": lambda chat, text: str(chat.chat(text)),
    "stream": lambda chat, text: "".join(chat.stream_chat(text).response_gen),
    "achat": lambda chat, text: asyncio.run(_achat(chat, text)),
    "astream": lambda chat, text: asyncio.run(_astream(chat, text)),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())
@pytest.mark.parametrize("mode", CHATS)
def test_a_chat_engine_holds_a_conversation(mode: str, ask: Callable[[Any, str], str]) -> None:
    chat = chat_engine(answering(said), mode)
    with recorded() as told:
        assert ask(chat, QUESTION) == SAID
        assert ask(chat, "And the pens of Tom?") == SAID
    assert told.reasons[: len(HANDOFFS_IN_MATHS)] == HANDOFFS_IN_MATHS
    assert len(told.reasons) % len(HANDOFFS_IN_MATHS) == 0
    assert len(told.reasons) >= 2 * len(HANDOFFS_IN_MATHS)
    assert [message.content for message in chat.chat_history][1::2] == [SAID, SAID]
    assert told.all_closed_once


def tools(model: Relay) -> list[QueryEngineTool]:
    return [QueryEngineTool.from_defaults(engine(model), name=name, description=f"Knows of {name}.") for name in ("pens", "cups")]


@pytest.mark.parametrize("async_", [False, True])
def test_a_sub_question_engine_asks_and_answers(async_: bool) -> None:
    def reply(prompt: str) -> str:
        if "output a list of relevant sub-questions" in prompt:
            return json.dumps(
                {"items": [{"sub_question": QUESTION, "tool_name": "pens"}, {"sub_question": "And cups?", "tool_name": "cups"}]}
            )
        return said(prompt)

    model = answering(reply)
    made = SubQuestionQueryEngine.from_defaults(
        tools(model), llm=model, question_gen=LLMQuestionGenerator.from_defaults(llm=model), verbose=False, use_async=async_
    )
    with recorded() as told:
        response: Any = asyncio.run(made.aquery(QUESTION)) if async_ else made.query(QUESTION)
    assert str(response) == SAID
    assert told.reasons.count("cue") == 2 * 4, "the questions, two answers, and the answer of them"
    assert told.all_closed_once


@pytest.mark.parametrize("async_", [False, True])
def test_a_router_chooses_among_engines(async_: bool) -> None:
    def reply(prompt: str) -> str:
        return '[{"choice": 2, "reason": "It knows."}]' if "choices are given below" in prompt else said(prompt)

    model = answering(reply)
    made = RouterQueryEngine.from_defaults(tools(model), llm=model, selector=LLMSingleSelector.from_defaults(llm=model))
    with recorded() as told:
        response: Any = asyncio.run(made.aquery(QUESTION)) if async_ else made.query(QUESTION)
    assert str(response) == SAID
    assert response.metadata["selector_result"].ind == 1
    assert told.reasons.count("cue") == 2 * 2
