"""What a model and its tokenizer say about themselves: window, end of turn, think tags, sampling defaults, chat template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from relay_integrations.chat.tags import ThinkTags
from relay_integrations.errors import ConfigError, ModelLoadError
from relay_integrations.sampling import FAMILIES, Sampling

_SANE_LENGTH = 10_000_000  # a tokenizer without a limit says 10^30


def default_sampling(generation: Mapping[str, Any], family: str | None, name: str) -> Sampling:
    """The model's own sampling settings, else its family's, else none.

    Args:
        generation: Explicit settings, as in generation_config.json.
        family: Key of `FAMILIES`.
        name: The model's, for errors.

    Raises:
        ModelLoadError: A setting is out of range.
    """
    if generation.get("do_sample") is False:
        return Sampling(temperature=0)
    own = {key: generation[key] for key in ("temperature", "top_p", "top_k", "min_p") if generation.get(key) is not None}
    if not own:
        return FAMILIES[family] if family else Sampling()
    try:
        return Sampling(**own)
    except ValidationError as e:
        first = e.errors()[0]
        raise ModelLoadError(
            f"generation_config.json of {name!r} has {first['loc'][0]}={first['input']!r}: {first['msg']}; correct or remove it there"
        ) from e


def template_source(tokenizer: Any, name: str) -> str:
    """The source of the chat template, all of them if there are several.

    Raises:
        ModelLoadError: There is none.
    """
    template = tokenizer.chat_template
    if not template:
        raise ModelLoadError(
            f"the tokenizer of {name!r} has no chat template: use the instruct version of the model, or put its chat_template.jinja "
            "beside the tokenizer"
        )
    return "\n".join(template.values()) if isinstance(template, dict) else str(template)


def find_think_tags(tokenizer: Any, template: str) -> ThinkTags | None:
    """The usual think tags if the vocabulary or the template knows them, else None: the model does not reason."""
    tags = ThinkTags()
    known = tokenizer.get_vocab()
    return tags if all(tag in known for tag in tag_texts(tags)) or any(tag in template for tag in tag_texts(tags)) else None


def tag_texts(tags: ThinkTags | None) -> tuple[str, ...]:
    """The texts of the tags; none for a model that does not reason."""
    return (tags.open, tags.close) if tags else ()


def find_eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """All ids that end a turn: those of the generation config and the tokenizer's."""
    said = model.generation_config.eos_token_id
    many = said if isinstance(said, Iterable) else [said]
    return frozenset(int(token) for token in (*many, tokenizer.eos_token_id) if token is not None)


def find_window(given: int | None, model: Any, tokenizer: Any, name: str) -> int:
    """The given window, else the config's. The tokenizer's limit, often stale or far too small, is only asked where both are missing.

    Raises:
        ConfigError: The given one is not positive.
        ModelLoadError: Nothing says how long it is.
    """
    if given is not None:
        if given < 1:
            raise ConfigError(f"context_window must be positive, not {given}")
        return given
    window = getattr(model.config.get_text_config(), "max_position_embeddings", None) or tokenizer.model_max_length
    if not window or window > _SANE_LENGTH:
        raise ModelLoadError(f"the config of {name!r} does not say how long its window is: pass context_window=")
    return int(window)


def closed_reasoning(text: str, tags: ThinkTags) -> str:
    """A rendered prompt with its reasoning closed: what a template with a switch for it would have ended with."""
    opened = text.rstrip()
    if opened.endswith(tags.open):
        text = opened[: -len(tags.open)]
    return f"{text}{tags.open}\n\n{tags.close}\n\n"
