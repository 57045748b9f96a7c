"""How an LLM is made, copied, stored and restored, and what it says of itself before its models are loaded."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core import Settings
from pydantic import ValidationError

from llamaindex_relay import Relay
from relay_integrations import CueProfile, EngineClosed, Sampling, make_policy
from relay_integrations.adapter.shared_engine import EngineSettings
from relay_integrations.backends.scripted import ScriptedBackend
from relay_integrations.tiny import LARGE, SMALL
from tests.unit.llamaindex_support import HI, WAYS, llm
from tests.unit.support import MATHS, backend, relay
from tests.unit.test_public_api import python

PAIR = {"large": LARGE, "small": SMALL}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Engines that were opened; scripted ones take the place of models."""
    engines: list[Any] = []

    def open_scripted(settings: EngineSettings) -> Any:
        engines.append(relay(MATHS))
        return engines[-1]

    monkeypatch.setattr(EngineSettings, "open", open_scripted)
    return engines


def test_importing_it_and_making_an_llm_loads_neither_torch_nor_transformers() -> None:
    heavy = ("torch", "transformers", "vllm", "langchain_core", "langchain_relay")
    code = f"""if True:
        import sys
        from llamaindex_relay import Relay
        print(Relay.tiny(temperature=0).metadata.context_window)
        print([m for m in {heavy} if m in sys.modules])"""
    assert python(code).splitlines() == ["4096", "[]"]


def test_public_names_are_these() -> None:
    import llamaindex_relay

    assert sorted(llamaindex_relay.__all__) == [
        "Relay",
        "RelayHandoffEvent",
        "RelaySegmentEndEvent",
        "RelaySegmentStartEvent",
        "__version__",
    ]
    assert all(hasattr(llamaindex_relay, name) for name in llamaindex_relay.__all__)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, r"give large=… and small=…, or engine=….*Relay.tiny\(\)"),
        ({"large": LARGE}, "small is missing"),
        ({**PAIR, "policy": "magic"}, "unknown policy 'magic'"),
        ({**PAIR, "max_tokens": 0}, "max_tokens"),
        ({**PAIR, "temperature": -1}, "temperature"),
        ({**PAIR, "temprature": 1}, "temprature"),
        ({**PAIR, "additional_kwargs": {"temprature": 1}}, "unknown argument 'temprature'"),
        ({**PAIR, "additional_kwargs": {"top_k": 1}, "top_k": 2}, "top_k is given twice: in additional_kwargs"),
        ({**PAIR, "large_sampling": {"tpo_k": 1}}, "unknown large_sampling 'tpo_k'"),
        ({**PAIR, "cue_profile": {"cues": 3}}, "cues"),
        ({**PAIR, "on_failure": {"large": "cry"}}, "on_failure large"),
        ({**PAIR, "prices": {"large": {"input": -1, "output": 2}}}, "prices.*input"),
        ({**PAIR, "trace_segments": "some"}, "trace_segments"),
        ({"model": "big"}, "a relay has two models"),
        ({**PAIR, "max_tokens": 4096}, "max_tokens=4096 leaves no room for a prompt in the window of 4096 tokens"),
    ],
)
def test_what_cannot_work_is_an_error_when_the_llm_is_made(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Relay(**settings)


def test_a_cap_on_the_output_that_fills_the_window_of_an_engine_is_an_error_too() -> None:
    engine = relay(ScriptedBackend(MATHS, context_window=100), ScriptedBackend(MATHS))
    with pytest.raises(ValidationError, match="window of 100 tokens: make it smaller"):
        Relay(engine=engine, max_tokens=100)
    assert Relay(engine=engine, max_tokens=99).metadata.num_output == 99


def test_the_metadata_says_what_prompts_may_hold() -> None:
    plain, capped = Relay(**PAIR).metadata, Relay(**PAIR, max_tokens=700).metadata
    assert (plain.context_window, plain.num_output) == (4096, 1024)
    assert (capped.context_window, capped.num_output) == (4096, 700)
    assert llm().metadata.context_window == 1 << 20
    assert llm().metadata.num_output == 4096
    assert (plain.model_name, plain.is_chat_model, plain.is_function_calling_model) == (f"{LARGE}+{SMALL}", True, True)
    assert not llm(is_function_calling_model=False).metadata.is_function_calling_model
    assert llm(policy="large-only").metadata.model_name == "big+tiny:large-only"


STORED: dict[str, Any] = {
    "plain": {},
    "sampling": {"temperature": 0.5, "top_k": 7, "seed": 3, "stop": ["x"], "max_tokens": 100},
    "per role": {"large_sampling": {"top_k": 2}, "small_sampling": Sampling(temperature=0.5)},
    "policy by name": {"policy": "large-only"},
    "policy": {"policy": make_policy("relaygen", answer_role="large")},
    "cues by name": {"cue_profile": "tiny"},
    "cues": {"cue_profile": CueProfile.of("So", "Thus")},
    "rules and prices": {"on_failure": {"small": "raise"}, "prices": {"large": {"input": 1.0, "output": 2.0}}},
    "traces": {"trace_segments": "all", "max_segments": 3},
    "text": {"is_function_calling_model": False, "additional_kwargs": {"min_p": 0.1}, "system_prompt": "Be brief."},
}


@pytest.mark.parametrize("settings", STORED.values(), ids=STORED.keys())
@pytest.mark.parametrize("written", ["dict", "JSON"])
def test_it_is_restored_from_what_it_was_stored_as(settings: dict[str, Any], written: str) -> None:
    model = Relay(**PAIR, **settings)
    other = Relay.from_dict(model.to_dict()) if written == "dict" else Relay.from_json(model.to_json())
    assert _said(other) == _said(model)
    assert other.default_options() == model.default_options()


def _said(model: Relay) -> dict[str, Any]:
    return {name: getattr(model, name) for name in Relay.model_fields if name not in ("callback_manager", "shared_engine")}


def test_one_over_an_engine_is_restored_over_an_engine() -> None:
    model = llm(temperature=0.5, policy="large-only")
    other = Relay.from_dict(model.to_dict(), engine=model.engine)
    assert _said(other) == _said(model)
    with pytest.raises(ValidationError, match="engine=…"):
        Relay.from_dict(model.to_dict())


def test_what_is_stored_names_the_class_and_no_secret() -> None:
    stored = Relay(**PAIR, api_key="sk-secret").to_dict()
    assert Relay.class_name() == stored["class_name"] == "Relay"
    assert "api_key" not in stored
    assert "sk-secret" not in Relay(**PAIR, api_key="sk-secret").to_json()
    assert "sk-secret" not in repr(Relay(**PAIR, api_key="sk-secret"))


def test_models_are_loaded_once_and_only_when_they_are_needed(opened: list[Any]) -> None:
    model = Relay.tiny()
    copies = [model, copy.copy(model), copy.deepcopy(model), model.model_copy(update={"temperature": 0.5})]
    assert model.metadata.context_window == 4096
    assert opened == []
    with ThreadPoolExecutor(len(copies)) as threads:
        list(threads.map(lambda m: m.chat(HI), copies))
    assert len(opened) == 1
    assert {request.sampling.temperature for request in backend(opened[0], "large").requests} == {1.0, 0.5}


@pytest.mark.parametrize("way", WAYS)
def test_any_method_may_be_the_first_to_load_them(opened: list[Any], way: str) -> None:
    model = Relay.tiny()
    WAYS[way](model)
    WAYS[way](model)
    assert len(opened) == 1


def test_pickled_it_opens_an_engine_of_its_own_elsewhere(opened: list[Any]) -> None:
    model = Relay.tiny(temperature=0.5, policy="large-only", cue_profile=CueProfile.of("So"))
    model.chat(HI)
    other = pickle.loads(pickle.dumps(model))
    assert _said(other) == _said(model)
    other.chat(HI)
    assert len(opened) == 2


def test_an_engine_that_was_passed_in_is_shared_by_copies_and_cannot_be_pickled() -> None:
    model = llm()
    assert copy.deepcopy(model).engine is copy.copy(model).engine is model.engine
    assert copy.deepcopy(model).chat(HI).message.content == "The answer is 7.5."
    with pytest.raises(TypeError, match="engine"):
        pickle.dumps(model)


def test_closing_closes_what_the_llm_opened_and_no_engine_that_was_passed_in(opened: list[Any]) -> None:
    model = Relay.tiny()
    model.chat(HI)
    model.close()
    with pytest.raises(EngineClosed):
        model.chat(HI)
    given = llm()
    given.close()
    assert given.chat(HI).message.content == "The answer is 7.5."


def test_a_server_is_an_error_unless_a_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_LARGE_URL", "http://here/v1")
    with pytest.raises(ValidationError, match="RELAY_LARGE_URL"):
        Relay(**PAIR)
    assert Relay.tiny().large_url == "http://here/v1"


def test_it_may_be_the_llm_of_the_settings() -> None:
    before = Settings._llm
    try:
        Settings.llm = model = llm()
        assert Settings.llm is model
        assert Settings.llm.complete("hi").text == "The answer is 7.5."
        assert Settings.prompt_helper.context_window == 1 << 20
    finally:
        Settings._llm, Settings._prompt_helper = before, None


def test_eight_threads_get_what_eight_calls_in_a_row_get() -> None:
    model = llm(seed=5)
    alone = [model.complete(f"How many? {n}") for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        crowd = list(threads.map(lambda n: model.complete(f"How many? {n}"), range(8)))
    assert [(r.text, r.raw["usage"]) for r in crowd] == [(r.text, r.raw["usage"]) for r in alone]
