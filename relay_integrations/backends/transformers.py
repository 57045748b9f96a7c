"""Runs a Hugging Face model in this process, on CPU or GPU.

The forward passes run on the engine's own loop thread: a hop to another thread would cost a small model a tenth of each step.
They take turns there. After each step the loop is free for other relays and for cancellation, also within a long prompt.

What a relay has read stays in a KV cache under its session, so a handoff feeds only what the other model wrote; that same pass
yields the next token. Stop hints are ignored: closing the generator costs nothing here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal

from relay_integrations.backends.base import Backend, Capabilities, Chunk, GenerateRequest, Prompt, RenderOptions, TokenScores
from relay_integrations.errors import ConfigError, MessageError, ModelLoadError, NotSupported, PromptTooLong

try:
    import jinja2
    import torch
    import transformers  # noqa: F401 - not used here, but by the modules below
except ImportError as e:
    raise ModelLoadError(f"models in this process need {e.name or e}: pip install 'relay-integrations[transformers]'") from e

from relay_integrations.backends.guide import Guides
from relay_integrations.backends.kv_cache import Runner, SessionCache
from relay_integrations.backends.loading import load
from relay_integrations.backends.model_facts import (
    closed_reasoning,
    default_sampling,
    find_eos_ids,
    find_think_tags,
    find_window,
    tag_texts,
    template_source,
)
from relay_integrations.backends.sampler import Sampler
from relay_integrations.backends.scoring import SCORE_CHUNK, add_scores, spans
from relay_integrations.backends.vocabulary import Vocabulary
from relay_integrations.chat.constraint import Constraint
from relay_integrations.chat.messages import Message
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.chat.tool_formats import ToolFormat, find_tool_format, tool_format_of
from relay_integrations.sampling import family_of

PREFILL_CHUNK = 512
"""Prompt ids a step: enough to keep a GPU busy; on a CPU the other relays wait for it, seconds with a billion parameters."""


class TransformersBackend(Backend):
    """One causal language model of `transformers`.

    Args:
        model: The model, on its device, in its dtype.
        tokenizer: Its tokenizer, with a chat template.
        name: Shown in events and errors; the last part of where the model came from if None.
        think_tags: The texts that open and close its reasoning; "auto" looks for <think>; None for a model that does not reason.
        context_window: Tokens for prompt and output together; the config's if None.
        generation: Default settings as in generation_config.json; the model's own if None.
        tool_format: How it writes tool calls: a `ToolFormat` or the name of one; what the chat template shows if None.

    Raises:
        ConfigError: There is no such tool format.
        ModelLoadError: The tokenizer has no chat template, or the window is unknown.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str | None = None,
        think_tags: ThinkTags | Literal["auto"] | None = "auto",
        context_window: int | None = None,
        generation: Mapping[str, Any] | None = None,
        tool_format: ToolFormat | str | None = None,
    ) -> None:
        source = str(model.config.name_or_path or "")
        name = name or os.path.basename(source.rstrip("/\\")) or type(model).__name__
        self._template = template_source(tokenizer, name)
        tags = find_think_tags(tokenizer, self._template) if think_tags == "auto" else think_tags
        eos_ids = find_eos_ids(model, tokenizer)
        form = find_tool_format(tool_format) if isinstance(tool_format, str) else tool_format or tool_format_of(self._template)
        self._tokenizer = tokenizer
        # What the relay reads from the text is text even where a vocabulary calls it special.
        self._vocabulary = Vocabulary(tokenizer, (*tag_texts(tags), *form.tokens), eos_ids)
        self._guides = Guides(tokenizer, self._vocabulary.size, eos_ids, name)
        self._runner: Runner | None = Runner(model, self._vocabulary.size, self._vocabulary.gaps)
        self._sessions: dict[str, SessionCache] = {}
        family = family_of(name) or family_of(os.path.basename(source))
        own = generation if generation is not None else model.generation_config.to_diff_dict()
        self._capabilities = Capabilities(
            name=name,
            context_window=find_window(context_window, model, tokenizer, name),
            eos_ids=eos_ids,
            vocabulary=self._vocabulary.fingerprint,
            think_tags=tags,
            sampling=default_sampling(own, family, name),
            family=family,
            parameters=int(model.num_parameters()),
            top2=True,
            constraints=True,
            scoring=True,
            reports_cached_tokens=True,
            output_penalties=True,
            tool_format=form,
        )

    @classmethod
    def from_pretrained(  # type: ignore[override]  # its own options, by their names
        cls,
        source: str | os.PathLike[str],
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype = "auto",
        device_map: Any = None,
        trust_remote_code: bool = False,
        revision: str | None = None,
        name: str | None = None,
        think_tags: ThinkTags | Literal["auto"] | None = "auto",
        context_window: int | None = None,
        tool_format: ToolFormat | str | None = None,
    ) -> TransformersBackend:
        """Loads a model and its tokenizer.

        Args:
            source: A folder, or a model id on the hub.
            device: Where to run; the first accelerator if there is one, else the CPU.
            dtype: "auto" takes the one that the weights are stored in.
            device_map: Spreads the model over devices, e.g. "auto"; excludes `device`.
            trust_remote_code: Whether code that comes with the model may run.
            revision: Branch, tag or commit on the hub.
            name: See the class, as for what follows.
            think_tags: See the class.
            context_window: See the class.
            tool_format: See the class.

        Raises:
            ConfigError: `device`, `dtype`, `device_map` or `tool_format` cannot be used as given.
            ModelLoadError: Anything is missing or unreadable.
        """
        loaded = load(source, device=device, dtype=dtype, device_map=device_map, trust_remote_code=trust_remote_code, revision=revision)
        return cls(
            loaded.model,
            loaded.tokenizer,
            name=name or os.path.basename(os.path.abspath(source)),
            think_tags=think_tags,
            context_window=context_window,
            generation=loaded.generation,
            tool_format=tool_format,
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        name = self._capabilities.name
        if tools and "tools" not in self._template:
            raise NotSupported(name, "tools", "its chat template never mentions them; bind none, or choose a model trained for tool calls")
        if options.reasoning and self._capabilities.think_tags is None:
            raise NotSupported(name, "reasoning", "the model has no think tags; leave reasoning out, or give think_tags=")
        switches = {} if options.reasoning is None else {"enable_thinking": options.reasoning, "thinking": options.reasoning}
        try:
            text: str = self._tokenizer.apply_chat_template(
                [message.to_template() for message in messages],
                tools=list(tools) or None,
                add_generation_prompt=True,
                tokenize=False,
                **{**switches, **options.template},
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError) as e:
            raise MessageError(f"the chat template of {name!r} refuses the conversation: {e}") from e
        tags = self._capabilities.think_tags
        if options.reasoning is False and tags is not None and "thinking" not in self._template:
            text = closed_reasoning(text, tags)
        return Prompt(tuple(self._vocabulary.encode_rendered(text)), tags is not None and text.rstrip().endswith(tags.open))

    async def encode(self, text: str) -> list[int]:
        return self._vocabulary.encode(text)

    async def decode(self, ids: Sequence[int]) -> str:
        return self._vocabulary.decode(ids)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        prompt = list(request.ids)
        limit = self._room(request, len(prompt))
        state = self._borrow(request.session)
        try:
            cached = state.align(prompt)
            todo = prompt[cached:]
            detokenizer = self._vocabulary.detokenizer(prompt)
            sampler = Sampler(request.sampling, request.seed, prompt[request.output_start :], request.top2)
            constraint, start = request.constraint, request.constraint_start
            guide = None if constraint is None else await asyncio.to_thread(self._guides.begin, constraint, prompt[start:])
            eos_ids = self._capabilities.eos_ids
            while len(todo) > PREFILL_CHUNK:
                await asyncio.sleep(0)
                state.feed(todo[:PREFILL_CHUNK])
                del todo[:PREFILL_CHUNK]
            for count in range(1, limit + 1):
                await asyncio.sleep(0)
                logits = state.feed(todo)
                token, margin = sampler(logits, None if guide is None else guide.allowed(logits.device))
                eos = token in eos_ids
                text = "" if eos else detokenizer.push(token)
                chunk = Chunk((token,), text, (text,), None if margin is None else (margin,))
                if count == 1:
                    chunk.prompt_tokens, chunk.cached_tokens = len(prompt), cached
                if eos or count == limit:
                    chunk.finish = "eos" if eos else "length"
                yield chunk
                if eos:
                    return
                todo = [token]
                if guide is not None:
                    guide.take(todo)
        finally:
            state.busy = False

    async def score(self, ids: Sequence[int], start: int = 1) -> TokenScores:
        if not 1 <= start <= len(ids):
            raise ConfigError(f"start must be 1 to {len(ids)} (the number of ids), not {start}: the first id has nothing before it")
        self._check_window(len(ids))
        scores = TokenScores([], [], [], [])
        state = SessionCache(self._open_runner())
        for low, high in spans(0, start - 1, PREFILL_CHUNK):
            await asyncio.sleep(0)
            state.feed(ids[low:high])
        for low, high in spans(start - 1, len(ids) - 1, SCORE_CHUNK):
            await asyncio.sleep(0)
            add_scores(scores, state.feed_rows(ids[low:high]), ids[low + 1 : high + 1])
        return scores

    async def check_constraint(self, constraint: Constraint) -> None:
        await asyncio.to_thread(self._guides.check, constraint)

    async def release(self, session: str) -> None:
        self._sessions.pop(session, None)

    async def aclose(self) -> None:
        self._sessions.clear()
        runner, self._runner = self._runner, None
        if runner is not None and runner.device.type == "cuda":
            del runner
            torch.cuda.empty_cache()

    def _room(self, request: GenerateRequest, length: int) -> int:
        """How many tokens may be generated."""
        if not length:
            raise ConfigError("the prompt has no ids: a model can only continue something")
        self._check_window(length + 1)
        return min(request.max_tokens, self._capabilities.context_window - length)

    def _check_window(self, length: int) -> None:
        window = self._capabilities.context_window
        if length > window:
            raise PromptTooLong(f"{length} tokens exceed the window of {self._capabilities.name!r} ({window}); nothing is truncated")

    def _borrow(self, session: str) -> SessionCache:
        """The session's cache; a passing one while another generation of the same session is using it."""
        state = self._sessions.get(session)
        if state is None or state.busy:
            state = SessionCache(self._open_runner())
            self._sessions.setdefault(session, state)
        state.busy = True
        return state

    def _open_runner(self) -> Runner:
        if self._runner is None:
            raise ConfigError(f"backend {self._capabilities.name!r} is closed: create a new one")
        return self._runner


def use_one_thread() -> None:
    """Sets torch to one thread, where the environment does not ask for a number: for models too small to share out."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
