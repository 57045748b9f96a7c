"""Sampling settings: which default applies, what is refused, and seeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from relay_integrations.sampling import FAMILIES, NEUTRAL, Sampling, derive_seed, family_of

FIELDS = st.fixed_dictionaries(
    {
        "temperature": st.none() | st.floats(0, 2),
        "top_p": st.none() | st.floats(0.1, 1),
        "top_k": st.none() | st.integers(0, 50),
        "min_p": st.none() | st.floats(0, 1),
        "presence_penalty": st.none() | st.floats(-2, 2),
        "frequency_penalty": st.none() | st.floats(-2, 2),
    }
)
SAMPLINGS = FIELDS.map(lambda fields: Sampling(**fields))


@given(request=SAMPLINGS, model=SAMPLINGS)
def test_the_first_that_says_something_counts(request: Sampling, model: Sampling) -> None:
    merged = request.over(model).over(NEUTRAL)
    for name in Sampling.model_fields:
        said = [getattr(s, name) for s in (request, model, NEUTRAL) if getattr(s, name) is not None]
        assert getattr(merged, name) == said[0]


@given(a=SAMPLINGS, b=SAMPLINGS, c=SAMPLINGS)
def test_merging_is_associative_and_nothing_changes_nothing(a: Sampling, b: Sampling, c: Sampling) -> None:
    assert a.over(b).over(c) == a.over(b.over(c))
    assert a.over(Sampling()) == Sampling().over(a) == a


def test_zero_is_a_setting_not_a_gap() -> None:
    merged = Sampling(temperature=0, top_k=0, presence_penalty=0).over(Sampling(temperature=1, top_k=20, presence_penalty=1))
    assert (merged.temperature, merged.top_k, merged.presence_penalty) == (0, 0, 0)


def test_greedy_and_penalised() -> None:
    assert Sampling(temperature=0).greedy
    assert not Sampling(temperature=0.1).greedy
    assert not Sampling().greedy
    assert Sampling(presence_penalty=-1).penalised
    assert Sampling(frequency_penalty=0.1).penalised
    assert not Sampling(presence_penalty=0, frequency_penalty=0.0).penalised
    assert not NEUTRAL.penalised


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"min_p": 2},
        {"presence_penalty": 3},
        {"frequency_penalty": -3},
        {"max_tokens": 5},
    ],
)
def test_settings_out_of_range_and_unknown_ones_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Sampling(**wrong)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen/Qwen3-8B", "qwen3"),
        ("qwen3-0.6b-instruct", "qwen3"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "deepseek-r1"),
        ("someone/R1-Distill-Llama", "deepseek-r1"),
        ("Qwen/Qwen2.5-7B", None),
        ("relay-tiny-large", None),
        ("", None),
    ],
)
def test_family_of_a_name(name: str, family: str | None) -> None:
    assert family_of(name) == family
    assert family is None or family in FAMILIES


def test_no_family_is_greedy() -> None:
    assert not any(sampling.greedy for sampling in FAMILIES.values())


@given(seed=st.integers(0, 2**63), a=st.tuples(*[st.integers(0, 300)] * 3), b=st.tuples(*[st.integers(0, 300)] * 3))
def test_seeds_of_different_requests_differ_and_repeat(seed: int, a: tuple[int, int, int], b: tuple[int, int, int]) -> None:
    assert 0 <= derive_seed(seed, *a) < 2**31
    assert derive_seed(seed, *a) == derive_seed(seed, *a)
    assert (derive_seed(seed, *a) == derive_seed(seed, *b)) == (a == b)


def test_neighbouring_seeds_share_no_request_seeds() -> None:
    drawn = [derive_seed(seed, choice, segment, 0) for seed in range(10) for choice in range(4) for segment in range(50)]
    assert len(set(drawn)) == len(drawn)
