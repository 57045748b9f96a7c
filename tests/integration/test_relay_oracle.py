"""The relay of the tiny pair gives exactly the tokens of a naive loop that knows neither caches nor matchers."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from relay_integrations import RelayEngine, RelayResult, load_profile
from relay_integrations.tiny import pair_paths
from relay_integrations.tiny.task import HELD_OUT_SEED, problems

CUES = re.compile(r"\b(" + "|".join(cue.text for cue in load_profile("tiny-stand-in").cues) + r")\b(?=\W)")
SENTENCE_END = re.compile(r"[!?]|\.(?=\W)|\n\n")
QUESTIONS = [p.question for p in problems(50, seed=HELD_OUT_SEED, steps=(1, 2))]


@pytest.fixture(scope="module")
def engine() -> Iterator[RelayEngine]:
    with RelayEngine.tiny() as engine:
        yield engine


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    paths = dict(zip(("large", "small"), pair_paths(), strict=True))
    loaded: dict[str, Any] = {role: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval() for role, path in paths.items()}
    return {**loaded, "tokenizer": AutoTokenizer.from_pretrained(paths["large"])}


def oracle(question: str, models: dict[str, Any]) -> list[int]:
    """RelayGen in a few lines: at every handoff the whole text is read anew, and every rule is a regular expression."""
    tok = models["tokenizer"]
    prompt = tok.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False)
    out: list[int] = []
    role, begin, closed = "large", 0, False
    while len(out) < 600:
        if len(out) == begin:
            cache, unread = DynamicCache(), prompt + out
        with torch.inference_mode():
            logits = models[role](input_ids=torch.tensor([unread]), cache=cache, logits_to_keep=1).logits[0, -1, : len(tok)]
        out.append(int(logits.argmax()))
        unread = out[-1:]
        if out[-1] == tok.eos_token_id:
            if closed or role == "large":
                return out
            out.pop()
            role, begin = "large", len(out)
            continue
        text = tok.decode(out[begin:])
        if not closed and "</think>" in text:
            role, begin, closed = "small", len(out), True
        elif not closed and role == "large" and CUES.search(text, len(tok.decode(out[begin : begin + 5]))):
            role, begin = "small", len(out)
        elif not closed and role == "small" and (end := SENTENCE_END.search(text)):
            while len(tok.decode(out[begin:-1])) >= end.end():
                out.pop()
            role, begin = "large", len(out)
    raise AssertionError("the oracle did not come to an end")


def ids_of(result: RelayResult) -> list[int]:
    return [token for segment in result.segments for token in segment.ids]


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_greedy_relay_equals_the_naive_oracle_on_50_problems(engine: RelayEngine, models: dict[str, Any], first: int) -> None:
    for question in QUESTIONS[first : first + 10]:
        assert ids_of(engine.generate(question)) == oracle(question, models), question


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
