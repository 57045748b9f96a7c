"""Text to ids and back: every kind of tokenizer, whole characters only, across requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from relay_integrations.backends.base import Prompt, RenderOptions
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.backends.vocabulary import Vocabulary
from relay_integrations.chat.messages import Message, ToolCall
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.errors import MessageError, NotSupported
from tests.integration import small_tokenizers as tokenizers
from tests.integration.support import generate, ids_of, pair_tokenizer, random_backend, text_of

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
KINDS = {
    "pair": pair_tokenizer,
    "byte_level": lambda: tokenizers.byte_level(prefix_space=False),
    "byte_level_prefix": lambda: tokenizers.byte_level(prefix_space=True),
    "llama": tokenizers.llama_like,
    "llama_first": lambda: tokenizers.llama_like("first"),
    "gemma": tokenizers.gemma_like,
    "unigram": tokenizers.unigram,
    "suffix_bpe": tokenizers.suffix_bpe,
}
WRITES_ANYTHING = [kind for kind in KINDS if kind not in ("unigram", "suffix_bpe")]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


@cache
def vocabulary(kind: str) -> Vocabulary:
    tokenizer = KINDS[kind]()
    return Vocabulary(tokenizer, TAGS, (tokenizer.eos_token_id,))


@cache
def random_of(kind: str) -> TransformersBackend:
    return random_backend(KINDS[kind]())


def streamed(kind: str, ids: Sequence[int], prompt: Sequence[int] = ()) -> list[str]:
    detokenizer = vocabulary(kind).detokenizer(prompt)
    return [detokenizer.push(token) for token in ids]


@pytest.mark.parametrize("kind", WRITES_ANYTHING)
@given(text=st.text(max_size=40))
def test_decode_of_encode_is_the_text(kind: str, text: str) -> None:
    text = text.replace("▁", "_")  # SentencePiece cannot tell it from a space
    assert vocabulary(kind).decode(vocabulary(kind).encode(text)) == text


@pytest.mark.parametrize("kind", WRITES_ANYTHING)
@pytest.mark.parametrize(
    "text",
    ["x", " x", "\n\nSo,", "  two ", "é🙂", " <think>\nSo</think>\n\n x", "</s> <|im_end|> <s>", "<tool_call>\n{}\n</tool_call>", "\t"],
)
def test_white_space_and_tags_survive(kind: str, text: str) -> None:
    assert vocabulary(kind).decode(vocabulary(kind).encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_ids_cut_into_two_requests_give_the_text_of_one(kind: str, data: st.DataObject) -> None:
    size = vocabulary(kind).size
    ids = data.draw(st.lists(st.integers(0, size - 1), max_size=14))
    cut = data.draw(st.integers(0, len(ids)))
    whole = streamed(kind, ids)
    assert whole == streamed(kind, ids[:cut]) + streamed(kind, ids[cut:], ids[:cut])
    detokenizer = vocabulary(kind).detokenizer()
    assert "".join([*map(detokenizer.push, ids), detokenizer.flush()]) == vocabulary(kind).decode(ids)


@pytest.mark.parametrize("kind", WRITES_ANYTHING)
def test_a_character_comes_whole_with_the_id_that_completes_it(kind: str) -> None:
    ids = vocabulary(kind).encode("a🙂é.")
    pieces = streamed(kind, ids)
    assert "".join(pieces) == "a🙂é."
    assert all("\ufffd" not in piece for piece in pieces)
    end = next(i for i, piece in enumerate(pieces) if "🙂" in piece)
    assert end > 0
    assert pieces[end - 1] == ""
    assert vocabulary(kind).decode(ids[:end]).endswith("\ufffd")


def test_bytes_that_cannot_become_a_character_turn_into_the_replacement_character() -> None:
    first = vocabulary("pair").encode("é")[0]
    x = vocabulary("pair").encode("x")
    assert streamed("pair", [first, *x]) == ["", "\ufffdx"]
    end = pair_tokenizer().eos_token_id
    assert streamed("pair", [first, end]) == ["", "\ufffd"]
    assert streamed("pair", x, [first]) == ["\ufffdx"]
    assert vocabulary("pair").decode([first]) == "\ufffd"


def test_an_id_with_half_a_character_is_held_whole() -> None:
    from relay_integrations.backends.detokenize import ByteDetokenizer

    table = {0: b"a\xc3", 1: b"\xa9b\xf0\x9f", 2: b"\x99", 3: b"\x82", 4: None, 5: b"\x82\xc3", 6: b""}
    ids = [0, 1, 2, 3, 0, 4, 5, 1, 6]
    whole = ByteDetokenizer(table)
    expected = ["", "", "", "aéb🙂", "", "a\ufffd", "", "", ""]
    assert [whole.push(token) for token in ids] == expected
    for cut in range(len(ids)):
        rest = ByteDetokenizer(table, ids[:cut])
        assert [rest.push(token) for token in ids[cut:]] == expected[cut:]


@pytest.mark.parametrize("kind", ["pair", "llama"])
def test_an_emoji_across_two_requests(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = random_of(kind)
    ids = asyncio.run(backend.encode("So 🙂!"))
    cut = next(i for i, piece in enumerate(streamed(kind, ids)) if "🙂" in piece)
    monkeypatch.setattr(backend, "_runner", _scripted([*ids, *ids[cut:]]))
    prompt = [10, 11]
    first = generate(backend, prompt, cut)
    assert text_of(first) == "So "
    rest = generate(backend, [*prompt, *ids[:cut]], len(ids) - cut, output_start=2)
    assert rest[0].text == "🙂"
    assert text_of(rest) == "🙂!"


@pytest.mark.parametrize("kind", WRITES_ANYTHING)
def test_think_tags_are_their_tokens_and_names_of_special_tokens_are_text(kind: str) -> None:
    known = KINDS[kind]().get_vocab()
    ids = vocabulary(kind).encode("<think>\nSo</think>")
    assert (ids[0], ids[-1]) == (known["<think>"], known["</think>"])
    end = "<|im_end|>" if kind == "pair" else "</s>"
    ids = vocabulary(kind).encode(f"a{end}b")
    assert known[end] not in ids
    assert vocabulary(kind).decode(ids) == f"a{end}b"
    assert vocabulary(kind).decode([known["<think>"], known[end]]) == "<think>"


def test_without_tags_a_special_think_token_has_no_text() -> None:
    tokenizer = tokenizers.llama_like()
    plain = Vocabulary(tokenizer)
    assert plain.decode([tokenizer.get_vocab()["<think>"]]) == ""
    assert tokenizer.get_vocab()["<think>"] not in plain.encode("<think>")


def test_the_fingerprint_is_that_of_the_vocabulary(large: TransformersBackend, small: TransformersBackend) -> None:
    assert large.capabilities.vocabulary == small.capabilities.vocabulary
    prints = {vocabulary(kind).fingerprint for kind in KINDS}
    assert len(prints) == len(KINDS) - 1  # the two Llama-like ones differ in what is put before a text, not in their ids
    more = pair_tokenizer()
    more.add_tokens(["<call>"])
    assert Vocabulary(more).fingerprint != large.capabilities.vocabulary


def test_a_rendered_prompt_is_that_of_the_template(large: TransformersBackend) -> None:
    messages = [
        Message(role="system", content="Be brief."),
        Message(role="user", content="How many?"),
        Message(role="assistant", content="Two."),
        Message(role="user", content="Sure?"),
    ]
    tokenizer = pair_tokenizer()
    expected = tokenizer.apply_chat_template([m.to_template() for m in messages], add_generation_prompt=True, return_dict=False)
    prompt = render(large, messages)
    assert prompt == Prompt(tuple(expected), reasoning_open=False)
    assert tokenizer.decode(prompt.ids).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")


def test_the_template_gets_switches_tools_and_options() -> None:
    backend = with_template(
        "{{ messages[0].content }}|{{ enable_thinking is defined }}|{{ enable_thinking }}|{{ thinking }}|{{ tools | length if tools }}|"
        "{{ mood }}|{% if enable_thinking %}<think>\n{% endif %}"
    )
    assert decoded(backend, render(backend)) == "Hi|False|||||"
    on = render(backend, options=RenderOptions(reasoning=True, template={"mood": "calm"}), tools=[TOOL])
    assert decoded(backend, on) == "Hi|True|True|True|1|calm|<think>\n"
    assert on.reasoning_open
    off = render(backend, options=RenderOptions(reasoning=False, template={"thinking": "x"}))
    assert decoded(backend, off) == "Hi|True|False|x|||"
    assert not off.reasoning_open


def test_tool_calls_and_reasoning_reach_the_template() -> None:
    backend = with_template(
        "{% for m in messages %}{{ m.reasoning_content }}"
        "{% for c in m.tool_calls %}{{ c.function.name }}:{{ c.function.arguments.n }}{% endfor %};{% endfor %}"
    )
    call = Message(role="assistant", reasoning="hm", tool_calls=(ToolCall(id="1", name="add", arguments='{"n": 3}'),))
    assert decoded(backend, render(backend, [call, Message(role="tool", content="4", tool_call_id="1")])) == "hmadd:3;;"


def test_tools_that_the_template_ignores_are_not_supported() -> None:
    backend = with_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(NotSupported, match=r"'random' does not support tools: its chat template never mentions them"):
        render(backend, tools=[TOOL])


def test_the_pair_is_shown_tools_their_results_and_the_reasoning_before_a_call(large: TransformersBackend) -> None:
    call = Message(role="assistant", reasoning="hm", tool_calls=(ToolCall(id="1", name="add", arguments='{"n": 3}'),))
    turns = [Message(role="user", content="x"), call, Message(role="tool", content="4")]
    prompt = pair_tokenizer().decode(render(large, turns, tools=[TOOL]).ids)
    assert '<tools>\n{"type": "function"' in prompt
    assert '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {"n": 3}}\n</tool_call><|im_end|>' in prompt
    assert prompt.endswith("<tool_response>\n4\n</tool_response><|im_end|>\n<|im_start|>assistant\n")


def test_the_pair_forgets_the_reasoning_of_earlier_turns(large: TransformersBackend) -> None:
    turns = [Message(role="user", content="x"), Message(role="assistant", content="y", reasoning="hm"), Message(role="user", content="z")]
    prompt = pair_tokenizer().decode(render(large, turns).ids)
    assert "assistant\ny<|im_end|>" in prompt
    assert "hm" not in prompt
    switched_off = pair_tokenizer().decode(render(large, turns, options=RenderOptions(reasoning=False)).ids)
    assert switched_off.endswith("<think>\n\n</think>\n\n")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[5].content }}", "no element 5"),
        ("{{ 'a' + 1 }}", "can only concatenate"),
        ("{% for %}", "Expected"),
    ],
)
def test_a_template_that_refuses_is_a_message_error(template: str, said: str) -> None:
    with pytest.raises(MessageError, match=rf"the chat template of 'random' refuses the conversation: .*({said})"):
        render(with_template(template))


def test_bos_is_not_added_twice() -> None:
    tokenizer = tokenizers.llama_like()
    bos = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", bos)])
    assert tokenizer("x")["input_ids"][0] == bos
    tokenizer.chat_template = "{{ bos_token }}{{ messages[0].content }}"
    backend = random_backend(tokenizer)
    assert list(render(backend).ids).count(bos) == 1
    assert bos not in asyncio.run(backend.encode("x"))


def test_think_tags_are_found_or_told() -> None:
    tokenizer = tokenizers.suffix_bpe()
    assert random_backend(tokenizer).capabilities.think_tags == ThinkTags()
    plain = pair_tokenizer()
    backend = random_backend(plain)
    assert backend.capabilities.think_tags == ThinkTags()
    told = TransformersBackend(backend._runner._model, plain, think_tags=ThinkTags("[THINK]", "[/THINK]"))
    assert told.capabilities.think_tags == ThinkTags("[THINK]", "[/THINK]")
    assert TransformersBackend(backend._runner._model, plain, think_tags=None).capabilities.think_tags is None


def test_other_kinds_generate_the_text_of_their_ids() -> None:
    for kind in ("byte_level_prefix", "llama", "unigram", "suffix_bpe"):
        backend = random_of(kind)
        prompt = list(render(backend).ids)
        chunks = generate(backend, prompt, 30)
        detokenizer = backend._vocabulary.detokenizer(prompt)
        assert text_of(chunks) == "".join(map(detokenizer.push, ids_of(chunks)))


def render(
    backend: TransformersBackend,
    messages: Sequence[Message] = (Message(role="user", content="Hi"),),
    tools: Sequence[dict[str, Any]] = (),
    options: RenderOptions | None = None,
) -> Prompt:
    return asyncio.run(backend.render(messages, tools, options or RenderOptions()))


def decoded(backend: TransformersBackend, prompt: Prompt) -> str:
    return asyncio.run(backend.decode(prompt.ids))


def with_template(template: str) -> TransformersBackend:
    tokenizer = pair_tokenizer()
    tokenizer.chat_template = template
    return random_backend(tokenizer)


def _scripted(ids: list[int]) -> Any:
    """A runner that writes the given ids, whatever it reads."""
    rest = iter(ids)

    def last(_: Sequence[int], __: Any) -> torch.Tensor:
        logits = torch.zeros(1000)
        logits[next(rest)] = 1
        return logits

    return SimpleNamespace(last=last, new_cache=lambda: None)


def test_thinking_is_switched_off_where_the_template_has_no_switch() -> None:
    own = with_template("{{ messages[0].content }}\n")
    off, open = RenderOptions(reasoning=False), with_template("{{ messages[0].content }}<think>\n")
    assert decoded(own, render(own, options=off)) == decoded(own, render(own)) + "<think>\n\n</think>\n\n"
    assert decoded(open, render(open, options=off)) == "Hi<think>\n\n</think>\n\n"
    assert render(open).reasoning_open
    assert not render(open, options=off).reasoning_open
    switch = with_template("{{ messages[0].content }}{% if enable_thinking is false %}!{% endif %}")
    assert decoded(switch, render(switch, options=off)) == "Hi!"


def test_thinking_cannot_be_switched_on_in_a_model_without_think_tags() -> None:
    backend = TransformersBackend(with_template("{{ messages[0].content }}")._runner._model, pair_tokenizer(), think_tags=None)
    with pytest.raises(NotSupported, match="reasoning: the model has no think tags"):
        render(backend, options=RenderOptions(reasoning=True))
