"""The scripted backend, which every test here and many outside are built on: it does what it is told, and a bit counts it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from relay_integrations import CueProfile, Message, NotSupported, RelayEngine, ThinkTags
from relay_integrations.backends.base import Chunk, GenerateRequest, RenderOptions, StopHints
from relay_integrations.backends.scripted import EOS, Reply, ScriptedBackend, Vocabulary
from relay_integrations.sampling import NEUTRAL
from tests.unit.support import reasons


def ask(backend: ScriptedBackend, so_far: str = "", **fields: Any) -> list[Chunk]:
    """All chunks but the empty first one of a request that stands behind some output."""

    async def collect() -> list[Chunk]:
        plain = {
            "ids": backend.vocabulary.encode(so_far),
            "output_start": 0,
            "sampling": NEUTRAL,
            "max_tokens": 99,
            "seed": 1,
            "session": "s",
        }
        request = GenerateRequest(**{**plain, **fields})
        return [chunk async for chunk in backend.generate(request)][1:]

    return asyncio.run(collect())


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def test_a_text_is_continued_from_wherever_it_stands() -> None:
    backend = ScriptedBackend("We add them up.")
    assert text(ask(backend, "We add")) == " them up."
    assert text(ask(backend, "Something else")) == ""


def test_a_list_of_replies_is_said_one_a_request_and_the_last_again_and_again() -> None:
    backend = ScriptedBackend(["a", Reply("b")])
    assert [text(ask(backend)) for _ in range(4)] == ["a", "b", "b", "b"]


def test_a_function_sees_the_output_so_far_and_the_request() -> None:
    backend = ScriptedBackend(lambda so_far, request: f"{so_far}|{request.max_tokens}")
    assert text(ask(backend, "ab", max_tokens=7)) == "ab|7"


def test_a_turn_ends_with_the_end_of_sequence() -> None:
    (last,) = ask(ScriptedBackend("a"))[-1:]
    assert (last.ids, last.text, last.finish) == ((EOS,), "", "eos")
    assert ask(ScriptedBackend([Reply("a", eos=False)]))[-1].finish == "stop"


def test_tokens_come_in_chunks_of_any_size() -> None:
    assert [len(chunk.ids) for chunk in ask(ScriptedBackend([Reply("a b c d", chunk=2)]))] == [2, 2, 1]
    assert [len(chunk.ids) for chunk in ask(ScriptedBackend([Reply("a b c d", chunk=lambda n: n + 1)]))] == [1, 2, 2]


def test_a_character_comes_with_the_byte_that_completes_it() -> None:
    backend = ScriptedBackend("é🎉", vocabulary=Vocabulary("bytes"))
    assert [chunk.text for chunk in ask(backend)] == ["", "é", "", "", "", "🎉", ""]
    ids = backend.vocabulary.encode("é🎉")
    for count in range(len(ids)):
        assert text(ask(backend, ids=ids[:count])) == "é🎉"[(count > 1) :], "a character that was begun is completed, not begun again"


def test_limits_and_hints_are_kept_or_ignored_as_told() -> None:
    hints = StopHints(strings=("c",))
    assert text(ask(ScriptedBackend("a b c d"), max_tokens=2)) == "a b"
    assert text(ask(ScriptedBackend([Reply("a b c d", overrun=True)]), max_tokens=2)) == "a b c d"
    assert text(ask(ScriptedBackend("a b c d"), stop_hints=hints)) == "a b c d"
    stopped = ask(ScriptedBackend([Reply("a b c d", honour_stops=True)]), stop_hints=hints)
    assert (text(stopped), stopped[-1].finish) == ("a b c", "stop")


def test_text_may_come_apart_from_its_id_or_without_being_told_apart() -> None:
    apart = ask(ScriptedBackend([Reply("a", text_apart=True, eos=False)]))
    assert [(chunk.ids, chunk.text) for chunk in apart] == [((97,), ""), ((), ""), ((), "a")]
    assert ask(ScriptedBackend([Reply("a b", texts=False, chunk=2)]))[0].texts is None


def test_margins_are_repeated_to_the_end() -> None:
    assert [chunk.margins for chunk in ask(ScriptedBackend([Reply("a b c", margins=(0.1, 0.2), chunk=9)]))] == [(0.1, 0.2, 0.1, 0.2)]


def test_it_fails_after_so_many_tokens() -> None:
    backend = ScriptedBackend([Reply("a b c", fail_after=2, error=TimeoutError("gone"))])
    with pytest.raises(TimeoutError, match="gone"):
        ask(backend)
    assert (backend.generated, backend.running) == (2, 0)


def test_it_stalls_until_it_is_closed() -> None:
    async def main() -> int:
        backend = ScriptedBackend([Reply("a b c", stall_after=1)])
        request = GenerateRequest(ids=[], output_start=0, sampling=NEUTRAL, max_tokens=9, seed=1, session="s")
        chunks = backend.generate(request)
        await anext(chunks)
        await anext(chunks)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(chunks), 0.01)
        assert backend.sessions == {"s"}
        await backend.release("s")
        assert backend.sessions == set()
        return backend.running

    assert asyncio.run(main()) == 0


def test_its_template_shows_the_conversation_and_may_open_the_reasoning() -> None:
    backend = ScriptedBackend(open_reasoning=True, think_tags=ThinkTags("<r>", "</r>"))
    messages = [Message(role="system", content="Be brief."), Message(role="user", content="hi")]
    for reasoning, opened in ((None, True), (True, True), (False, False)):
        prompt = asyncio.run(backend.render(messages, [], RenderOptions(reasoning=reasoning)))
        assert prompt.reasoning_open is opened
        shown = backend.vocabulary.bytes_of(prompt.ids).decode()
        assert shown == "<system>Be brief.</system><user>hi</user><assistant>" + ("<r>\n" if opened else "")


def test_two_vocabularies_never_pass_for_one() -> None:
    assert Vocabulary("words").hash != Vocabulary("words").hash


def test_backends_that_are_given_no_vocabulary_have_one_in_common() -> None:
    text = "<think>We think a while. So, it is four. Then we stop.</think>It is 4."
    with RelayEngine(ScriptedBackend(text), ScriptedBackend(text), cue_profile=CueProfile.of("So")) as engine:
        result = engine.generate("hi")
    assert result.text == "It is 4."
    assert reasons(result) == ["cue", "sentence_end", "think_end"]


def test_what_it_lacks_names_backend_and_feature() -> None:
    backend = ScriptedBackend(name="mine")
    with pytest.raises(NotSupported, match="'mine' does not support scoring"):
        asyncio.run(backend.score([1, 2]))
    with pytest.raises(NotSupported, match="'mine' does not support drafting"):
        asyncio.run(backend.attach_draft(backend))
