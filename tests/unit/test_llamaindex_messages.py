"""LlamaIndex's messages as both models' templates get them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from relay_integrations import MessageError, NotSupported
from tests.unit.llamaindex_support import HI, WAYS, llm, rendered
from tests.unit.support import backend

CALL = ToolCallBlock(tool_call_id="c1", tool_name="weather", tool_kwargs={"city": "Zürich"})
RESULT = ChatMessage(role="tool", content="Sunny.", additional_kwargs={"tool_call_id": "c1"})


def shown(*messages: ChatMessage) -> list[Any]:
    model = llm()
    model.chat(list(messages))
    return list(rendered(model)[0])


@pytest.mark.parametrize(
    ("role", "becomes"),
    [
        ("system", "system"),
        ("developer", "system"),
        ("user", "user"),
        ("assistant", "assistant"),
        ("chatbot", "assistant"),
        ("model", "assistant"),
    ],
)
def test_every_role_has_its_place(role: str, becomes: str) -> None:
    first, *_ = shown(ChatMessage(role=role, content="Hm."), *HI)
    assert (first.role, first.content) == (becomes, "Hm.")


def test_several_texts_of_a_message_are_joined_as_llamaindex_joins_them() -> None:
    message = ChatMessage(role="user", blocks=[TextBlock(text="One."), TextBlock(text="Two.")])
    assert shown(message)[0].content == message.content == "One.\nTwo."


def test_reasoning_calls_and_results_keep_their_places() -> None:
    blocks = [ThinkingBlock(content="Which city?"), TextBlock(text="Let me see."), CALL]
    _, call, result = shown(*HI, ChatMessage(role="assistant", blocks=blocks), RESULT)
    assert (call.reasoning, call.content) == ("Which city?", "Let me see.")
    assert [(c.id, c.name, c.arguments) for c in call.tool_calls] == [("c1", "weather", '{"city": "Zürich"}')]
    assert (result.role, result.content, result.tool_call_id) == ("tool", "Sunny.", "c1")


@pytest.mark.parametrize("written", ['{"city": "Rom"}', {"city": "Rom"}])
def test_arguments_may_be_text_or_an_object(written: Any) -> None:
    block = ToolCallBlock(tool_call_id="c1", tool_name="weather", tool_kwargs=written)
    assert shown(*HI, ChatMessage(role="assistant", blocks=[block]), RESULT)[1].tool_calls[0].arguments == '{"city": "Rom"}'


def test_calls_that_other_llms_left_in_openais_form_are_read() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rom"}'}}
    other = ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [call]})
    (made,) = shown(*HI, other, RESULT)[1].tool_calls
    assert (made.id, made.name) == ("c1", "weather")


def test_a_call_that_is_in_both_forms_is_one_call() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    both = ChatMessage(role="assistant", blocks=[CALL], additional_kwargs={"tool_calls": [call]})
    assert len(shown(*HI, both, RESULT)[1].tool_calls) == 1


def test_citable_text_is_text() -> None:
    cited = CitableBlock(title="Notes", source="notes.txt", content=[TextBlock(text="Ann owns pens.")])
    assert shown(ChatMessage(role="user", blocks=[cited, TextBlock(text="How many?")]))[0].content == "Ann owns pens.\nHow many?"


@pytest.mark.parametrize("way", ["chat", "astream_chat"])
@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (ImageBlock(url="http://x/y.png"), "image"),
        (AudioBlock(url="http://x/y.mp3"), "audio"),
        (DocumentBlock(url="http://x/y.pdf"), "document"),
    ],
)
def test_media_is_an_error_that_names_it_before_anything_is_generated(way: str, block: Any, kind: str) -> None:
    model = llm()
    messages = [ChatMessage(role="user", blocks=[TextBlock(text="What is this?"), block])]

    async def stream() -> None:
        await model.astream_chat(messages)

    with pytest.raises(NotSupported, match=rf"'{kind}'.*text"):
        model.chat(messages) if way == "chat" else asyncio.run(stream())
    assert backend(model.engine, "large").requests == []  # type: ignore[arg-type]


def test_a_call_that_is_in_no_known_form_is_an_error() -> None:
    with pytest.raises(MessageError, match="OpenAI's format"):
        shown(*HI, ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": ["weather(Rom)"]}))


@pytest.mark.parametrize("way", [name for name in WAYS if "complete" in name])
def test_a_completion_asks_with_one_message_of_the_user(way: str) -> None:
    model = llm()
    WAYS[way](model)
    assert [(m.role, m.content) for m in rendered(model)[0]] == [("user", "hi")]


def test_the_llms_own_system_prompt_goes_first_where_llamaindex_puts_it() -> None:
    from llama_index.core.prompts import PromptTemplate

    model = llm(system_prompt="Be brief.", query_wrapper_prompt=PromptTemplate("Q: {query_str}"))
    model.predict(PromptTemplate("How many {what}?"), what="pens")
    assert [(m.role, m.content) for m in rendered(model)[0]] == [("system", "Be brief."), ("user", "How many pens?")]


def test_a_response_goes_back_as_the_next_turns_history() -> None:
    model = llm()
    said = model.chat(HI).message
    messages = (model.chat([*HI, said, *HI]), rendered(model)[0])[1]
    assert [(m.role, m.content) for m in messages] == [("user", "hi"), ("assistant", "The answer is 7.5."), ("user", "hi")]
    assert messages[1].reasoning == said.blocks[0].content
