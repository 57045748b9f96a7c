"""The transformers backend holds its model to a constraint: token by token what a naive loop gives, from any place on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher
from llguidance.hf import from_tokenizer

from relay_integrations import ConfigError, ConstraintFailed, NotSupported, RelayEngine, Sampling
from relay_integrations.backends.base import RenderOptions
from relay_integrations.backends.guide import MOST_KEPT, Guides
from relay_integrations.backends.lark import grammar
from relay_integrations.backends.sampler import margin_of
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.chat.constraint import Constraint, Piece, Row, constrain
from relay_integrations.chat.json_schema import closed
from relay_integrations.chat.messages import Message
from relay_integrations.chat.response_format import ResponseFormat
from relay_integrations.chat.tool_choice import ToolChoice
from relay_integrations.chat.tool_formats import HERMES, TOOL_FORMATS
from relay_integrations.tiny import OTHER_SMALL, model_path
from relay_integrations.tiny.sets import problem_set
from tests.integration.small_tokenizers import byte_level, gemma_like, llama_like, suffix_bpe, unigram
from tests.integration.support import generate, ids_of, pair_tokenizer, prompt_of, random_backend, text_of
from tests.unit.json_oracle import follows

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]},
    },
}
PICK = {
    "type": "function",
    "function": {
        "name": "pick",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "blue", "grün"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
            "required": ["colour", "count"],
        },
    },
}
WARM = Sampling(temperature=1.3, top_k=0, top_p=1.0)


def forced(*tools: dict[str, Any], parallel: bool | None = None, form: Any = HERMES) -> Constraint:
    made = constrain(tools, ToolChoice("required"), parallel, None, form)
    assert made is not None
    return made


def by_schema(schema: Any) -> Constraint:
    return Constraint((Row((Piece("", json.dumps(closed(schema)), "", "it"),)),))


def asked(backend: TransformersBackend, tools: Sequence[dict[str, Any]], question: str = "What is the weather in Oslo?") -> list[int]:
    prompt = asyncio.run(backend.render([Message(role="user", content=question)], list(tools), RenderOptions(reasoning=False)))
    return list(prompt.ids)


def held(
    backend: TransformersBackend, ids: Sequence[int], constraint: Constraint, n: int = 120, start: int | None = None, **more: Any
) -> list[Any]:
    """The chunks of a request that has to follow the constraint from the end of `ids`, or from `start`."""
    return generate(backend, ids, n, constraint=constraint, constraint_start=len(ids) if start is None else start, **more)


def naive(backend: TransformersBackend, ids: list[int], constraint: Constraint, n: int = 120) -> list[int]:
    """Greedy decoding under a mask that is worked out anew for each token, from all that was written."""
    tokenizer = backend._tokenizer
    vocabulary = from_tokenizer(tokenizer)
    text = grammar(constraint, tokenizer.get_added_vocab())
    written: list[int] = []
    while len(written) < n and (not written or written[-1] != tokenizer.eos_token_id):
        matcher = LLMatcher(vocabulary, text)
        assert matcher.consume_tokens(written)
        with torch.inference_mode():
            logits = backend._runner._model(input_ids=torch.tensor([ids + written]), use_cache=False).logits[0, -1, : len(tokenizer)]
        allowed = [bias > 0 for bias in matcher.compute_logit_bias()][: len(tokenizer)]
        written.append(max((i for i in range(len(tokenizer)) if allowed[i]), key=lambda i: float(logits[i])))
    return written


# --- what it writes


@pytest.mark.parametrize("question", ["What is the weather in Oslo?", "Use pick for red, 7.", "Tell me a joke about cats."])
def test_a_forced_call_equals_the_naive_oracle(large: TransformersBackend, question: str) -> None:
    ids, constraint = asked(large, [WEATHER, PICK], question), forced(WEATHER, PICK)
    assert ids_of(held(large, ids, constraint)) == naive(large, ids, constraint)


def by_enumeration(backend: TransformersBackend, ids: list[int], texts: list[str]) -> str:
    """Greedy decoding of one of these texts, without any grammar: a token may come where some text goes on with it."""
    tokenizer, added = backend._tokenizer, backend._tokenizer.get_added_vocab()
    marks = {mark: chr(0xE000 + number) for number, mark in enumerate(added)}  # a mark is written by its own token alone
    for mark, sign in marks.items():
        texts = [text.replace(mark, sign) for text in texts]
    signs = {added[mark]: sign for mark, sign in marks.items()}
    shown = [signs.get(token) or tokenizer.decode([token]) for token in range(len(tokenizer))]
    written: list[int] = []
    so_far = ""
    while not written or written[-1] != tokenizer.eos_token_id:
        with torch.inference_mode():
            logits = backend._runner._model(input_ids=torch.tensor([ids + written]), use_cache=False).logits[0, -1]  # type: ignore[union-attr]
        allowed = [t for t, text in enumerate(shown) if text and any(whole.startswith(so_far + text) for whole in texts)]
        allowed += [tokenizer.eos_token_id] * (so_far in texts)
        written.append(max(allowed, key=lambda token: float(logits[token])))
        so_far += shown[written[-1]]
    return asyncio.run(backend.decode(written))


@pytest.mark.parametrize("question", ["Use pick for red, 7.", "What does find say about blue, 31?"])
def test_a_choice_among_few_calls_equals_one_by_enumeration(large: TransformersBackend, question: str) -> None:
    values, names, counts = ["red", "blue"], ["pick", "find"], [7, 31]
    parameters = {
        "type": "object",
        "properties": {"colour": {"enum": values}, "count": {"enum": counts}},
        "required": ["colour", "count"],
    }
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]
    texts = [
        breaks + f'<tool_call>\n{{"name": "{name}", "arguments": {{"colour": "{value}", "count": {count}}}}}\n</tool_call>'
        for breaks in ("", "\n", "\n\n")
        for name in names
        for value in values
        for count in counts
    ]
    ids = asked(large, tools, question)
    # The text, not the ids: where only one text is left, llguidance spells it as the tokenizer would.
    assert text_of(held(large, ids, forced(*tools, parallel=False))) == by_enumeration(large, ids, texts)


@pytest.mark.parametrize("after", [1, 3, 8, 15, 22])
def test_a_request_may_go_on_in_the_middle(small: TransformersBackend, after: int) -> None:
    ids, constraint = asked(small, [PICK]), forced(PICK)
    whole = ids_of(held(small, ids, constraint))
    rest = ids_of(held(small, ids + whole[:after], constraint, start=len(ids), output_start=len(ids)))
    assert whole[:after] + rest == whole


def test_what_was_not_allowed_cannot_go_on(small: TransformersBackend) -> None:
    ids = asked(small, [PICK])
    with pytest.raises(RuntimeError, match="does not follow its constraint"):
        held(small, [*ids, *asyncio.run(small.encode("Hello"))], forced(PICK), start=len(ids), output_start=len(ids))


def test_the_turn_ends_exactly_where_the_constraint_is_met(large: TransformersBackend) -> None:
    ids = asked(large, [WEATHER])
    chunks = held(large, ids, forced(WEATHER, parallel=False))
    assert chunks[-1].finish == "eos"
    assert text_of(chunks).endswith("}\n</tool_call>")
    written, ends = ids_of(chunks)[:-1], list(large.capabilities.eos_ids)
    for count in range(len(written) + 1):
        allowed = large._guides.begin(forced(WEATHER, parallel=False), written[:count]).allowed(torch.device("cpu"))
        assert bool(allowed[ends].any()) == (count == len(written))


def test_margins_are_those_of_the_model_without_the_constraint(small: TransformersBackend) -> None:
    ids = asked(small, [PICK])
    (chunk,) = held(small, ids, forced(PICK), 1, top2=True)
    with torch.inference_mode():
        logits = small._runner._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1, : small._vocabulary.size]
    assert chunk.margins == pytest.approx((margin_of(logits),))


def test_a_constraint_changes_nothing_that_satisfies_it_already(large: TransformersBackend) -> None:
    same = 0
    for problem in problem_set("calculator", 8):
        tools = list(problem.tools)
        ids = asked(large, tools, problem.question)
        free = generate(large, ids, 120)
        text = text_of(free)
        if text.startswith("<tool_call>") and text.endswith("</tool_call>"):
            assert ids_of(held(large, ids, forced(*tools))) == ids_of(free)
            same += 1
    assert same >= 3


def test_a_schema_without_an_end_is_an_error_of_the_request_and_no_failure_of_a_model() -> None:
    endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "endless", "schema": endless}}
    with RelayEngine.tiny() as engine:
        for _ in range(4):
            with pytest.raises((ConstraintFailed, ConfigError), match="recursive"):
                engine.generate("hi", response_format=form, reasoning=False, max_tokens=100)
        assert engine.health.available("large")
        assert engine.health.available("small")


def test_line_breaks_may_stand_in_front_and_no_more_than_two(large: TransformersBackend) -> None:
    constraint, ids = by_schema({"const": 1}), prompt_of(large)
    for text, fits in (("", True), ("\n", True), ("\n\n", True), ("\n\n\n", False), (" ", False)):
        written = asyncio.run(large.encode(text))
        try:
            assert text_of(held(large, ids + written, constraint, start=len(ids), output_start=len(ids))).strip() == "1"
        except RuntimeError:
            assert not fits
        else:
            assert fits


# --- schemas


SCHEMAS: dict[str, Any] = {
    "nested": {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"enum": [1, "é", None]}}, "required": ["b"]}, "c": {"type": "boolean"}},
        "required": ["a", "c"],
    },
    "list": {"type": "array", "items": {"type": "integer", "minimum": -9, "maximum": 9}, "minItems": 2, "maxItems": 3},
    "references": {
        "$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}},
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/P"}, "q": {"type": "array", "items": {"$ref": "#/$defs/P"}, "maxItems": 2}},
        "required": ["p", "q"],
        "additionalProperties": False,
    },
    "strings": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3},
    "pattern": {"type": "string", "pattern": "^[a-c]{2,4}$"},
    "null or number": {"type": ["integer", "null"]},
    "path": {"type": "string", "format": "path", "maxLength": 4},
}


@pytest.mark.parametrize("sampling", [{}, {"sampling": WARM, "seed": 3}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_json_follows_its_schema(large: TransformersBackend, small: TransformersBackend, schema: Any, sampling: dict[str, Any]) -> None:
    for backend in (large, small):
        chunks = held(backend, prompt_of(backend), by_schema(schema), 300, **sampling)
        assert chunks[-1].finish == "eos"
        assert follows(json.loads(text_of(chunks)), schema)


RECURSION = {
    "$defs": {
        "N": {
            "type": "object",
            "properties": {"v": {"enum": ["你好", "🎉"]}, "next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}},
            "required": ["v", "next"],
        }
    },
    "$ref": "#/$defs/N",
}
FURTHER = {"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (RECURSION, '{"v": "你好", "next": {"v": "🎉", "next": null}}'),
        (RECURSION, '{"v": "你好", "next": {"v": "x", "next": null}}'),
        (RECURSION, '{"v": "你好", "next": {"v": "🎉"}}'),
        (FURTHER, '{"a": 1, "b": 2, "ü": -3}'),
        (FURTHER, '{"b": 2}'),
        (FURTHER, "{}"),
        (FURTHER, '{"a": 2}'),
        (FURTHER, '{"a": 1, "b": "x"}'),
        ({"type": "object"}, '{"x": [1, {"y": null}], "z": "</tool"}'),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, '{"b": 1}'),
        ({"properties": {"a": {"type": "string"}}, "type": "object", "additionalProperties": True}, '{"b": 1}'),
        ({"type": "string"}, '"a\\"b\\\\ \\n 🎉"'),
        ({"type": "integer"}, "123456789012345678"),
        ({"type": "number"}, "-1.5e-3"),
        ({"type": "string", "format": "date"}, '"2024-02-28"'),
        ({"type": "string", "format": "date"}, '"today"'),
    ],
    ids=str,
)
def test_exactly_the_json_that_follows_a_schema_can_be_written(small: TransformersBackend, schema: Any, text: str) -> None:
    guides = small._guides
    fits = follows(json.loads(text), closed(schema)) and "today" not in text
    try:
        allowed = guides.begin(by_schema(schema), asyncio.run(small.encode(text))).allowed(torch.device("cpu"))
    except RuntimeError:
        assert not fits
    else:
        assert bool(allowed[list(small.capabilities.eos_ids)].any()) == fits


LEAF = st.one_of(
    st.fixed_dictionaries({"type": st.just("string"), "maxLength": st.integers(0, 5)}),
    st.fixed_dictionaries({"type": st.just("integer"), "minimum": st.integers(-20, 0), "maximum": st.integers(1, 2000)}),
    st.lists(st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3)), min_size=1, max_size=3, unique_by=repr).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["null", "boolean"]}]),
)
NAMES = st.text(min_size=1, max_size=4)
SCHEMA = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.builds(
            lambda properties, optional: {
                "type": "object",
                "properties": properties,
                "required": [name for number, name in enumerate(properties) if number >= optional],
                "additionalProperties": False,
            },
            st.dictionaries(NAMES, inner, max_size=3),
            st.integers(0, 2),
        ),
        st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(0, 3)),
        st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options}),
    ),
    max_leaves=5,
)


@given(schema=SCHEMA, seed=st.integers(0, 2**31))
@settings(max_examples=40)
def test_any_small_schema_is_followed(small: TransformersBackend, schema: Any, seed: int) -> None:
    chunks = held(small, prompt_of(small)[:5], by_schema(schema), 400, sampling=WARM, seed=seed)
    assert chunks[-1].finish == "eos"
    assert follows(json.loads(text_of(chunks)), schema)


def test_an_object_of_any_kind_is_an_object(small: TransformersBackend) -> None:
    form = ResponseFormat.read({"type": "json_object"})
    constraint = constrain([], ToolChoice(), None, form, HERMES)
    assert constraint is not None
    chunks = held(small, prompt_of(small), constraint, 40)
    assert text_of(chunks).lstrip("\n").startswith("{")


# --- tokenizers and formats of other kinds


@pytest.mark.parametrize("form", TOOL_FORMATS.values(), ids=TOOL_FORMATS)
def test_calls_are_written_in_the_models_format_and_read_again(form: Any) -> None:
    tokenizer = pair_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["[TOOL_CALLS]", "[ARGS]", "<|python_tag|>"]})
    tokenizer.chat_template = tokenizer.chat_template.replace("<tool_call>", "")
    pair = [random_backend(tokenizer, form.name, max_position_embeddings=2048) for _ in "LS"]
    with RelayEngine(*pair, policy="large-only") as engine:
        for seed in range(3):
            result = engine.generate("hi", tools=[PICK, WEATHER], tool_choice="any", parallel_tool_calls=False, seed=seed, temperature=1.5)
            (call,) = result.tool_calls
            assert (call.valid, result.text, result.finish_reason) == (True, "", "tool_calls")
            assert result.segments[-1].text.strip().startswith(form.opening + form.before_arguments(call.name))
            wanted = next(t for t in (PICK, WEATHER) if t["function"]["name"] == call.name)["function"]["parameters"]
            assert follows(json.loads(call.arguments), wanted)


@pytest.mark.parametrize("make", [lambda: byte_level(False), lambda: byte_level(True), llama_like, lambda: llama_like("first"), gemma_like])
def test_tokenizers_of_other_kinds(make: Any) -> None:
    backend = random_backend(make())
    ids = [1, 2, 3]
    call = held(backend, ids, forced(PICK, parallel=False), 200, sampling=WARM, seed=5)
    answer = held(backend, ids, by_schema(SCHEMAS["strings"]), 200, sampling=WARM, seed=5)
    assert call[-1].finish == answer[-1].finish == "eos"
    read = json.loads(text_of(call).strip().removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
    assert follows(read["arguments"], PICK["function"]["parameters"])  # type: ignore[index]
    assert follows(json.loads(text_of(answer)), SCHEMAS["strings"])
    # The same text in ids of another making, as it comes from a model with another tokenizer.
    begun = asyncio.run(backend.encode(text_of(call)[:30]))
    rest = held(backend, [*ids, *begun], forced(PICK, parallel=False), 200, start=3, output_start=3, sampling=WARM, seed=6)
    read = json.loads((text_of(call)[:30] + text_of(rest)).strip().removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
    assert follows(read["arguments"], PICK["function"]["parameters"])  # type: ignore[index]


@pytest.mark.parametrize("make", [unigram, suffix_bpe])
def test_a_tokenizer_that_cannot_be_read_is_a_clear_error(make: Any) -> None:
    with pytest.raises(NotSupported, match="does not support constrained output: its tokenizer cannot be read"):
        asyncio.run(random_backend(make()).check_constraint(forced(PICK)))


# --- what cannot be followed


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "array", "uniqueItems": True}, r'Unimplemented keys: \["uniqueItems"\]'),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"$ref": "#/$defs/none"}, "Pointer '/\\$defs/none' does not exist"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "Unsatisfiable schema"),
        ({"type": "nonsense"}, "Invalid type: nonsense"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_followed_is_named_before_anything_is_generated(schema: Any, says: str) -> None:
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "report", "schema": parameters}}
    bad = {"type": "function", "function": {"name": "bad", "parameters": parameters}}
    with RelayEngine.tiny(policy="large-only") as engine:
        with pytest.raises(ConfigError, match=rf"the schema of tool 'bad' cannot be followed by 'relay-tiny-large': .*{says}") as caught:
            engine.generate("hi", tools=[WEATHER, bad], tool_choice="required")
        assert "\n" not in str(caught.value)
        assert "x-guidance" not in str(caught.value)
        with pytest.raises(ConfigError, match="the schema of response_format report cannot be followed"):
            list(engine.stream("hi", response_format=form))


def test_without_llguidance_the_error_says_what_to_install(small: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    guides = Guides(small._tokenizer, small._vocabulary.size, small.capabilities.eos_ids, "m")
    with pytest.raises(ConfigError, match=r"need llguidance: pip install 'relay-integrations\[transformers\]'"):
        guides.check(forced(PICK))


def test_constraints_are_compiled_once_and_the_oldest_are_forgotten(small: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Constraint] = []
    monkeypatch.setattr(Guides, "_compile", lambda self, constraint: compiled.append(constraint) or object())
    guides = Guides(small._tokenizer, small._vocabulary.size, small.capabilities.eos_ids, "m")
    first = by_schema({"const": -1})
    for _ in "ab":
        guides.check(first)
    assert compiled == [first]
    for number in range(MOST_KEPT):
        guides.check(by_schema({"const": number}))
    guides.check(by_schema({"const": 0}))
    assert len(compiled) == MOST_KEPT + 1
    guides.check(first)
    assert len(compiled) == MOST_KEPT + 2


def test_each_model_says_how_it_writes_calls(large: TransformersBackend) -> None:
    assert large.capabilities.tool_format == HERMES
    assert large.capabilities.constraints
    paths = (model_path(OTHER_SMALL), model_path(OTHER_SMALL))
    options: dict[str, Any] = {"tool_format": "llama", "small_options": {"tool_format": "mistral"}, "policy": "large-only"}
    with RelayEngine.from_pretrained(*paths, dtype="float32", device="cpu", **options) as engine:
        assert [backend.capabilities.tool_format.name for backend in engine.backends.values()] == ["llama", "mistral"]
    with pytest.raises(ConfigError, match="unknown tool_format 'gpt'; there are: hermes, llama"):
        TransformersBackend(large._runner._model, large._tokenizer, tool_format="gpt")  # type: ignore[union-attr]
