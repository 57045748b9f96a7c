"""Generation by the transformers backend: ids, caches, turns, scores."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch
from transformers import Lfm2Config, Lfm2ForCausalLM

from relay_integrations.backends import transformers as module
from relay_integrations.backends.base import Chunk
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.errors import ConfigError, PromptTooLong
from tests.integration.support import (
    QUESTIONS,
    chunks_of,
    generate,
    ids_of,
    naive,
    pair_tokenizer,
    prompt_of,
    random_backend,
    request,
    text_of,
)


def test_greedy_equals_reading_everything_anew(large: TransformersBackend, small: TransformersBackend) -> None:
    for backend in (large, small):
        for question in QUESTIONS[:2]:
            prompt = prompt_of(backend, question)
            assert ids_of(generate(backend, prompt, 120)) == naive(backend, prompt, 120)


def test_a_whole_answer_ends_with_eos_which_has_no_text(large: TransformersBackend) -> None:
    chunks = generate(large, prompt_of(large), 900)
    assert chunks[-1].finish == "eos"
    assert chunks[-1].ids[0] in large.capabilities.eos_ids
    assert chunks[-1].text == ""
    assert [c.finish for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    text = text_of(chunks)
    assert text.startswith("<think>\n")
    assert "</think>" in text
    assert text == asyncio.run(large.decode(ids_of(chunks)))
    assert all(c.texts == (c.text,) and len(c.ids) == 1 for c in chunks)


def test_max_tokens_and_the_window_end_with_length(small: TransformersBackend) -> None:
    prompt = prompt_of(small)
    assert [c.finish for c in generate(small, prompt, 2)] == [None, "length"]
    filled = (prompt * 80)[: small.capabilities.context_window - 3]
    chunks = generate(small, filled, 50)
    assert len(chunks) <= 3
    assert chunks[-1].finish in ("length", "eos")
    with pytest.raises(PromptTooLong, match=r"4097 tokens exceed the window of 'relay-tiny-small' \(4096\)"):
        generate(small, (prompt * 80)[:4096], 1)


def test_the_next_hop_feeds_only_what_is_new(large: TransformersBackend) -> None:
    prompt = prompt_of(large)

    async def run() -> tuple[list[Chunk], list[Chunk], list[Chunk]]:
        first = await chunks_of(large, request(prompt, 30))
        ids = [*prompt, *ids_of(first), 300, 301]  # two ids by the other model
        second = await chunks_of(large, request(ids, 30, output_start=len(prompt)))
        await large.release("s")
        fresh = await chunks_of(large, request(ids, 30, session="fresh"))
        await large.release("fresh")
        return first, second, fresh

    first, second, fresh = asyncio.run(run())
    assert (first[0].prompt_tokens, first[0].cached_tokens) == (len(prompt), 0)
    assert (second[0].prompt_tokens, second[0].cached_tokens) == (len(prompt) + 32, len(prompt) + 29)
    assert fresh[0].cached_tokens == 0
    assert [c.cached_tokens for c in second[1:]] == [None] * 29
    assert ids_of(second) == ids_of(fresh)


def test_dropped_and_changed_ids_are_cropped_from_the_cache(large: TransformersBackend) -> None:
    prompt = prompt_of(large)
    written = ids_of(generate(large, prompt, 40, keep=True))
    other = [*prompt, *written[:20], 300]
    assert generate(large, other, 20, keep=True)[0].cached_tokens == len(prompt) + 20
    again = generate(large, [*prompt, *written[:10]], 30, keep=True)  # a prompt that is all cached: its last id is read again
    assert again[0].cached_tokens == len(prompt) + 9
    assert ids_of(again) == written[10:]
    assert large._sessions["s"].ids == [*prompt, *written[:39]]
    assert generate(large, [5, 6, 7], 1)[0].cached_tokens == 0
    assert "s" not in large._sessions


def test_interleaved_sessions_do_not_touch_each_other(small: TransformersBackend) -> None:
    prompts = [prompt_of(small, question) for question in QUESTIONS[:3]]
    alone = [ids_of(generate(small, prompt, 30)) for prompt in prompts]

    async def together() -> list[list[Chunk]]:
        runs = [chunks_of(small, request(prompt, 30, session=str(i))) for i, prompt in enumerate(prompts)]
        return await asyncio.gather(*runs)

    assert [ids_of(chunks) for chunks in asyncio.run(together())] == alone
    assert set(small._sessions) == {"0", "1", "2"}
    caches = [weakref.ref(state._cache) for state in small._sessions.values()]
    asyncio.run(_release(small, "0", "1", "2", "unknown"))
    gc.collect()
    assert not small._sessions
    assert [cache() for cache in caches] == [None] * 3


def test_one_session_used_twice_at_once_is_safe(small: TransformersBackend) -> None:
    prompt = prompt_of(small)

    async def together() -> list[list[Chunk]]:
        return await asyncio.gather(chunks_of(small, request(prompt, 30)), chunks_of(small, request(prompt, 30)))

    first, second = asyncio.run(together())
    assert ids_of(first) == ids_of(second) == ids_of(generate(small, prompt, 30, session="other"))
    asyncio.run(_release(small, "s"))


def test_closing_midway_leaves_a_usable_cache(large: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PREFILL_CHUNK", 16)
    prompt = prompt_of(large)
    whole = ids_of(generate(large, prompt, 30))

    async def run() -> list[Chunk]:
        await chunks_of(large, request(prompt, 30), stop_after=7)
        state = large._sessions["s"]
        assert not state.busy
        assert state.ids == [*prompt, *whole[:6]]
        assert state._cache.get_seq_length() == len(state.ids)
        task = asyncio.create_task(chunks_of(large, request(list(reversed(prompt)), 30)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()  # within the prompt
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not state.busy
        assert 0 < len(state.ids) < len(prompt)
        assert state.ids == list(reversed(prompt))[: len(state.ids)]
        assert state._cache.get_seq_length() == len(state.ids)
        return await chunks_of(large, request(prompt, 30))

    assert ids_of(asyncio.run(run())) == whole
    asyncio.run(_release(large, "s"))


def test_long_prompts_are_read_in_pieces_with_a_turn_for_others_between(
    large: TransformersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = prompt_of(large)
    whole = generate(large, prompt, 20)
    monkeypatch.setattr(module, "PREFILL_CHUNK", 8)
    turns = 0

    async def run() -> list[Chunk]:
        nonlocal turns
        task = asyncio.create_task(chunks_of(large, request(prompt, 20)))
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return task.result()

    pieces = asyncio.run(run())
    asyncio.run(_release(large, "s"))
    assert ids_of(pieces) == ids_of(whole)
    assert turns >= len(prompt) // 8 + 20


def test_a_failing_step_leaves_no_half_filled_cache(small: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = prompt_of(small)
    whole = ids_of(generate(small, prompt, 20))
    layer = small._runner._model.model.layers[1]
    calls = 0

    def fail(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise RuntimeError("out of memory")

    hook = layer.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        generate(small, prompt, 20, keep=True)
    hook.remove()
    assert small._sessions["s"].ids == []
    assert ids_of(generate(small, prompt, 20)) == whole


@pytest.mark.parametrize("window", [8, 400])
def test_sliding_windows_are_read_anew_where_they_cannot_be_cropped(window: int) -> None:
    backend = random_backend(pair_tokenizer(), use_sliding_window=True, sliding_window=window, max_window_layers=1)
    assert "sliding_attention" in backend._runner._model.config.layer_types
    prompt = prompt_of(backend)
    written = ids_of(generate(backend, prompt, 12, keep=True))
    assert written == naive(backend, prompt, 12)
    shorter = [*prompt, *written[:5], 300]
    chunks = generate(backend, shorter, 12)
    assert chunks[0].cached_tokens == (len(prompt) + 5 if window == 400 else 0)
    assert ids_of(chunks) == naive(backend, shorter, 12)


def test_recurrent_states_are_read_anew_where_they_cannot_be_cropped() -> None:
    tokenizer = pair_tokenizer()
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256}
    layers = ["conv", "full_attention", "conv"]
    torch.manual_seed(0)
    config = Lfm2Config(vocab_size=len(tokenizer), num_hidden_layers=3, layer_types=layers, conv_L_cache=3, **shape)
    backend = TransformersBackend(Lfm2ForCausalLM(config).eval(), tokenizer, name="hybrid")
    prompt = prompt_of(backend)
    written = ids_of(generate(backend, prompt, 12, keep=True))
    assert written == naive(backend, prompt, 12)
    longer = [*prompt, *written, 300, 301]
    chunks = generate(backend, longer, 12, keep=True)
    assert chunks[0].cached_tokens == len(longer) - 3
    assert ids_of(chunks) == naive(backend, longer, 12)
    chunks = generate(backend, longer[:-4], 12)
    assert chunks[0].cached_tokens == 0
    assert ids_of(chunks) == naive(backend, longer[:-4], 12)


def test_models_with_the_old_name_of_the_cache_argument() -> None:
    backend = random_backend(pair_tokenizer())
    prompt = prompt_of(backend)
    expected = ids_of(generate(backend, prompt, 12))
    model = backend._runner._model

    class Old:
        config, device, generation_config, num_parameters = model.config, model.device, model.generation_config, model.num_parameters

        def forward(self, input_ids: Any, past_key_values: Any, use_cache: bool) -> Any:
            return model(input_ids=input_ids, cache=past_key_values, use_cache=use_cache)

        __call__ = forward

    assert ids_of(generate(TransformersBackend(Old(), pair_tokenizer(), name="old"), prompt, 12)) == expected


def test_scores_are_those_of_one_pass_over_the_whole(large: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = prompt_of(large)
    ids = [*prompt, *ids_of(generate(large, prompt, 50))]
    with torch.inference_mode():
        rows = large._runner._model(input_ids=torch.tensor([ids])).logits[0, :, : large._vocabulary.size].float().softmax(-1)
    monkeypatch.setattr(module, "SCORE_CHUNK", 16)
    monkeypatch.setattr(module, "PREFILL_CHUNK", 32)
    for start in (1, len(prompt), len(ids)):
        scores = asyncio.run(large.score(ids, start))
        top = rows[start - 1 : -1].topk(2).values
        assert scores.top1 == pytest.approx(top[:, 0].tolist(), abs=1e-4)
        assert scores.top2 == pytest.approx(top[:, 1].tolist(), abs=1e-4)
        assert scores.best == rows[start - 1 : -1].argmax(-1).tolist()
        real = rows[start - 1 : -1].gather(-1, torch.tensor(ids[start:])[:, None])
        assert scores.rank == (rows[start - 1 : -1] > real).sum(-1).tolist()
        if start == len(prompt):
            assert scores.rank == [0] * 50
    with pytest.raises(ConfigError, match="start must be 1 to"):
        asyncio.run(large.score(ids, 0))


def test_a_prompt_without_ids_says_so(small: TransformersBackend) -> None:
    with pytest.raises(ConfigError, match="the prompt has no ids"):
        generate(small, [], 1)


def test_a_closed_backend_frees_its_model_and_says_that_it_is_closed() -> None:
    backend = random_backend(pair_tokenizer())
    generate(backend, [1, 2], 2, keep=True)
    asyncio.run(backend.aclose())
    asyncio.run(backend.aclose())
    assert not backend._sessions
    assert backend._runner is None
    with pytest.raises(ConfigError, match="backend 'random' is closed"):
        generate(backend, [1, 2], 2)


def test_another_process_warns_of_nothing_and_finds_the_same_vocabulary(small: TransformersBackend) -> None:
    program = """
import asyncio
from relay_integrations.tiny import pair_paths
from relay_integrations.backends.transformers import TransformersBackend
from tests.integration.support import generate, prompt_of
backend = TransformersBackend.from_pretrained(pair_paths()[1], dtype="float32")
print(len(generate(backend, prompt_of(backend), 5)), backend.capabilities.vocabulary)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"5 {small.capabilities.vocabulary}\n", "")


async def _release(backend: TransformersBackend, *sessions: str) -> None:
    for session in sessions:
        await backend.release(session)
