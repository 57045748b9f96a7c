"""Loading models: what they say about themselves, and errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from relay_integrations.backends.model_facts import default_sampling, find_window
from relay_integrations.backends.transformers import TransformersBackend
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.chat.tool_formats import HERMES
from relay_integrations.errors import ConfigError, ModelLoadError
from relay_integrations.sampling import FAMILIES, Sampling
from relay_integrations.tiny import pair_paths
from tests.integration.support import copy_of_small, generate, ids_of, pair_tokenizer, prompt_of, random_backend


def test_what_the_pair_says_about_itself(large: TransformersBackend, small: TransformersBackend) -> None:
    for backend, name, parameters in ((large, "relay-tiny-large", 3_607_296), (small, "relay-tiny-small", 228_368)):
        facts = backend.capabilities
        assert (facts.name, facts.context_window, facts.eos_ids) == (name, 4096, frozenset({2}))
        assert facts.think_tags == ThinkTags()
        assert facts.sampling == Sampling(temperature=0)
        assert facts.family is None
        assert facts.parameters == parameters
        assert facts.top2
        assert facts.scoring
        assert facts.reports_cached_tokens
        assert facts.output_penalties
        assert facts.constraints
        assert facts.tool_format == HERMES
        assert (facts.drafting, facts.speculative) == (False, False)


@pytest.mark.parametrize(
    ("generation", "family", "expected"),
    [
        ({"do_sample": False, "temperature": 0.7}, "qwen3", Sampling(temperature=0)),
        ({"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": None}, None, Sampling(temperature=0.6, top_k=20)),
        ({"temperature": 0.6, "top_p": 0.95, "eos_token_id": 1}, "qwen3", Sampling(temperature=0.6, top_p=0.95)),
        ({"do_sample": True}, "qwen3", FAMILIES["qwen3"]),
        ({}, "deepseek-r1", FAMILIES["deepseek-r1"]),
        ({}, None, Sampling()),
    ],
)
def test_default_sampling(generation: dict[str, Any], family: str | None, expected: Sampling) -> None:
    assert default_sampling(generation, family, "m") == expected


def test_an_impossible_default_is_named() -> None:
    with pytest.raises(ModelLoadError, match=r"generation_config.json of 'm' has top_p=1.5: .*correct or remove it"):
        default_sampling({"top_p": 1.5}, None, "m")


def test_a_folder_speaks_for_itself(tmp_path: Path) -> None:
    folder = copy_of_small(tmp_path / "Qwen3-copy")
    write(folder, "generation_config.json", eos_token_id=[0, 2])
    backend = TransformersBackend.from_pretrained(folder, dtype="bfloat16", context_window=100)
    assert backend.capabilities.name == "Qwen3-copy"
    assert backend.capabilities.family == "qwen3"
    assert backend.capabilities.sampling == FAMILIES["qwen3"]
    assert backend.capabilities.eos_ids == {0, 2}
    assert backend.capabilities.context_window == 100
    assert backend._runner._model.dtype == torch.bfloat16
    assert len(ids_of(generate(backend, prompt_of(backend), 3))) == 3
    (folder / "generation_config.json").unlink()
    backend = TransformersBackend.from_pretrained(folder, name="mine", device="cpu")
    assert backend.capabilities.name == "mine"
    assert backend.capabilities.eos_ids == {2}


def test_parameters_of_tied_weights_count_once() -> None:
    tied = random_backend(pair_tokenizer(), tie_word_embeddings=True).capabilities.parameters
    untied = random_backend(pair_tokenizer(), tie_word_embeddings=False).capabilities.parameters
    assert tied is not None
    assert untied == tied + 32 * (len(pair_tokenizer()) + 5)


@pytest.mark.parametrize(
    ("breakage", "said"),
    [
        (
            lambda f: [file.unlink() for file in f.iterdir()] and f.rmdir(),
            r"no folder '.*broken': pass a folder in Hugging Face format, or a hub id",
        ),
        (lambda f: (f / "config.json").unlink(), r"folder '.*broken' has no config.json"),
        (lambda f: (f / "model.safetensors").unlink(), r"folder '.*broken' has a config.json but no weights \(\*.safetensors\)"),
        (lambda f: [(f / n).unlink() for n in ("tokenizer.json", "tokenizer_config.json")], r"folder '.*broken' has no tokenizer"),
        (lambda f: (f / "chat_template.jinja").unlink(), r"the tokenizer of 'broken' has no chat template: use the instruct version"),
        (lambda f: (f / "config.json").write_text("{"), r"cannot load '.*broken': "),
        (lambda f: (f / "model.safetensors").write_bytes(b"no"), r"cannot load '.*broken': .*check that its files are complete"),
        (lambda f: (f / "generation_config.json").write_text("{"), r"'.*broken/generation_config.json' is not valid JSON"),
        (lambda f: drop_tensor(f, "model.norm.weight"), r"the weights of '.*broken' lack 1 of the model's tensors, e.g. model.norm.weight"),
        (lambda f: write(f, "config.json", model_type="nonesuch", auto_map={}), r"cannot load '.*broken': "),
        (
            lambda f: write(f, "config.json", model_type="own", auto_map={"AutoConfig": "own.C"}),
            r"cannot load .* pass trust_remote_code=True",
        ),
    ],
)
def test_loading_errors_name_the_folder_and_the_way_out(tmp_path: Path, breakage: Any, said: str) -> None:
    folder = copy_of_small(tmp_path / "broken")
    breakage(folder)
    with pytest.raises(ModelLoadError, match=said):
        TransformersBackend.from_pretrained(folder)


def test_a_hub_id_while_offline() -> None:
    with pytest.raises(
        ModelLoadError, match=r"'nobody/nothing' is no folder here and could not be found on the Hugging Face hub .*offline"
    ):
        TransformersBackend.from_pretrained("nobody/nothing")


def test_a_hub_id_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "models--someone--Qwen3-tiny"
    (repository / "snapshots").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    write(copy_of_small(repository / "snapshots" / "abc"), "generation_config.json", eos_token_id=2, do_sample=True, top_k=7)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    facts = TransformersBackend.from_pretrained("someone/Qwen3-tiny").capabilities
    assert (facts.name, facts.family, facts.sampling) == ("Qwen3-tiny", "qwen3", Sampling(top_k=7))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "cpu", "device_map": "auto"}, "either device or device_map"),
        ({"device": "toaster"}, "device 'toaster' cannot be used here"),
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used here"),
        ({"dtype": "float99"}, "dtype 'float99' is unknown; use 'auto'"),
        ({"context_window": 0}, "context_window must be positive"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TransformersBackend.from_pretrained(pair_paths()[1], **settings)


def test_a_device_map_places_the_model() -> None:
    pytest.importorskip("accelerate")
    backend = TransformersBackend.from_pretrained(pair_paths()[1], device_map={"": "cpu"}, dtype="float32")
    assert len(ids_of(generate(backend, prompt_of(backend), 3))) == 3


def test_a_window_that_nobody_knows_must_be_given() -> None:
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: SimpleNamespace(n_layer=2)))
    with pytest.raises(ModelLoadError, match="the config of 'm' does not say how long its window is: pass context_window="):
        find_window(None, model, SimpleNamespace(model_max_length=10**30), "m")
    assert find_window(None, model, SimpleNamespace(model_max_length=77), "m") == 77
    assert find_window(50, model, SimpleNamespace(model_max_length=77), "m") == 50


def test_without_torch_the_extra_is_named() -> None:
    program = "import sys; sys.modules['torch'] = None\nimport relay_integrations.backends.transformers"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ModelLoadError: models in this process need torch: pip install 'relay-integrations[transformers]'" in done.stderr


def write(folder: Path, name: str, **changes: Any) -> None:
    """Changes fields of a JSON file; None removes one. generation_config.json starts empty."""
    file = folder / name
    data = {} if name == "generation_config.json" else json.loads(file.read_text())
    data.update(changes)
    file.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))


def drop_tensor(folder: Path, name: str) -> None:
    file = folder / "model.safetensors"
    save_file({key: value for key, value in load_file(file).items() if key != name}, file, {"format": "pt"})
