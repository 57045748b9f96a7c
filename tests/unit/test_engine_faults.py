"""Wherever a backend can fail: rendering, encoding, decoding, at once, in mid-stream; and a policy that fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from relay_integrations import BackendError, CueProfile, Message, RelayFailed, fold
from relay_integrations.backends.base import GenerateRequest, Prompt, RenderOptions
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from relay_integrations.policies import Plan, RelayGen
from relay_integrations.transcript import SegmentEnd, Transcript
from tests.unit.support import MATHS, backend, both_ways, read_to_error, reasons, relay, turns

REASONING = MATHS.removeprefix("<think>\n").partition("</think>")[0]


class Odd(ScriptedBackend):
    """Fails in a way of its own."""

    fault = ""

    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        if self.fault == "render":
            raise ConnectionError("no template")
        return await super().render(messages, tools, options)

    async def encode(self, text: str) -> list[int]:
        if self.fault == "encode":
            raise ConnectionError("no tokenizer")
        return await super().encode(text)

    async def decode(self, ids: Sequence[int]) -> str:
        if self.fault == "decode":
            raise ConnectionError("no tokenizer")
        return await super().decode(ids)

    async def generate(self, request: Any) -> Any:
        if self.fault == "at once":
            raise ConnectionError("refused")
        said = 0
        async for chunk in super().generate(request):
            yield chunk
            said += 1
            if self.fault == "breaks off" and said > 3:
                return


def odd_pair(role: str, fault: str) -> list[ScriptedBackend]:
    kinds = {role: Odd}
    pair = [kinds.get(name, ScriptedBackend)(MATHS, name=name, vocabulary=Vocabulary("words", name)) for name in ("large", "small")]
    for made in pair:
        if isinstance(made, Odd):
            made.fault = fault
    return pair


@pytest.mark.parametrize("role", ["large", "small"])
@pytest.mark.parametrize("fault", ["render", "encode", "at once", "breaks off"])
def test_wherever_one_model_fails_the_other_one_brings_it_to_its_end(role: str, fault: str) -> None:
    with relay(*odd_pair(role, fault)) as engine:
        result = both_ways(engine, "hi")
    assert (result.reasoning, result.text, result.finish_reason) == (REASONING, "The answer is 7.5.", "stop")


@pytest.mark.parametrize("role", ["large", "small"])
def test_a_prompt_that_cannot_be_rendered_raises_where_the_rules_say_so(role: str) -> None:
    with relay(*odd_pair(role, "render"), on_failure="raise") as engine, pytest.raises(BackendError, match=f"{role} model.*no template"):
        engine.generate("hi")


def test_a_forced_closing_tag_that_cannot_be_encoded_is_a_failure_like_any_other() -> None:
    def thinks(so_far: str, request: Any) -> str:
        return "Yes." if "</think>" in so_far else "<think> on" + " and on" * 30

    pair = [kind(thinks, name=name, vocabulary=Vocabulary("words", name)) for kind, name in ((Odd, "big"), (ScriptedBackend, "tiny"))]
    pair[0].fault = "encode"  # type: ignore[attr-defined]
    with relay(*pair) as engine:
        result = both_ways(engine, "hi", reasoning_budget=5)
    assert (result.text, result.usage.reasoning_tokens) == ("Yes.", 5)
    assert result.segments[0].error == "ConnectionError: no tokenizer"


def test_a_stream_that_ends_without_a_reason_is_a_failure() -> None:
    pair = odd_pair("large", "breaks off")
    with relay(*pair, policy="large-only") as engine, pytest.raises(BackendError, match="without a finish reason"):
        engine.generate("hi")


def test_ids_that_cannot_be_decoded_are_a_failure_like_any_other() -> None:
    def script(so_far: str, request: Any) -> Reply:
        return Reply(MATHS[len(so_far) :], chunk=4, texts=False)

    vocabulary = Vocabulary()
    with relay(Odd(script, vocabulary=vocabulary), ScriptedBackend(MATHS, vocabulary=vocabulary)) as engine:
        backend(engine, "large").fault = "decode"  # type: ignore[attr-defined]
        result = both_ways(engine, "hi")
    assert turns(result) == [("large", ""), ("small", MATHS)]


def test_a_policy_that_fails_ends_the_run_with_its_own_error() -> None:
    class Broken(RelayGen):
        def next(self, transcript: Transcript, ended: SegmentEnd | None) -> Plan | None:
            if ended is not None:
                raise KeyError("no such rule")
            return super().next(transcript, ended)

    with relay(MATHS, policy=Broken(cues=CueProfile.of("So"))) as engine:
        events, error = read_to_error(engine.stream("hi", seed=1))
    assert isinstance(error, KeyError)
    assert isinstance(events[-1], RelayFailed)
    assert "KeyError" in events[-1].error
    assert fold(events).reasoning == "First we add 3.5 and 4. So,"


class Clumsy(ScriptedBackend):
    """A backend whose author made a mistake."""

    def __init__(self, mistake: str) -> None:
        super().__init__("x", name="clumsy")
        self.mistake = mistake

    def generate(self, request: GenerateRequest) -> Any:
        if self.mistake == "raises at once":
            raise OSError("no")

        async def coroutine() -> None: ...

        async def strings() -> AsyncGenerator[str, None]:
            yield "hello"

        return strings() if self.mistake == "yields strings" else coroutine()


@pytest.mark.parametrize("mistake", ["raises at once", "yields strings", "is no generator"])
def test_a_backend_with_a_mistake_fails_like_any_other_and_the_log_says_so(mistake: str, caplog: pytest.LogCaptureFixture) -> None:
    with relay("We think a while. So, it is four. Then we stop.", Clumsy(mistake)) as engine:
        result = engine.generate("hi")
    assert result.text == "We think a while. So, it is four. Then we stop."
    assert reasons(result) == ["cue", "fallback"]
    assert result.segments[1].error
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the small model 'clumsy' failed, the other one goes on alone" in caplog.text
    with relay("a", Clumsy(mistake), policy="small-only") as engine, pytest.raises(BackendError, match="small model 'clumsy' failed"):
        engine.generate("hi")
