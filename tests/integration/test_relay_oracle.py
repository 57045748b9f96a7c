"""The relay of the tiny models gives exactly the tokens of a naive loop that knows neither caches nor matchers."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from relay_integrations import RelayEngine, RelayResult, load_profile, make_policy
from relay_integrations.backends.base import Chunk, GenerateRequest
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.tiny import LARGE, OTHER_SMALL, SMALL, model_path
from relay_integrations.tiny.tasks import problems

SENTENCE_END = re.compile(r"[!?]|\.(?=\W)|\n\n")
QUESTIONS = [p.question for p in problems(50, steps=(1, 2))]


@pytest.fixture(scope="module")
def engine() -> Iterator[RelayEngine]:
    with RelayEngine.tiny() as engine:
        yield engine


@dataclass(frozen=True)
class Model:
    """A model and its tokenizer."""

    network: Any
    tokenizer: Any

    @classmethod
    def load(cls, name: str) -> Model:
        path = model_path(name)
        return cls(AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(path))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids)
        return text

    def prompt(self, question: str) -> list[int]:
        messages = [{"role": "user", "content": question}]
        ids: list[int] = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return ids


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    return {name: Model.load(name) for name in (LARGE, SMALL, OTHER_SMALL)}


def oracle(question: str, large: Model, small: Model, profile: str) -> list[tuple[str, int]]:
    """RelayGen in a few lines: at every handoff all is read anew, and every rule is a regular expression.

    Where the tokenizers differ, each model has read the other's segments as their text, encoded by its own tokenizer.
    """
    cues = re.compile(r"\b(" + "|".join(cue.text for cue in load_profile(profile).cues) + r")\b(?=\W)")
    pair = {"large": large, "small": small}
    read = {role: model.prompt(question) for role, model in pair.items()}
    shared = large.tokenizer.get_vocab() == small.tokenizer.get_vocab()
    out: list[tuple[str, int]] = []
    role, closed = "large", False
    segment: list[int] = []

    def hand_to(other: str) -> None:
        nonlocal role, segment
        read[role] += segment
        read[other] += segment if shared else pair[other].encode(pair[role].decode(segment))
        out.extend((role, token) for token in segment)
        role, segment = other, []

    while len(out) < 600:
        model = pair[role]
        if not segment:
            cache, unread = DynamicCache(), list(read[role])
        with torch.inference_mode():
            logits = model.network(input_ids=torch.tensor([unread]), cache=cache, logits_to_keep=1).logits[0, -1, : len(model.tokenizer)]
        segment.append(int(logits.argmax()))
        unread = segment[-1:]
        if segment[-1] == model.tokenizer.eos_token_id:
            if closed or role == "large":
                return [*out, *((role, token) for token in segment)]
            segment.pop()
            hand_to("large")
            continue
        text = model.decode(segment)
        if not closed and "</think>" in text:
            closed = True
            if role == "large":
                hand_to("small")
        elif not closed and role == "large" and cues.search(text, len(model.decode(segment[:5]))):
            hand_to("small")
        elif not closed and role == "small" and (end := SENTENCE_END.search(text)):
            while len(model.decode(segment[:-1])) >= end.end():
                segment.pop()
            hand_to("large")
    raise AssertionError("the oracle did not come to an end")


def written(result: RelayResult) -> list[tuple[str, int]]:
    return [(segment.role, token) for segment in result.segments for token in segment.ids]


def ids_of(result: RelayResult) -> list[int]:
    return [token for segment in result.segments for token in segment.ids]


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_greedy_relay_equals_the_naive_oracle(engine: RelayEngine, models: dict[str, Model], first: int) -> None:
    for question in QUESTIONS[first : first + 10]:
        assert written(engine.generate(question)) == oracle(question, models[LARGE], models[SMALL], "tiny"), question


def test_a_relay_across_tokenizers_equals_the_naive_oracle(models: dict[str, Model]) -> None:
    with RelayEngine.tiny(small=OTHER_SMALL) as engine:
        for question in QUESTIONS[:20]:
            result = engine.generate(question)
            assert written(result) == oracle(question, models[LARGE], models[OTHER_SMALL], "tiny-other"), question
            assert len(result.handoffs) >= 3


def test_no_text_is_lost_at_a_thousand_seams_between_tokenizers() -> None:
    requests: list[tuple[TransformersBackend, GenerateRequest]] = []

    class Noting(TransformersBackend):
        async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
            requests.append((self, request))
            async for chunk in super().generate(request):
                yield chunk

    large, small = (Noting.from_pretrained(model_path(name), dtype="float32") for name in (LARGE, OTHER_SMALL))
    policy = make_policy("schedule", segments=[("large", 3), ("small", 2)])
    seams = 0
    with RelayEngine(large, small, policy=policy) as engine:
        for number, question in enumerate(QUESTIONS):
            requests.clear()
            result = engine.generate(question, max_tokens=300, temperature=1.0, seed=number)
            texts = [segment.text for segment in result.segments]
            for hop, (backend, request) in enumerate(requests):
                seen = asyncio.run(backend.decode(request.ids[request.output_start :]))
                assert seen == "".join(texts[:hop]), f"hop {hop} of {question!r}"
            seams += len(result.handoffs)
            if seams >= 1000:
                break
    assert seams >= 1000


def test_relays_at_once_equal_relays_one_by_one(engine: RelayEngine) -> None:
    questions = QUESTIONS[:4]
    alone = [ids_of(engine.generate(q)) for q in questions]
    with ThreadPoolExecutor(4) as threads:
        assert [ids_of(r) for r in threads.map(engine.generate, questions)] == alone

    async def together() -> list[RelayResult]:
        return await asyncio.gather(*(engine.agenerate(q) for q in questions))

    assert [ids_of(r) for r in asyncio.run(together())] == alone


def test_sampled_relay_repeats_exactly_with_its_seed_and_differs_with_another(engine: RelayEngine) -> None:
    sampled = {"temperature": 1.5, "top_p": 1.0, "top_k": 0, "max_tokens": 200}
    first = engine.generate(QUESTIONS[0], seed=7, **sampled)
    assert ids_of(engine.generate(QUESTIONS[0], seed=7, **sampled)) == ids_of(first)
    assert ids_of(engine.generate(QUESTIONS[0], seed=8, **sampled)) != ids_of(first)
    drawn = engine.generate(QUESTIONS[0], **sampled)
    assert ids_of(engine.generate(QUESTIONS[0], seed=drawn.seed, **sampled)) == ids_of(drawn)


def test_choices_of_one_request_differ_and_the_first_is_that_of_a_single_request(engine: RelayEngine) -> None:
    sampled = {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "max_tokens": 60, "seed": 3}
    three = engine.generate(QUESTIONS[1], n=3, **sampled)
    texts = [choice.reasoning + choice.text for choice in three.choices]
    assert len(set(texts)) == 3
    assert texts[0] == (one := engine.generate(QUESTIONS[1], **sampled)).reasoning + one.text
    assert three.usage.prompt_tokens == one.usage.prompt_tokens


def test_each_hop_feeds_a_model_only_what_the_other_one_wrote(engine: RelayEngine) -> None:
    result = engine.generate(QUESTIONS[2])
    seen: dict[str, int] = {"large": 1, "small": 1}
    position = result.usage.prompt_tokens
    for segment in result.segments:
        assert segment.sent_tokens == position
        # all that this model has read or written before; its last id may not have been fed yet
        assert segment.cached_tokens is not None
        assert seen[segment.role] - 1 <= segment.cached_tokens <= seen[segment.role]
        position += segment.tokens
        seen[segment.role] = position


@pytest.mark.parametrize("ends", ["break", "pass", "raise SystemExit(0)"])
def test_a_process_may_end_while_a_model_is_generating(ends: str) -> None:
    program = f"""
from relay_integrations import RelayEngine
engine = RelayEngine.tiny()
stream = engine.stream("Mia has 55 coins. How many?", max_tokens=900, policy="large-only", reasoning=None)
for number, event in enumerate(stream):
    if number == 5:
        {ends}
    if number == 6:
        break
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
