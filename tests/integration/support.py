"""Short ways to drive a transformers backend without an engine, and small models of other kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from relay_integrations.backends.base import Backend, Chunk, GenerateRequest, RenderOptions
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.chat.messages import Message
from relay_integrations.sampling import NEUTRAL, Sampling
from relay_integrations.tiny import pair_paths
from relay_integrations.tiny.tasks import problems

GREEDY = Sampling(temperature=0).over(NEUTRAL)
QUESTIONS = [p.question for p in problems(8, seed=5)]
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)


def prompt_of(backend: Backend, question: str = QUESTIONS[0]) -> list[int]:
    return list(asyncio.run(backend.render([Message(role="user", content=question)], [], RenderOptions())).ids)


def request(ids: Sequence[int], n: int = 40, sampling: Sampling = GREEDY, **more: Any) -> GenerateRequest:
    """A request whose prompt is all conversation unless told otherwise."""
    settings: dict[str, Any] = {"output_start": len(ids), "seed": 1, "session": "s", **more}
    return GenerateRequest(ids, sampling=sampling.over(NEUTRAL), max_tokens=n, **settings)


async def chunks_of(backend: Backend, request: GenerateRequest, stop_after: int | None = None) -> list[Chunk]:
    """The chunks of one request, closed after `stop_after` of them."""
    chunks: list[Chunk] = []
    generation = backend.generate(request)
    async for chunk in generation:
        chunks.append(chunk)
        if len(chunks) == stop_after:
            break
    await generation.aclose()
    return chunks


def generate(backend: Backend, ids: Sequence[int], n: int = 40, *, keep: bool = False, **more: Any) -> list[Chunk]:
    """Runs one request; the session is released behind it unless `keep`."""

    async def run() -> list[Chunk]:
        asked = request(ids, n, **more)
        chunks = await chunks_of(backend, asked)
        if not keep:
            await backend.release(asked.session)
        return chunks

    return asyncio.run(run())


def ids_of(chunks: Sequence[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.ids]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def naive(backend: TransformersBackend, ids: Sequence[int], n: int) -> list[int]:
    """Greedy decoding that reads everything anew for each token."""
    ids, start = list(ids), len(ids)
    size = backend._vocabulary.size
    with torch.inference_mode():
        while len(ids) - start < n and ids[-1] not in backend.capabilities.eos_ids:
            ids.append(int(backend._runner._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1, :size].argmax()))
    return ids[start:]


def random_backend(tokenizer: Any, tool_format: str | None = None, **config: Any) -> TransformersBackend:
    """A small model of random weights; `config` changes its shape."""
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer) + 5,  # padded, as real vocabularies are
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 256,
        **config,
    }
    return TransformersBackend(Qwen2ForCausalLM(Qwen2Config(**shape)).eval(), tokenizer, name="random", tool_format=tool_format)


def pair_tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(pair_paths()[0])


def copy_of_small(folder: Path) -> Path:
    """A copy of the small model's folder, to break."""
    folder.mkdir()
    for file in pair_paths()[1].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder
