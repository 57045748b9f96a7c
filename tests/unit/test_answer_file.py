"""The file that keeps the answers of a comparison."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay_integrations import Message
from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.answers import Answer, AnswerFile, answer_from_dict
from relay_integrations.evaluation.compare import Comparison
from relay_integrations.evaluation.data import Item
from relay_integrations.evaluation.grading import ItemGraders
from tests.unit.compare_support import RIGHT, compared, engine, items
from tests.unit.support import backend, requests

LINE = json.dumps(Answer("a", "0f", "large-only", 0, 1, True, "15", "equal", "math", "15", (("large", "15"),), "stop").to_dict()) + "\n"


def test_a_file_keeps_every_answer_and_a_second_run_asks_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with engine() as made, AnswerFile(path, {"seed": 0}) as file:
        first = compared(made, items("easy 1", "tricky 2"), file=file)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"type": "settings", "format": 1, "seed": 0}
    assert [answer_from_dict(line) for line in lines[1:]] == list(first.answers.values())
    assert lines[1]["segments"] == [{"role": "large", "text": RIGHT}]
    with engine() as made, AnswerFile(path, {"seed": 0}) as file:
        again = compared(made, items("easy 1", "tricky 2"), file=file)
        assert requests(made) == 0
        assert again.answers == first.answers
        more = compared(made, items("easy 1", "tricky 2", "hard 3"), samples=2, file=file)
        assert len(more.answers) == 12
        assert {key: more.answers[key] for key in first.answers} == first.answers
    assert len(path.read_text().splitlines()) == 13


def test_what_failed_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with engine(settings={"on_failure": "raise"}, fail_after=0) as made, AnswerFile(path, {}) as file:
        assert compared(made, items("a"), file=file).answers["a", 0, "relaygen"].error
    with engine() as made, AnswerFile(path, {}) as file:
        assert compared(made, items("a"), file=file).answers["a", 0, "relaygen"].right
        assert len(backend(made, "large").rendered) == 1
    with AnswerFile(path, {}) as file:
        assert all(answer.error is None for answer in file.answers.values())


def test_an_item_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with engine() as made:
        with AnswerFile(path, {}) as file:
            compared(made, items("a"), file=file)
        changed = [Item("a", (Message(role="user", content="b"),), "15", grader="math")]
        with AnswerFile(path, {}) as file, ItemGraders(changed) as graders, pytest.raises(ConfigError, match="another item 'a'"):
            Comparison(made, changed, graders, file=file)


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_last_line_that_was_not_finished_is_dropped(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "answers.jsonl"
    with engine() as made, AnswerFile(path, {}) as file:
        compared(made, items("a"), file=file)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with AnswerFile(path, {}) as file:
        assert list(file.answers) == [("a", 0, "large-only")]
        file.add(answer_from_dict(json.loads(whole.splitlines()[2])))
    assert path.read_bytes() == whole


def test_a_first_line_that_was_not_finished_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    for begun in (b"", b'{"ty', b'{"type": "settings", "format": 1, "se'):
        path.write_bytes(begun)
        AnswerFile(path, {"seed": 1}).close()
        assert json.loads(path.read_text()) == {"type": "settings", "format": 1, "seed": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("my notes", "holds something else"),
        ("my notes\nand more", "holds something else"),
        ('{"question": "a", "answer": "b"}\n', "holds something else"),
        ('{"type": "settings", "format": 9}\n', "format 9"),
        ('{"type": "settings", "format": 1, "seed": 1, "top_p": 0.9}\nLINE', r"seed was 1, is 0; top_p was 0.9, is None"),
        ('{"type": "settings", "format": 1, "seed": 0}\n{"type": "answer"}\n', "line 2 is no answer"),
        ('{"type": "settings", "format": 1, "seed": 0}\nx\n', "line 2 is not a JSON object"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_left_as_it_is(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "answers.jsonl"
    content = content.replace("LINE", LINE)
    path.write_text(content)
    with pytest.raises(ConfigError, match=words):
        AnswerFile(path, {"seed": 0})
    assert path.read_text() == content


@pytest.mark.parametrize("name", [name for name in json.loads(LINE) if name != "segments"])
def test_an_answer_of_which_something_is_missing_or_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "answers.jsonl"
    for changed in (lambda line: line.pop(name), lambda line: line.update({name: ["?"]}), lambda line: line.update({name: {}})):
        line = json.loads(LINE)
        changed(line)
        path.write_text(f'{{"type": "settings", "format": 1}}\n{json.dumps(line)}\n')
        with pytest.raises(ConfigError, match=f"line 2 is no answer.*{name}"):
            AnswerFile(path, {})


@pytest.mark.parametrize(
    "segments",
    [None, 7, ["x"], [["large", "x"]], [{"role": "large"}], [{"role": "huge", "text": "x"}], [{"role": "large", "text": 7}]],
)
def test_an_answer_whose_segments_cannot_be_read_is_refused(tmp_path: Path, segments: Any) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f'{{"type": "settings", "format": 1}}\n{json.dumps({**json.loads(LINE), "segments": segments})}\n')
    with pytest.raises(ConfigError, match="line 2 is no answer"):
        AnswerFile(path, {})


def test_settings_without_answers_may_change(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    for settings in ({"seed": 1}, {"seed": 2, "top_p": 0.9}, {}):
        AnswerFile(path, settings).close()
        assert json.loads(path.read_text()) == {"type": "settings", "format": 1, **settings}


@pytest.mark.parametrize("room", [0, 1, 100])
def test_where_there_is_no_room_it_says_so_and_the_lines_before_stay_whole(tmp_path: Path, room: int) -> None:
    path = tmp_path / "answers.jsonl"
    answer = answer_from_dict(json.loads(LINE))
    with AnswerFile(path, {}) as file:
        file.add(answer)
        whole = path.read_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + room, hard))  # to this process, as a full disk
        try:
            with pytest.raises(ConfigError, match=r"cannot be written: .*; what it holds is safe"):
                file.add(replace(answer, sample=1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == whole
        file.add(replace(answer, sample=1))
    with AnswerFile(path, {}) as file:
        assert len(file.answers) == 2


@pytest.mark.parametrize("special", ["/dev/null", "/dev/full", "/dev/zero", "pipe"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, special: str) -> None:
    if special == "pipe":
        special = str(tmp_path / "pipe")
        os.mkfifo(special)
    with pytest.raises(ConfigError, match=r"no plain file|cannot be written"):
        AnswerFile(special, {})


def test_a_file_is_written_by_one_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with AnswerFile(path, {}), pytest.raises(ConfigError, match="another run"):
        AnswerFile(path, {})
    AnswerFile(path, {}).close()
    with pytest.raises(ConfigError, match="cannot be written"):
        AnswerFile(tmp_path / "none" / "answers.jsonl", {})
