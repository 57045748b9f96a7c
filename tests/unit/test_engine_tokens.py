"""What the engine says about ids: of a text, and of a conversation as a model reads it."""

from __future__ import annotations

import pytest

from relay_integrations import MessageError, NotSupported
from relay_integrations.backends.scripted import ScriptedBackend
from tests.unit.support import WEATHER, backend, relay


def test_a_text_is_encoded_by_the_model_that_is_asked_for() -> None:
    with relay("hi") as engine:
        assert engine.encode("a b") == backend(engine, "large").vocabulary.encode("a b")
    with relay("hi", ScriptedBackend("hi", name="tiny")) as engine:
        assert engine.encode("a bc", role="small") == backend(engine, "small").vocabulary.encode("a bc")


def test_the_ids_of_a_conversation_are_those_that_the_model_is_sent() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    with relay("hi") as engine:
        ids = engine.prompt_ids(messages, tools=[WEATHER], reasoning=False, template_options={"x": 1})
        assert engine.generate(messages, tools=[WEATHER], reasoning=False, template_options={"x": 1}).text == "hi"
        assert tuple(backend(engine, "large").requests[0].ids) == ids
        first, second = backend(engine, "large").rendered[:2]
    assert first == second


@pytest.mark.parametrize("messages", [[{"role": "assistant", "content": "So far."}], [{"role": "system", "content": "Be brief."}]])
def test_parts_of_a_conversation_have_ids_too(messages: list[dict[str, str]]) -> None:
    with relay("hi") as engine:
        assert engine.prompt_ids(messages)
        with pytest.raises(MessageError):
            engine.generate(messages)


def test_malformed_messages_and_tools_that_a_template_ignores_are_errors_here_as_well() -> None:
    with relay(ScriptedBackend("hi", template_tools=False), ScriptedBackend("hi")) as engine:
        with pytest.raises(MessageError, match=r"messages\[0\]"):
            engine.prompt_ids([{"role": "nobody"}])
        with pytest.raises(NotSupported, match="tools"):
            engine.prompt_ids("hi", tools=[WEATHER])
