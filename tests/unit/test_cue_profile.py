"""Cue profiles: versioned JSON files that are checked when they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relay_integrations import ConfigError, CueProfile, CueProfileError, load_profile
from relay_integrations.cues.profile import GENERIC, Cue, Pair, all_candidates, find_profile, shipped_profiles
from tests.unit.support import relay


def write(folder: Path, **data: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(json.dumps(data))
    return path


def test_a_profile_is_read_from_a_file(tmp_path: Path) -> None:
    cues = ["So", {"text": "Thus,", "figures": {"margin": 0.98}}]
    profile = load_profile(write(tmp_path, schema_version=1, name="mine", models={"large": "L", "small": "S"}, cues=cues))
    assert profile.cues == (Cue(text="So"), Cue(text="Thus,", figures={"margin": 0.98}))
    assert profile.models == Pair(large="L", small="S")
    assert profile.match == "word"
    assert profile.cue_set.cues == ("So", "Thus,")


def test_a_saved_profile_reads_back_the_same(tmp_path: Path) -> None:
    profile = CueProfile.of("So ", "日本", match="paper", name="mine")
    profile.save(tmp_path / "mine.json")
    assert load_profile(tmp_path / "mine.json") == profile
    assert json.loads((tmp_path / "mine.json").read_text())["schema_version"] == 1


def test_every_shipped_profile_can_be_read_by_its_name() -> None:
    assert GENERIC in shipped_profiles()
    for name in shipped_profiles():
        assert load_profile(name).name == name
        assert load_profile(name).cue_set


def test_a_pair_finds_its_profile_by_the_models_names() -> None:
    profile = find_profile("relay-tiny-large", "relay-tiny-small")
    assert profile is not None
    assert profile.models == Pair(large="relay-tiny-large", small="relay-tiny-small")
    assert find_profile("relay-tiny-small", "relay-tiny-large") is None
    assert find_profile("unheard", "of") is None


def test_all_candidates_are_a_profile_too() -> None:
    assert len(all_candidates().cues) == 91


def test_the_paper_mode_reaches_the_matcher() -> None:
    assert CueProfile.of("now", match="paper").cue_set.scanner().feed("known")
    assert not CueProfile.of("now").cue_set.scanner().feed("known ")


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(CueProfileError, match=r"'qwen9'.*generic.*\.json"):
        load_profile("qwen9")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CueProfileError, match=r"gone\.json.*No such file"):
        load_profile(tmp_path / "gone.json")


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{cues: So}")
    with pytest.raises(CueProfileError, match=r"mine\.json.*is not JSON"):
        load_profile(tmp_path / "mine.json")
    (tmp_path / "mine.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CueProfileError, match=r"mine\.json.*is not JSON"):
        load_profile(tmp_path / "mine.json")


def test_a_newer_version_asks_for_an_upgrade(tmp_path: Path) -> None:
    with pytest.raises(CueProfileError, match=r"schema_version 2.*reads 1.*upgrade"):
        load_profile(write(tmp_path, schema_version=2, name="mine", words=["So"]))


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"name": "mine"}, "cues"),
        ({"name": "mine", "cues": []}, "cues"),
        ({"name": "mine", "cues": ["So", " "]}, r"cues\.1"),
        ({"name": "mine", "cues": "So"}, "cues"),
        ({"name": "mine", "cues": ["So"], "match": "regex"}, "match"),
        ({"name": "mine", "cues": ["So"], "cutoff": 0.9}, "cutoff"),
        ({"name": "mine", "cues": ["So"], "models": {"large": "L"}}, r"models\.small"),
        ({"name": "", "cues": ["So"]}, "name"),
        ({"name": "mine", "cues": ["So"], "schema_version": 0}, "schema_version"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, broken: dict[str, Any], named: str) -> None:
    with pytest.raises(CueProfileError, match=rf"mine\.json.*{named}"):
        load_profile(write(tmp_path, **broken))


def test_a_file_that_is_no_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('["So"]')
    with pytest.raises(CueProfileError, match=r"mine\.json.*valid dictionary"):
        load_profile(tmp_path / "mine.json")


def test_no_cues_and_blank_cues_are_refused() -> None:
    with pytest.raises(CueProfileError, match="cues"):
        CueProfile.of()
    with pytest.raises(CueProfileError, match="blank"):
        CueProfile.of("So", "  ")


def test_a_profile_error_is_a_config_error_and_a_value_error() -> None:
    assert issubclass(CueProfileError, ConfigError)
    assert issubclass(CueProfileError, ValueError)


def test_an_engine_takes_the_fields_of_a_profile() -> None:
    with relay("a", cue_profile={"name": "mine", "cues": ["So"]}) as engine:
        assert engine.cue_profile is not None
        assert [cue.text for cue in engine.cue_profile.cues] == ["So"]
    with pytest.raises(CueProfileError, match="the cue profile is not valid: cues"):
        relay("a", cue_profile={"name": "mine"})
