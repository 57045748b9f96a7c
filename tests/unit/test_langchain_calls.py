"""What a call asks the engine for, and what it reports: options, stop sequences, other models, several answers, usage."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.messages import HumanMessage

from langchain_relay import ChatRelay
from relay_integrations import BackendError, ConfigError, Prices, PromptTooLong, make_policy
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from relay_integrations.policies import LargeOnly
from tests.unit.langchain_support import HANDOFFS_IN_MATHS, Recorder, chat, merged, plain
from tests.unit.support import MATHS, backend, continuing

OPTIONS: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 7,
    "min_p": 0.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.25,
}


def sampling(model: ChatRelay) -> dict[str, Any]:
    """What the large model was last sent."""
    assert model.engine is not None
    return backend(model.engine, "large").requests[-1].sampling.model_dump()


def test_options_of_the_model_reach_both_backends_and_a_call_overrides_them() -> None:
    model = chat(**OPTIONS)
    model.invoke("hi")
    assert sampling(model) == OPTIONS
    list(model.stream("hi", temperature=0.25, large_sampling={"top_k": 3}))
    assert sampling(model) == {**OPTIONS, "temperature": 0.25, "top_k": 3}
    model.bind(top_p=0.5).invoke("hi")
    assert sampling(model)["top_p"] == 0.5


def test_temperature_zero_is_sent_and_not_taken_for_none() -> None:
    model = chat(temperature=0)
    model.invoke("hi")
    assert sampling(model)["temperature"] == 0


def test_further_options_may_stand_in_model_kwargs() -> None:
    model = chat(model_kwargs={"top_k": 5})
    model.invoke("hi")
    assert sampling(model)["top_k"] == 5


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_an_argument_that_nobody_knows_is_an_error_that_names_those_which_are_known(method: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown argument 'temprature'; known: .*temperature"):
        list(getattr(chat(), method)("hi", temprature=0.5))


@pytest.mark.parametrize(
    ("field", "call", "said"),
    [
        (None, None, "The answer is 7.5."),
        (["answer"], None, "The "),
        ("answer", None, "The "),
        (["answer"], ["is"], "The answer "),
        (["answer"], [], "The answer is 7.5."),
    ],
)
def test_a_stop_of_the_call_replaces_the_models_and_an_empty_one_means_none(field: Any, call: list[str] | None, said: str) -> None:
    model = chat("<think>\nHm.\n</think>\n\nThe answer is 7.5.", stop=field)
    assert model.invoke("hi", stop=call).content == said
    assert merged(model.stream("hi", stop=call)).content == said
    assert model._get_ls_params(stop=call).get("ls_stop", []) == (call if call is not None else ["answer"] if field else [])


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_stop_across_chunks_and_a_handoff_ends_the_answer_and_is_no_part_of_it(chunk: int) -> None:
    model = chat(continuing(MATHS, chunk=chunk), seed=1)
    for message in (model.invoke("hi", stop=["So, Mia"]), merged(model.stream("hi", stop=["So, Mia"]))):
        assert message.additional_kwargs["reasoning_content"] == "First we add 3.5 and 4. "
        assert (message.content, message.response_metadata["finish_reason"]) == ("", "stop")
        assert message.response_metadata["relay"]["stop_sequence"] == "So, Mia"


@pytest.mark.parametrize(
    ("model", "roles", "reported"),
    [
        (None, {"large", "small"}, "big+tiny"),
        ("big+tiny", {"large", "small"}, "big+tiny"),
        ("relaygen", {"large", "small"}, "big+tiny"),
        ("large-only", {"large"}, "big+tiny:large-only"),
        ("big", {"large"}, "big+tiny:large-only"),
        ("tiny", {"small"}, "big+tiny:small-only"),
        ("big+tiny:small-only", {"small"}, "big+tiny:small-only"),
    ],
)
def test_another_model_in_a_call_is_another_policy_for_the_same_pair(model: str | None, roles: set[str], reported: str) -> None:
    chosen = {} if model is None else {"model": model}
    relay = chat(seed=1)
    whole, streamed = relay.invoke("hi", **chosen), merged(relay.stream("hi", **chosen))
    assert plain(whole) == plain(streamed)
    assert whole.response_metadata["model_name"] == reported == relay._get_ls_params(**chosen)["ls_model_name"]
    assert {segment["role"] for segment in whole.response_metadata["relay"]["segments"]} == roles


def test_a_model_that_is_no_part_of_the_pair_is_an_error_that_says_what_may_be_chosen() -> None:
    with pytest.raises(ConfigError, match=r"'gpt-x' is unknown: this model runs 'big\+tiny'.*large-only"):
        chat().invoke("hi", model="gpt-x")
    with pytest.raises(ConfigError, match="model=3 is unknown"):
        chat().invoke("hi", model=3)


def test_the_model_of_the_constructor_is_its_policy() -> None:
    model = chat(policy="large-only")
    assert model.invoke("hi").response_metadata["model_name"] == "big+tiny:large-only"
    assert model.invoke("hi", model="relaygen").response_metadata["relay"]["handoffs"] != {}
    assert model.invoke("hi", model="big+tiny:large-only").response_metadata["relay"]["handoffs"] == {}


def test_usage_arrives_once_in_a_stream_and_equals_that_of_invoke() -> None:
    model = chat(seed=1)
    usage = model.invoke("hi").usage_metadata
    assert usage is not None
    assert usage == merged(model.stream("hi")).usage_metadata
    assert sum(chunk.usage_metadata is not None for chunk in model.stream("hi")) == 1
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert 0 < usage["output_token_details"]["reasoning"] < usage["output_tokens"]


def test_the_relays_figures_are_those_of_the_engine() -> None:
    prices = {"large": Prices(input=1, output=2), "small": Prices(input=0.1, output=0.2)}
    vocabulary = Vocabulary()
    big, tiny = (ScriptedBackend(MATHS, name=name, vocabulary=vocabulary, parameters=p) for name, p in (("big", 100), ("tiny", 10)))
    model = chat(big, tiny, engine={"prices": prices}, seed=7, max_segments=4)
    assert model.engine is not None
    told = model.invoke("hi").response_metadata["relay"]
    result = model.engine.generate("hi", seed=7)
    usage = result.usage
    assert told["tokens"] == {"large": usage.large_tokens, "small": usage.small_tokens, "forced": 0, "discarded": usage.discarded_tokens}
    assert (told["utilisation"], told["handoffs"]) == (usage.utilisation, usage.handoffs)
    assert (told["flops"], told["cost"], told["seed"]) == (usage.flops, usage.cost, 7)
    assert usage.cost is not None
    assert told["models"] == {"large": "big", "small": "tiny"}
    assert [(s["role"], s["tokens"]) for s in told["segments"]] == [(s.role, s.tokens) for s in result.segments[:4]]
    assert told["segments_left_out"] == len(result.segments) - 4 > 0


def test_several_answers_come_from_generate_and_the_prompt_counts_once() -> None:
    model = chat(n=3, seed=1)
    with get_usage_metadata_callback() as counted:
        (answers,) = model.generate([[HumanMessage("hi")]]).generations
    messages = [answer.message for answer in answers]  # type: ignore[attr-defined]
    assert [message.content for message in messages] == ["The answer is 7.5."] * 3
    one = chat(seed=1).invoke("hi").usage_metadata
    assert one is not None
    assert messages[0].usage_metadata["input_tokens"] == one["input_tokens"]
    assert messages[0].usage_metadata["output_tokens"] == 3 * one["output_tokens"]
    assert [message.usage_metadata for message in messages[1:]] == [None, None]
    assert counted.usage_metadata["big+tiny"] == messages[0].usage_metadata


@pytest.mark.parametrize("n", [2, 2.0, "2"])
def test_several_answers_cannot_be_streamed(n: Any) -> None:
    for call in (lambda: chat().stream("hi", n=n), lambda: chat(model_kwargs={"n": n}).stream("hi")):
        with pytest.raises(ConfigError, match="n=2 answers cannot be streamed"):
            list(call())


def test_invoke_with_several_answers_works_where_somebody_would_like_it_streamed() -> None:
    async def events() -> list[str]:
        return [event["event"] async for event in chat(n=2, seed=1).astream_events("hi", version="v2")]

    streamed = chat(n=2, seed=1, streaming=True)
    assert streamed.invoke("hi").content == "The answer is 7.5."
    with pytest.raises(ConfigError, match="cannot be streamed"):
        asyncio.run(events())


def test_budgets_and_seed_reach_the_engine() -> None:
    model = chat(large_token_budget=5, seed=3)
    told = model.invoke("hi").response_metadata["relay"]
    assert told["tokens"]["large"] <= 5
    assert told["seed"] == 3
    assert "budget" in model.invoke("hi").response_metadata["relay"]["handoffs"]
    closed = chat(seed=1).invoke("hi", reasoning_budget=6)
    assert closed.response_metadata["relay"]["tokens"]["forced"] > 0


def test_thinking_can_be_turned_off() -> None:
    model = chat(reasoning=False)
    assert model.engine is not None
    model.invoke("hi")
    assert backend(model.engine, "large").rendered[-1][2].reasoning is False


def test_a_failure_comes_up_as_it_is_with_all_that_was_said() -> None:
    model = chat([Reply("<think>\nFirst", fail_after=2)], engine={"on_failure": "raise"})
    for call in (model.invoke, lambda text: list(model.stream(text))):
        with pytest.raises(BackendError, match="big") as failed:
            call("hi")
        assert failed.value.partial is not None
    small = chat(ScriptedBackend(MATHS, context_window=3), ScriptedBackend(MATHS, context_window=3))
    with pytest.raises(PromptTooLong, match="window"):
        small.invoke("a b c d e f")


def test_tokens_that_are_bridged_over_a_failure_count_all_the_same() -> None:
    recorder = Recorder()
    message = chat(MATHS, [Reply("x", fail_after=0)], seed=1).invoke("hi", {"callbacks": [recorder]})
    assert message.content == "The answer is 7.5."
    assert recorder.reasons[0] == "cue" != HANDOFFS_IN_MATHS[-1]
    assert message.response_metadata["relay"]["handoffs"]["fallback"] == 1


@pytest.mark.parametrize("policy", ["large-only", LargeOnly(), make_policy("relaygen", answer_role="large")], ids=str)
def test_a_call_may_choose_another_policy_by_its_name_or_by_itself(policy: Any) -> None:
    model = chat(MATHS, seed=1)
    name = policy if isinstance(policy, str) else policy.name
    for message in (model.invoke("hi", policy=policy), merged(model.stream("hi", policy=policy)), model.bind(policy=policy).invoke("hi")):
        assert message.response_metadata["relay"]["policy"] == name
        assert message.response_metadata["model_name"] == model.names.of_policy(name)
    assert model._get_ls_params(policy=policy)["ls_model_name"] == model.names.of_policy(name)
    assert message.response_metadata["relay"]["tokens"]["small"] < model.invoke("hi").response_metadata["relay"]["tokens"]["small"]


def test_two_words_on_the_policy_of_a_call_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="leave one of them out"):
        chat().invoke("hi", policy="large-only", model="large-only")


@pytest.mark.parametrize("policy", [["large-only"], 5, {}, LargeOnly], ids=str)
def test_what_is_no_policy_is_named(policy: Any) -> None:
    for call in (lambda: chat().invoke("hi", policy=policy), lambda: list(chat().stream("hi", policy=policy))):
        with pytest.raises(ConfigError, match=r"policy=.* is no policy: give the name of one \(relaygen.*or a Policy"):
            call()
    assert chat()._get_ls_params(policy=policy)["ls_model_name"] == "big+tiny"


def test_a_policy_of_the_call_is_in_the_key_of_the_cache() -> None:
    model = chat()
    large = [make_policy("relaygen", answer_role="large") for _ in range(2)]
    keys = [model._get_llm_string(policy=policy) for policy in (None, "large-only", LargeOnly(), make_policy("relaygen"), *large)]
    assert len(set(keys)) == 5
    assert keys[-1] == keys[-2]


@pytest.mark.parametrize("n", [0, -1, "many", 1.5])
def test_a_number_of_answers_that_is_none_is_the_same_error_streamed_or_not(n: Any) -> None:
    for call in (lambda: chat().invoke("hi", n=n), lambda: list(chat().stream("hi", n=n))):
        with pytest.raises(ConfigError, match="argument n: "):
            call()


def test_no_number_of_answers_is_one() -> None:
    for model in (chat(), chat(n=2)):
        assert model.invoke("hi", n=None).text == merged(model.stream("hi", n=None)).text == "The answer is 7.5."
    recorder = Recorder()
    chat(streaming=True).invoke("hi", {"callbacks": [recorder]}, n=None)
    assert len(recorder.llm[1].tokens) > 1
