"""What each model is told to sample with: defaults, overrides, seeds, penalties."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from relay_integrations import ConfigError, RelayEngine, RelayWarning, Sampling
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from relay_integrations.sampling import FAMILIES, NEUTRAL
from tests.unit.support import MATHS, backend, relay


def pair(**options: Any) -> list[ScriptedBackend]:
    vocabulary = Vocabulary()
    return [ScriptedBackend(MATHS, name=name, vocabulary=vocabulary, **options) for name in ("big", "tiny")]


def sent(engine: RelayEngine, role: str, **options: Any) -> Sampling:
    engine.generate("hi", **{"seed": 1, **options})
    (settings,) = {request.sampling for request in backend(engine, role).requests[-1:]}
    return settings


def test_every_setting_is_always_sent() -> None:
    with relay(MATHS) as engine:
        assert sent(engine, "large") == sent(engine, "small") == NEUTRAL


def test_a_models_own_defaults_come_before_the_neutral_ones() -> None:
    own = Sampling(temperature=0.6, top_p=0.95)
    with relay(*pair(sampling=own)) as engine:
        assert sent(engine, "large") == own.over(NEUTRAL)


def test_a_request_comes_before_a_models_own_and_a_roles_override_before_both() -> None:
    with relay(*pair(sampling=Sampling(temperature=0.6, top_k=20))) as engine:
        options: dict[str, Any] = {"temperature": 0.9, "small_sampling": {"temperature": 0, "min_p": 0.1}}
        assert sent(engine, "large", **options) == Sampling(temperature=0.9, top_k=20).over(NEUTRAL)
        assert sent(engine, "small", **options) == Sampling(temperature=0, top_k=20, min_p=0.1).over(NEUTRAL)


def test_the_limit_is_always_sent() -> None:
    with relay(MATHS) as engine:
        engine.generate("hi", max_tokens=100, seed=1)
        large, small = backend(engine, "large").requests, backend(engine, "small").requests
    assert [request.max_tokens for request in large[:2]] == [100, 80]
    assert small[0].max_tokens == 88, "128 tokens for a delegated sentence, and no more than are left"


# --- seeds


def seeds(engine: RelayEngine, **options: Any) -> list[int]:
    for role in ("large", "small"):
        backend(engine, role).requests.clear()
    engine.generate("hi", **options)
    return [request.seed for role in ("large", "small") for request in backend(engine, role).requests]


def test_one_seed_gives_each_segment_its_own_and_repeats_them() -> None:
    with relay(MATHS) as engine:
        first = seeds(engine, seed=7)
        assert len(set(first)) == len(first) == 6
        assert seeds(engine, seed=7) == first
        assert set(seeds(engine, seed=8)).isdisjoint(first)


def test_choices_have_seeds_of_their_own() -> None:
    with relay(MATHS) as engine:
        drawn = seeds(engine, seed=7, n=3)
    assert len(set(drawn)) == len(drawn) == 18


def test_a_request_that_is_made_again_draws_anew() -> None:
    with relay([Reply(MATHS, fail_after=3), Reply("")], MATHS, policy="large-only") as engine:
        drawn = seeds(engine, seed=7)
    assert len(set(drawn)) == len(drawn) == 2


def test_without_a_seed_one_is_drawn_and_the_result_names_it() -> None:
    with relay(MATHS) as engine:
        first, second = engine.generate("hi"), engine.generate("hi")
        assert first.seed != second.seed
        assert first.seed is not None
        assert seeds(engine, seed=first.seed) != seeds(engine, seed=second.seed)
        assert engine.generate("hi", seed=first.seed).seed == first.seed


# --- penalties


def test_penalties_go_to_backends_that_count_them_over_the_whole_output() -> None:
    with relay(MATHS) as engine:
        assert sent(engine, "small", presence_penalty=0.5).presence_penalty == 0.5
        start = {(r.output_start, tuple(r.ids[: r.output_start])) for r in backend(engine, "small").requests}
    assert len(start) == 1, "and where the output begins"


def test_a_backend_that_counts_them_anew_at_every_hop_is_a_clear_error() -> None:
    with relay(*pair(output_penalties=False)) as engine:
        for options in ({"presence_penalty": 0.5}, {"frequency_penalty": 0.5}, {"large_sampling": {"presence_penalty": 1}}):
            with pytest.raises(ConfigError, match=r'model \'big\' counts presence_penalty.*penalties="per_hop"'):
                engine.generate("hi", **options)
        assert backend(engine, "large").requests == []


def test_that_can_be_accepted() -> None:
    with relay(*pair(output_penalties=False)) as engine:
        assert sent(engine, "large", presence_penalty=0.5, penalties="per_hop").presence_penalty == 0.5


def test_no_penalty_is_no_reason_for_an_error() -> None:
    with relay(*pair(output_penalties=False)) as engine:
        sent(engine, "large", presence_penalty=0)


def test_only_the_models_that_take_part_are_asked() -> None:
    able, unable = ScriptedBackend(MATHS), ScriptedBackend(MATHS, output_penalties=False)
    with relay(able, unable, policy="large-only") as engine:
        engine.generate("hi", presence_penalty=0.5)


# --- warnings


def test_greedy_decoding_of_a_thinking_qwen3_warns() -> None:
    with relay(*pair(family="qwen3", sampling=FAMILIES["qwen3"])) as engine:
        with pytest.warns(RelayWarning, match=r"'big'.*temperature=0.6, top_p=0.95, top_k=20"):
            engine.generate("hi", large_sampling={"temperature": 0})
        with pytest.warns(RelayWarning, match="'tiny'"):
            engine.generate("hi", small_sampling={"temperature": 0})


@pytest.mark.parametrize("options", [{}, {"temperature": 0.6}, {"temperature": 0, "reasoning": False}])
def test_what_is_no_trouble_does_not_warn(options: dict[str, Any]) -> None:
    with relay(*pair(family="qwen3", sampling=FAMILIES["qwen3"])) as engine, warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.generate("hi", **options)


def test_an_unknown_pair_is_told_that_its_cues_were_not_measured() -> None:
    with pytest.warns(RelayWarning, match=r"'big' with 'tiny': the generic one.*cue_profile="):
        engine = RelayEngine(*pair())
    engine.close()


def test_a_policy_that_needs_no_cues_asks_for_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RelayEngine(*pair(), policy="all-cues").close()
        RelayEngine(*pair(), policy="random").close()
