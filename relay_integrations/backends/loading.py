"""Loads a model and its tokenizer from a folder or the hub, with errors that say what to do."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from transformers.utils import logging as transformers_logging

from relay_integrations.errors import ConfigError, ModelLoadError

_WEIGHTS = ("*.safetensors", "*.bin")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "*.tiktoken")
_HUB_TIMEOUT = 10.0  # seconds until a hub that does not answer counts as out of reach
_SHOW_PROGRESS_FROM = 1_000_000_000  # bytes of weights; smaller ones load at once


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder or a hub repository held. `generation` is generation_config.json as written."""

    model: Any
    tokenizer: Any
    generation: Mapping[str, Any]


def load(
    source: str | os.PathLike[str],
    *,
    device: str | torch.device | None,
    dtype: str | torch.dtype,
    device_map: Any,
    trust_remote_code: bool,
    revision: str | None,
) -> Loaded:
    """Loads model and tokenizer.

    Raises:
        ConfigError: `device`, `dtype` and `device_map` cannot be used as given.
        ModelLoadError: Anything is missing or unreadable.
    """
    target = _target_device(device, device_map)
    options = {"trust_remote_code": trust_remote_code, "revision": revision}
    folder = _local_folder(source)
    name = os.fspath(source) if folder is None else str(folder)
    if folder is None:
        _check_hub(name, revision)
    else:
        _check_folder(folder)
    with _quiet(folder), _explained(name):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            name, dtype=_dtype(dtype), device_map=device_map, output_loading_info=True, **options
        )
        if report["missing_keys"]:
            missing = sorted(report["missing_keys"])
            raise ModelLoadError(
                f"the weights of {name!r} lack {len(missing)} of the model's tensors, e.g. {missing[0]}: "
                "the download is incomplete, or config.json belongs to another model"
            )
        if device_map is None:
            model = model.to(target)
        return Loaded(model, tokenizer, _generation_config(name, folder, revision))


def _target_device(device: str | torch.device | None, device_map: Any) -> torch.device:
    if device is not None and device_map is not None:
        raise ConfigError("give either device or device_map, not both: device_map places every layer itself")
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
    try:
        target = torch.device(device)
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError, NotImplementedError) as e:  # AssertionError: torch was built without CUDA
        raise ConfigError(f"device {str(device)!r} cannot be used here: {e}".splitlines()[0] + "; try device='cpu'") from e
    return target


def _dtype(dtype: str | torch.dtype) -> str | torch.dtype:
    if dtype == "auto" or isinstance(dtype, torch.dtype):
        return dtype
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise ConfigError(f"dtype {dtype!r} is unknown; use 'auto', 'float32', 'bfloat16' or 'float16'")
    return found


def _local_folder(source: str | os.PathLike[str]) -> Path | None:
    """The folder that is meant, whether it is there or not; None for a hub id."""
    path = Path(source).expanduser()
    meant = isinstance(source, os.PathLike) or path.is_absolute() or os.fspath(source).startswith((".", "~")) or len(path.parts) > 2
    return path if meant or path.exists() else None


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ModelLoadError(f"no folder {str(folder)!r}: pass a folder in Hugging Face format, or a hub id such as 'Qwen/Qwen3-8B'")
    if not (folder / "config.json").is_file():
        raise ModelLoadError(f"folder {str(folder)!r} has no config.json: it is no model in Hugging Face format (is it in a subfolder?)")
    if not _any_file(folder, _WEIGHTS):
        raise ModelLoadError(f"folder {str(folder)!r} has a config.json but no weights (*.safetensors): download them too, all of them")
    if not _any_file(folder, _TOKENIZERS):
        raise ModelLoadError(f"folder {str(folder)!r} has no tokenizer (tokenizer.json): copy it from where the weights come from")


def _any_file(folder: Path, patterns: Sequence[str]) -> bool:
    return any(any(folder.glob(pattern)) for pattern in patterns)


def _check_hub(name: str, revision: str | None) -> None:
    """Fails within seconds where loading would retry for a minute."""
    try:
        if isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json", revision=revision), str):
            return
        huggingface_hub.HfApi().model_info(name, revision=revision, timeout=_HUB_TIMEOUT)
    except Exception as e:  # connection errors come as the HTTP client's own types
        raise ModelLoadError(
            f"{name!r} is no folder here and could not be found on the Hugging Face hub ({_first_line(e)}): check the name and the "
            "network (offline, only folders and models already in the cache can be used), and log in with `hf auth login` if it is gated"
        ) from e


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns whatever goes wrong while loading into one kind of error."""
    try:
        yield
    except (ConfigError, ModelLoadError):
        raise
    except Exception as e:  # transformers raises a dozen types here, from OSError to the loaders' own
        hint = f"check that its files are complete and of a kind that transformers {transformers.__version__} knows"
        if "trust_remote_code" in str(e):
            hint = "pass trust_remote_code=True if you trust its code"
        raise ModelLoadError(f"cannot load {name!r}: {_first_line(e)}; {hint}") from e


@contextmanager
def _quiet(folder: Path | None) -> Iterator[None]:
    """Hides progress bars where nobody watches or nothing takes long."""
    size = sum(file.stat().st_size for pattern in _WEIGHTS for file in folder.glob(pattern)) if folder else _SHOW_PROGRESS_FROM
    if not transformers_logging.is_progress_bar_enabled() or (sys.stderr.isatty() and size >= _SHOW_PROGRESS_FROM):
        yield
        return
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.enable_progress_bar()


def _generation_config(name: str, folder: Path | None, revision: str | None) -> Mapping[str, Any]:
    """The file as written: transformers' own object no longer tells what was said from what is the default."""
    file = "generation_config.json"
    path = folder / file if folder else huggingface_hub.try_to_load_from_cache(name, file, revision=revision)
    if not isinstance(path, (str, Path)) or not Path(path).is_file():
        return {}
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as e:
        raise ModelLoadError(f"{str(path)!r} is not valid JSON ({e}): correct it, or remove it to use the family's defaults") from e
    return data if isinstance(data, dict) else {}


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip().rstrip(".")
