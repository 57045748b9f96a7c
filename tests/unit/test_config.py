"""Settings are checked where they enter, and an error names the setting to change."""

from __future__ import annotations

from typing import Any

import pytest

from relay_integrations import ConfigError, FailureRules, NotSupported, Prices, RelayEngine, RelayError, RequestOptions, Sampling
from relay_integrations.backends import backend_class
from relay_integrations.backends.scripted import ScriptedBackend
from relay_integrations.config import read_failure_rules, read_options
from relay_integrations.sampling import NEUTRAL, derive_seed, family_of
from tests.unit.support import relay

# --- the options of a request


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": -1}, "argument temperature"),
        ({"top_p": 0}, "argument top_p"),
        ({"top_p": 1.1}, "argument top_p"),
        ({"top_k": -1}, "argument top_k"),
        ({"min_p": 2}, "argument min_p"),
        ({"presence_penalty": 3}, "argument presence_penalty"),
        ({"max_tokens": 0}, "argument max_tokens"),
        ({"n": 0}, "argument n"),
        ({"seed": -1}, "argument seed"),
        ({"stop": ["a", ""]}, "argument stop: .*cannot be empty"),
        ({"stop": 5}, "argument stop"),
        ({"stop": ["a", "\ud83d"]}, "argument stop: .*surrogate"),
        ({"reasoning": "maybe"}, "argument reasoning"),
        ({"penalties": "never"}, "argument penalties"),
        ({"large_sampling": {"heat": 1}}, r"unknown argument 'large_sampling.heat'"),
        ({"large_token_budget": -1}, "argument large_token_budget"),
        ({"large_token_budget": 12.5}, "argument large_token_budget: .*a share"),
        ({"large_token_budget": 0.5}, "large_token_budget as a share needs max_tokens"),
        ({"reasoning_budget": -1}, "argument reasoning_budget"),
        ({"max_token": 5}, r"unknown argument 'max_token'; known: .*max_tokens"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_options(**options)


def test_a_request_is_checked_before_anything_runs() -> None:
    with relay("a") as engine:
        for call in (engine.generate, engine.stream, engine.astream):
            with pytest.raises(ConfigError, match="unknown argument 'max_token'"):
                call("hi", max_token=5)
        assert engine.backends["large"].requests == []  # type: ignore[attr-defined]


def test_one_stop_sequence_may_come_as_a_string() -> None:
    assert read_options(stop="END").stop == ("END",)
    assert read_options(stop=["a", "b"]).stop == ("a", "b")
    assert read_options(stop=None).stop == ()


@pytest.mark.parametrize(
    ("budget", "total", "tokens"),
    [(None, None, None), (0, None, 0), (0.0, None, 0), (100, None, 100), (100.0, None, 100), (0.5, 100, 50), (0.25, 10, 2), (0.3, 10, 3)],
)
def test_a_share_of_the_tokens_becomes_tokens(budget: Any, total: int | None, tokens: int | None) -> None:
    assert read_options(large_token_budget=budget, max_tokens=total).large_budget() == tokens


# --- sampling


def test_a_roles_override_comes_before_the_request_and_that_before_the_models_own() -> None:
    options = RequestOptions(temperature=0.5, top_k=40, large_sampling=Sampling(temperature=0.2))
    own = Sampling(temperature=0.6, top_p=0.95)
    assert options.sampling("large", own) == Sampling(temperature=0.2, top_p=0.95, top_k=40)
    assert options.sampling("small", own) == Sampling(temperature=0.5, top_p=0.95, top_k=40)


def test_zero_is_a_setting_not_an_absence() -> None:
    assert RequestOptions(temperature=0).sampling("large", Sampling(temperature=0.6)).temperature == 0
    assert Sampling(temperature=0).greedy
    assert not Sampling().greedy


def test_the_neutral_settings_leave_no_field_open() -> None:
    assert None not in NEUTRAL.model_dump().values()


def test_seeds_are_distinct_and_repeatable() -> None:
    seeds = {derive_seed(1, c, s, r) for c in range(3) for s in range(50) for r in range(3)}
    assert len(seeds) == 3 * 50 * 3
    assert derive_seed(1, 0, 5, 1) == derive_seed(1, 0, 5, 1) != derive_seed(2, 0, 5, 1)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_family_is_known_by_the_models_name() -> None:
    assert family_of("Qwen/Qwen3-32B") == "qwen3"
    assert family_of("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B") == "deepseek-r1"
    assert family_of("HuggingFaceTB/SmolLM2-135M") is None


# --- failures and prices


def test_one_word_on_failure_is_for_both_roles() -> None:
    assert read_failure_rules("raise") == FailureRules(large="raise", small="raise")
    assert read_failure_rules({"small": "raise", "retries": 3}) == FailureRules(small="raise", retries=3)
    assert read_failure_rules(None) == FailureRules()
    assert FailureRules().large == FailureRules().small == "continue"


@pytest.mark.parametrize(
    ("rules", "says"),
    [("retry", "on_failure"), ({"medium": "raise"}, "unknown on_failure 'medium'.*large"), ({"retries": -1}, "on_failure retries")],
)
def test_what_is_wrong_with_failure_rules_is_said(rules: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_failure_rules(rules)


def test_a_price_counts_cached_tokens_apart_where_it_says_so() -> None:
    assert Prices(input=1, output=2).cost(sent=1_000_000, cached=400_000, generated=500_000) == pytest.approx(2.0)
    assert Prices(input=1, output=2, cached_input=0.1).cost(1_000_000, 400_000, 0) == pytest.approx(0.64)
    assert Prices(input=1, output=2, cached_input=0.1).cost(1_000_000, None, 0) == pytest.approx(1.0)


# --- the engine's own settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"policy": "relay"}, "unknown policy 'relay'"),
        ({"policy": 5}, "policy must be a name or a Policy, not int"),
        ({"on_failure": "retry"}, "on_failure"),
        ({"prices": {"medium": {"input": 1, "output": 1}}}, "prices has an unknown role 'medium'"),
        ({"prices": {"large": {"input": 1}}}, r"prices\['large'\] output"),
        ({"cue_profile": "nope"}, "no cue profile named 'nope'"),
    ],
)
def test_what_is_wrong_with_an_engines_settings_is_said(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        relay("a", **settings)


def test_a_name_where_a_backend_belongs_shows_the_way() -> None:
    with pytest.raises(ConfigError, match=r"large must be a Backend, not str; RelayEngine.from_pretrained"):
        RelayEngine("qwen", ScriptedBackend())  # type: ignore[arg-type]


def test_what_a_backend_lacks_names_backend_and_feature() -> None:
    error = NotSupported("my-model", "scoring", "use another")
    assert (error.backend, error.feature) == ("my-model", "scoring")
    assert str(error) == "backend 'my-model' does not support scoring: use another"
    assert isinstance(error, RelayError)
    assert isinstance(error, NotImplementedError)


@pytest.mark.parametrize(("share", "total", "tokens"), [(0.29, 100, 29), (0.57, 100, 57), (0.5, 7, 3), (0.999, 1000, 999)])
def test_a_share_of_max_tokens_is_exact_and_rounded_down(share: float, total: int, tokens: int) -> None:
    assert read_options(large_token_budget=share, max_tokens=total).large_budget() == tokens


def test_a_share_of_one_is_not_taken_for_one_token() -> None:
    with pytest.raises(ConfigError, match="less than 1"):
        read_options(large_token_budget=1.0, max_tokens=10)


def test_every_kind_of_backend_is_known_by_name_and_an_unknown_one_is_said() -> None:
    assert issubclass(backend_class("scripted"), ScriptedBackend)
    with pytest.raises(ConfigError, match=r"unknown backend 'llamafile'; there are: scripted, transformers"):
        RelayEngine.from_pretrained("a", "b", backend="llamafile")
    with pytest.raises(NotSupported, match="ScriptedBackend"):
        RelayEngine.from_pretrained("a", "b", backend="scripted")
