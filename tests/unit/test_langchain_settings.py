"""How a chat model is made: what is checked, when models are loaded, who shares an engine, and what traces and caches call it."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from langchain_relay import ChatRelay
from relay_integrations import CueProfile, EngineClosed, FailureRules, RelayEngine, __version__, make_policy
from relay_integrations.adapter.shared_engine import EngineSettings
from relay_integrations.tiny import LARGE, SMALL
from tests.unit.langchain_support import chat
from tests.unit.support import MATHS, WEATHER, backend, continuing, eventually, relay
from tests.unit.test_public_api import python

PAIR = {"large": LARGE, "small": SMALL}


class Opened:
    """Takes the place of opening: counts, and opens scripted engines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings: list[EngineSettings] = []
        self.engines: list[RelayEngine] = []
        self.ready: Callable[[], bool] = lambda: True
        monkeypatch.setattr(EngineSettings, "open", lambda settings: self._open(settings))

    def _open(self, settings: EngineSettings) -> RelayEngine:
        self.settings.append(settings)
        assert eventually(self.ready)
        self.engines.append(relay(MATHS))
        return self.engines[-1]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


def test_importing_it_and_making_a_model_loads_neither_torch_nor_transformers() -> None:
    heavy = ("torch", "transformers", "vllm", "llama_index", "langgraph", "langchain", "numpy")
    code = f"""if True:
        import sys
        from langchain_relay import ChatRelay
        model = ChatRelay.tiny(temperature=0).bind_tools([]).with_config(tags=["x"])
        print([m for m in {heavy} if m in sys.modules])"""
    assert python(code, "-W", "error") == "[]"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, r"give large=… and small=…, or engine=….*ChatRelay.tiny\(\)"),
        ({"large": LARGE}, "small is missing"),
        ({"small": SMALL}, "large is missing"),
        ({**PAIR, "backend": "telepathy"}, "unknown backend 'telepathy'; there are: scripted, transformers"),
        ({**PAIR, "policy": "magic"}, "unknown policy 'magic'; there are: relaygen"),
        ({**PAIR, "cue_profile": "nonesuch"}, "no cue profile named 'nonesuch'"),
        ({**PAIR, "on_failure": {"large": "cry"}}, "on_failure large"),
        ({**PAIR, "prices": {"large": {"input": -1, "output": 2}}}, "prices.*input"),
        ({**PAIR, "max_tokens": 0}, "max_tokens"),
        ({**PAIR, "temperature": -1}, "temperature"),
        ({**PAIR, "large_token_budget": 0.5}, "large_token_budget as a share needs max_tokens"),
        ({**PAIR, "stop": [""]}, "a stop sequence cannot be empty"),
        ({**PAIR, "temprature": 1}, "temprature"),
        ({**PAIR, "model_kwargs": {"temprature": 1}}, "unknown argument 'temprature'; known: .*temperature"),
        ({**PAIR, "model_kwargs": {"top_k": 1}, "top_k": 2}, "top_k is given twice"),
        ({**PAIR, "trace_segments": "some"}, "trace_segments"),
        ({**PAIR, "max_segments": -1}, "max_segments"),
        ({**PAIR, "output_version": "v7"}, "output_version='v7' is unknown"),
        ({"model": "big"}, "a relay has two models: say large=… and small=…"),
        ({**PAIR, "large_url": "http://here/v1"}, "large_url .*no backend for"),
    ],
)
def test_what_cannot_work_is_an_error_when_the_model_is_made(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ChatRelay(**settings)


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_the_form_of_messages_may_stand_in_the_environment(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = relay(MATHS)
    monkeypatch.setenv("LC_OUTPUT_VERSION", version)
    model = ChatRelay(engine=engine, seed=1)
    assert model.output_version == version
    assert isinstance(model.invoke("hi").content, list if version == "v1" else str)
    assert model._get_llm_string() == ChatRelay(engine=engine, seed=1, output_version=version)._get_llm_string()
    monkeypatch.setenv("LC_OUTPUT_VERSION", "responses/v1")
    with pytest.raises(ValidationError, match=r"output_version='responses/v1' is unknown.*LC_OUTPUT_VERSION"):
        ChatRelay(engine=engine)


@pytest.mark.parametrize(
    ("name", "value"), [("large", LARGE), ("device", "cpu"), ("prices", {"large": {"input": 1, "output": 1}}), ("on_failure", "raise")]
)
def test_an_engine_has_its_own_models_and_settings(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"{name} is a setting of the engine"):
        ChatRelay(engine=relay("hi"), **{name: value})


def test_servers_are_read_from_the_environment_and_are_an_error_unless_a_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_SMALL_URL", "http://here/v1")
    with pytest.raises(ValidationError, match="RELAY_SMALL_URL"):
        ChatRelay(**PAIR)
    assert ChatRelay.tiny().small_url == ChatRelay(**PAIR, backend="transformers").small_url == chat().small_url == "http://here/v1"


def test_models_are_loaded_once_and_only_when_they_are_needed(opened: Opened) -> None:
    model = ChatRelay.tiny()
    copies = [
        model,
        model.model_copy(update={"temperature": 0.5}),
        model.bind(max_tokens=5),
        model.bind_tools([WEATHER]),
        model.with_config(tags=["x"]),
        copy.copy(model),
        copy.deepcopy(model),
        model.configurable_fields(temperature=ConfigurableField(id="t")).with_config(configurable={"t": 0.25}),
        model.model_copy(update={"policy": "large-only"}),
    ]
    assert opened.engines == []
    with ThreadPoolExecutor(len(copies)) as threads:
        list(threads.map(lambda m: m.invoke("hi"), copies))
    assert len(opened.engines) == 1
    assert {request.sampling.temperature for request in backend(opened.engines[0], "large").requests} == {1.0, 0.5, 0.25}


def test_a_copy_with_other_models_opens_its_own(opened: Opened) -> None:
    model = ChatRelay.tiny()
    model.invoke("hi")
    model.model_copy(update={"small": "relay-tiny-small-other"}).invoke("hi")
    assert [settings.small for settings in opened.settings] == [SMALL, "relay-tiny-small-other"]


def test_what_an_engine_is_opened_with_is_what_was_said(opened: Opened) -> None:
    settings = {"device": "cpu", "dtype": "float32", "large_options": {"revision": "x"}, "prices": {"small": {"input": 1, "output": 2}}}
    ChatRelay(large="a/big", small=Path("/models/little"), on_failure="raise", max_retries=4, **settings).invoke("hi")
    (used,) = opened.settings
    assert (used.large, used.small, used.backend) == ("a/big", Path("/models/little"), "transformers")
    assert used.placing == {"device": "cpu", "dtype": "float32"}
    assert used.large_options == {"revision": "x"}
    assert used.rules == FailureRules(large="raise", small="raise", retries=4)
    assert used.names == ("big", "little")


def test_loading_leaves_the_event_loop_free_and_calls_wait_for_one_another(opened: Opened) -> None:
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async def main() -> None:
        beating = asyncio.create_task(heart())
        await asyncio.gather(*(model.ainvoke("hi") for _ in range(3)))
        beating.cancel()

    model = ChatRelay.tiny()
    opened.ready = lambda: beats > 50  # loading ends only when the loop has gone round so often meanwhile
    asyncio.run(main())
    assert len(opened.engines) == 1


def test_closing_closes_what_the_model_opened_for_all_copies(opened: Opened) -> None:
    model = ChatRelay.tiny()
    other = model.bind(max_tokens=3)
    other.invoke("hi")
    model.close()
    asyncio.run(model.aclose())
    with pytest.raises(EngineClosed):
        other.invoke("hi")
    unused = ChatRelay.tiny()
    unused.close()
    with pytest.raises(EngineClosed, match="closed before its first use"):
        unused.invoke("hi")
    assert len(opened.engines) == 1


def test_closing_leaves_an_engine_alone_that_was_passed_in() -> None:
    model = chat()
    model.close()
    asyncio.run(model.aclose())
    assert model.invoke("hi").content == "The answer is 7.5."


def test_a_model_can_be_pickled_and_opens_its_own_engine_elsewhere(opened: Opened) -> None:
    model = ChatRelay.tiny(temperature=0.5, policy="large-only")
    model.invoke("hi")
    other = pickle.loads(pickle.dumps(model))
    assert other.asdict() == model.asdict()
    other.invoke("hi")
    assert len(opened.engines) == 2


def test_the_version_is_in_the_metadata_of_traces() -> None:
    assert chat().metadata["lc_versions"]["langchain-relay"] == __version__  # type: ignore[index]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("temperature", 0.5),
        ("top_k", 3),
        ("max_tokens", 7),
        ("seed", 5),
        ("stop", ["x"]),
        ("reasoning", False),
        ("large_token_budget", 10),
        ("reasoning_budget", 10),
        ("large_sampling", {"top_k": 2}),
        ("n", 2),
        ("policy", "large-only"),
        ("policy", make_policy("relaygen", answer_role="large")),
        ("model_kwargs", {"min_p": 0.1}),
        ("output_version", "v1"),
        ("max_segments", 3),
    ],
)
def test_every_setting_that_changes_answers_is_in_the_key_of_the_cache(setting: str, value: Any) -> None:
    engine = relay(MATHS)
    plain, other = ChatRelay(engine=engine), ChatRelay(engine=engine, **{setting: value})
    assert plain._get_llm_string() != other._get_llm_string() != ""
    assert plain.model_copy(update={setting: value})._get_llm_string() == other._get_llm_string()


def test_models_cues_and_engines_are_in_the_key_of_the_cache() -> None:
    pairs = [
        ChatRelay(**PAIR),
        ChatRelay(large=LARGE, small="relay-tiny-small-other"),
        ChatRelay(**PAIR, cue_profile="tiny"),
        ChatRelay(**PAIR, cue_profile=CueProfile.of("So")),
        ChatRelay(**PAIR, cue_profile=CueProfile.of("Thus")),
        ChatRelay(**PAIR, dtype="bfloat16"),
        ChatRelay(**PAIR, on_failure="raise"),
        chat(),
        chat(engine={"cue_profile": CueProfile.of("Aha")}),
        chat(engine={"policy": "small-only"}),
    ]
    assert len({pair._get_llm_string() for pair in pairs}) == len(pairs)
    assert len({str(sorted(pair.asdict().items(), key=str)) for pair in pairs}) == len(pairs)


def test_the_cache_answers_a_repeated_call_and_no_other() -> None:
    model = chat(cache=InMemoryCache(), seed=1)
    assert model.engine is not None
    first, again = model.invoke("hi"), model.invoke("hi")
    asked = len(backend(model.engine, "large").rendered)
    assert (first.content, asked) == (again.content, 1)
    for kwargs in ({"temperature": 0.5}, {"stop": ["x"]}, {"model": "large-only"}):
        model.invoke("hi", **kwargs)
    model.model_copy(update={"max_tokens": 3}).invoke("hi")
    assert len(backend(model.engine, "large").rendered) == 5


def test_a_rate_limiter_is_asked_before_each_call() -> None:
    class Limiter(InMemoryRateLimiter):
        asked = 0

        def acquire(self, *, blocking: bool = True) -> bool:
            self.asked += 1
            return True

    limiter = Limiter()
    model = chat(rate_limiter=limiter)
    model.invoke("hi")
    list(model.stream("hi"))
    assert limiter.asked == 2


def test_tokens_are_counted_by_the_large_models_own_vocabulary_and_template() -> None:
    model = chat()
    assert model.engine is not None
    messages = [SystemMessage("Be brief."), HumanMessage("How many?")]
    assert model.get_token_ids("a b") == backend(model.engine, "large").vocabulary.encode("a b")
    assert model.get_num_tokens("a b c") == 3
    counted = model.get_num_tokens_from_messages(messages, tools=[WEATHER])
    message = model.bind_tools([WEATHER]).invoke(messages)
    assert message.usage_metadata is not None
    assert counted == message.usage_metadata["input_tokens"]
    assert model.get_num_tokens_from_messages([]) == 0
    assert model.get_num_tokens_from_messages([AIMessage("part of a conversation")]) > 0
    assert chat(custom_get_token_ids=lambda text: [1, 2]).get_num_tokens("a b c") == 2


def test_the_profile_says_what_agents_ask_for() -> None:
    profile = chat().profile
    assert profile is not None
    assert (profile["max_input_tokens"], profile["reasoning_output"], profile["tool_calling"]) == (1 << 20, True, True)
    assert profile["image_inputs"] is False
    lazy = ChatRelay(**PAIR).profile
    assert lazy is not None
    assert lazy["max_input_tokens"] == 4096
    assert "max_input_tokens" not in (ChatRelay(large="some/hub-id", small=SMALL).profile or {})
    assert ChatRelay(large="some/hub-id", small=SMALL, large_options={"context_window": 99}).profile["max_input_tokens"] == 99  # type: ignore[index]
    assert ChatRelay(**PAIR, profile={"max_input_tokens": 5}).profile == {"max_input_tokens": 5}


def test_eight_threads_get_what_eight_calls_in_a_row_get() -> None:
    model = chat(continuing(MATHS, delay=1e-4), seed=5)
    prompts = [f"How many? {i}" for i in range(8)]
    alone = [model.invoke(prompt) for prompt in prompts]
    assert [m.content for m in model.batch(prompts)] == [m.content for m in alone]
    with ThreadPoolExecutor(8) as threads:
        barrier = threading.Barrier(8)

        def together(prompt: str) -> AIMessage:
            barrier.wait()
            return model.invoke(prompt)

        crowd = list(threads.map(together, prompts))
    assert [(m.content, m.usage_metadata, m.additional_kwargs) for m in crowd] == [
        (m.content, m.usage_metadata, m.additional_kwargs) for m in alone
    ]
    assert model.engine is not None
    assert eventually(lambda: backend(model.engine, "large").running == 0)  # type: ignore[arg-type]
