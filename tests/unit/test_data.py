"""The items that models are judged by: files of the user's, and named sets (their rows are made here; nothing is fetched)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.boxed import last_box
from relay_integrations.evaluation.data import Item, draw, find_data, load_jsonl
from relay_integrations.evaluation.named_data import HUB_SETS, NAMED, load_named
from tests.unit.support import WEATHER


def written(path: Path, *lines: Any) -> Path:
    file = path / "mine.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), encoding="utf-8")
    return file


def asked(item: Item) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in item.messages]


# --- files


def test_a_question_and_an_answer_are_enough(tmp_path: Path) -> None:
    (item,) = load_jsonl(written(tmp_path, {"question": "2+2?", "answer": 4}))
    assert (item.id, asked(item), item.reference) == ("1", [("user", "2+2?")], "4")
    assert (item.question, item.grader, item.family, item.tools) == ("2+2?", None, None, ())


def test_all_that_a_line_may_hold(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rain?"}]
    line = {"id": 7, "messages": turns, "reference": "yes", "grader": "regex", "family": "weather", "tools": [WEATHER], "source": "x"}
    (item,) = load_jsonl(written(tmp_path, line))
    assert (item.id, asked(item)) == ("7", [("system", "Be brief."), ("user", "Rain?")])
    assert (item.reference, item.grader, item.family, item.tools) == ("yes", "regex", "weather", (WEATHER,))
    assert item.question == "Rain?"


@pytest.mark.parametrize("prompt", ["Rain?", [{"role": "user", "content": "Rain?"}]])
def test_a_prompt_is_text_or_a_conversation(tmp_path: Path, prompt: Any) -> None:
    assert load_jsonl(written(tmp_path, {"prompt": prompt, "answer": "no"}))[0].question == "Rain?"


def test_a_byte_order_mark_blank_lines_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes('\ufeff\r\n{"question": "a\\u2028b\u2028c", "answer": "1"}\r\n  \r\n{"question": "d", "answer": "2"}'.encode())
    assert [(item.id, item.question) for item in load_jsonl(file)] == [("2", "a\u2028b\u2028c"), ("4", "d")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not JSON"]),
        ("[1]", ["JSON object", "list"]),
        ("[" * 100_000, ["not JSON"]),
        ('{"question": "a",', ["not JSON", "each line must hold one object", "character 19"]),
        ('{"question": "a", "answer": "4"} {"question": "b", "answer": "4"}', ["Extra data at character 34"]),
        ('{"question": "a", "question": "b", "answer": "4"}', ["'question' stands twice"]),
        ('{"messages": [{"role": "user", "content": "a", "role": "user"}], "answer": "4"}', ["'role' stands twice"]),
        ('{"question": "a", "answer": NaN}', ['"answer" holds nan']),
        ('{"question": "a", "answer": -Infinity}', ['"answer" holds -inf']),
        ('{"question": "a", "answer": 1e999}', ['"answer" holds inf']),
        ({f"key {number}": 1 for number in range(1000)}, ["no question", "…)"]),
        ({"answer": "4"}, ["no question", '"question" or "prompt" or "messages"', 'there is: "answer"']),
        ({"question": "2+2?"}, ["no answer", '"answer" or "reference"']),
        ({"question": "2+2?", "answer": None}, ["no answer"]),
        ({}, ["no question", "nothing"]),
        ({"question": "a", "prompt": "b", "answer": "4"}, ["more than one question"]),
        ({"question": "a", "answer": "4", "reference": "5"}, ["more than one answer"]),
        ({"question": ["a"], "answer": "4"}, ['"question" must be text', "messages"]),
        ({"question": " ", "answer": "4"}, ["blank"]),
        ({"messages": [], "answer": "4"}, ["empty"]),
        ({"messages": [{"role": "user"}, {"role": "assistant", "content": "x"}], "answer": "4"}, ["last message"]),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "answer": "4"}, ["image_url"]),
        ({"question": "a", "answer": ["4"]}, ['"answer" must be text or a number, not a list']),
        ({"question": "a", "answer": True}, ["true or false"]),
        ({"question": "a", "answer": "4", "id": [1]}, ['"id"']),
        ({"question": "a", "answer": "4", "grader": "maths"}, ["maths", "exact"]),
        ({"question": "a", "answer": "4", "grader": "command:rm -rf x"}, ["cannot name a command"]),
        ({"question": "a", "answer": "4", "tools": {}}, ['"tools" must be a list']),
        ({"question": "a", "answer": "4", "tools": [{}]}, ["tools[0]"]),
        ({"question": "b", "answer": "4", "id": "1"}, ["'1'", "before"]),
        ({"question": "a", "answer": "4", "id": 1.5}, ['"id" must be text, not a number']),
    ],
)
def test_a_wrong_line_is_named_by_file_and_number(tmp_path: Path, line: Any, words: list[str]) -> None:
    file = written(tmp_path, {"question": "2+2?", "answer": "4", "id": 1}, "", line)
    with pytest.raises(ConfigError) as caught:
        load_jsonl(file)
    message = str(caught.value)
    assert message.startswith(f"'{file}', line 3: ")
    assert all(word in message for word in words)


PLACES: list[Callable[[str], dict[str, Any]]] = [
    lambda value: {"question": value, "answer": "4"},
    lambda value: {"prompt": [{"role": "user", "content": value}], "answer": "4"},
    lambda value: {"messages": [{"role": "user", "content": "a", "name": value}], "answer": "4"},
    lambda value: {"question": "a", "answer": value},
    lambda value: {"question": "a", "reference": value},
    lambda value: {"question": "a", "answer": "4", "id": value},
    lambda value: {"question": "a", "answer": "4", "grader": value},
    lambda value: {"question": "a", "answer": "4", "family": value},
    lambda value: {"question": "a", "answer": "4", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": value}}}]},
]
"""Wherever a text that is used may stand in a line."""


@pytest.mark.parametrize("place", PLACES)
def test_half_a_character_is_refused_wherever_it_stands(tmp_path: Path, place: Callable[[str], dict[str, Any]]) -> None:
    with pytest.raises(ConfigError, match=r"line 1: .*lone surrogate"):
        load_jsonl(written(tmp_path, place("x\ud800")))


@pytest.mark.parametrize("place", PLACES)
def test_what_is_nested_without_end_is_refused(tmp_path: Path, place: Callable[[str], dict[str, Any]]) -> None:
    line = json.dumps(place("VALUE")).replace('"VALUE"', "[" * 500 + "]" * 500)
    with pytest.raises(ConfigError, match=r"line 1: .*nested more than 100 deep"):
        load_jsonl(written(tmp_path, line))


def test_what_is_not_used_may_hold_anything(tmp_path: Path) -> None:
    line = '{"question": "a", "answer": "4", "score": NaN, "note": "\\ud800", "source": ' + "[" * 500 + "]" * 500 + "}"
    assert load_jsonl(written(tmp_path, line))[0].reference == "4"


@pytest.mark.parametrize("number", ["42", "42.0", "1.50", "1e22", "0.00001", "-0.0", "12345678901234567890.5"])
def test_a_number_is_spelled_as_it_stands(tmp_path: Path, number: str) -> None:
    assert load_jsonl(written(tmp_path, f'{{"question": "a", "answer": {number}}}'))[0].reference == number


def test_a_pipe_can_be_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"question": "2+2?", "answer": 4}\n',))
    writer.start()
    assert [item.question for item in find_data(pipe)] == ["2+2?"]
    writer.join()


@pytest.mark.parametrize("name", ["x" * 300, "no/such/" + "x" * 300, "mine.jsonl/x", "", "\udcff", "loop"])
def test_any_name_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {"question": "a", "answer": "4"})
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match="there is no file"):
        find_data(name)


def test_an_empty_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no items"):
        load_jsonl(written(tmp_path, ""))
    with pytest.raises(ConfigError, match="No such file"):
        load_jsonl(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes('{"question": "é"}'.encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_jsonl(tmp_path / "latin.jsonl")


def test_a_larger_number_draws_the_same_items_and_more() -> None:
    items = [Item(str(number), (), "") for number in range(50)]
    few, more = ([item.id for item in draw(items, 3, n)] for n in (5, 20))
    assert set(few) < set(more)
    assert few == sorted(few, key=int)
    assert few != [item.id for item in draw(items, 4, 5)]
    assert draw(items, 3, None) == draw(items, 3, 50) == draw(items, 3, 99) == items


def test_data_is_found_by_path_or_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, *({"question": f"{number}?", "answer": number} for number in range(9)))
    assert len(find_data(file)) == 9
    assert len(find_data(str(file), seed=1, n=4)) == 4
    monkeypatch.chdir(tmp_path)
    file.rename(tmp_path / "tiny")
    assert find_data("tiny")[0].question == "0?"  # a file that is there goes before a name
    with pytest.raises(ConfigError, match=r"'none.jsonl'.*math-500"):
        find_data("none.jsonl")
    with pytest.raises(ConfigError, match="is a folder"):
        find_data(tmp_path)


# --- named sets

PROBLEM = {"id": 60, "unique_id": "test/algebra/1.json", "problem": " Find $x$. ", "answer": "204", "subject": "Algebra"}
QUESTIONS = [
    {
        "Record ID": f"rec{number}",
        "Question": f"Which is {number}?\n",
        "Correct Answer": f"right {number}\n",
        **{f"Incorrect Answer {i}": f"wrong {i}" for i in (1, 2, 3)},
        "High-level domain": "Physics",
    }
    for number in range(40)
]


def loader(rows: Iterable[Any]) -> Any:
    return lambda source: rows


def option(item: Item, letter: str) -> str:
    return next(line[3:] for line in item.question.splitlines() if line.startswith(f"{letter}) "))


def test_problems_ask_for_a_boxed_answer() -> None:
    (item,) = load_named("aime24", loader=loader([PROBLEM]))
    assert (item.id, item.reference, item.grader) == ("aime24/60", "204", "math")
    assert item.question.startswith("Find $x$.\n\n")
    assert "\\boxed{}" in item.question
    assert "\b" not in item.question
    assert load_named("math-500", loader=loader([PROBLEM]))[0].id == "math-500/test/algebra/1.json"
    assert load_named("math-500", loader=loader([PROBLEM]))[0].family == "Algebra"


def test_options_are_shuffled_and_the_letter_is_the_reference() -> None:
    items = load_named("gpqa-diamond", 1, loader(QUESTIONS))
    for number, item in enumerate(items):
        assert option(item, item.reference) == f"right {number}"
        assert sorted(option(item, letter) for letter in "ABCD") == [f"right {number}", "wrong 1", "wrong 2", "wrong 3"]
        assert last_box(item.question) is not None
        assert item.family == "Physics"
    assert {item.reference for item in items} == set("ABCD")


def test_the_order_of_options_depends_on_the_seed_and_the_item_alone() -> None:
    items = {item.id: item for item in load_named("gpqa-diamond", 1, loader(QUESTIONS))}
    others = load_named("gpqa-diamond", 1, loader(QUESTIONS[20:5:-1]))
    assert all(items[item.id] == item for item in others)
    assert items != {item.id: item for item in load_named("gpqa-diamond", 2, loader(QUESTIONS))}


@pytest.mark.parametrize("name", list(HUB_SETS))
def test_a_set_whose_columns_have_changed_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=r"row 0 .* columns: Prompt"):
        load_named(name, loader=loader([{"Prompt": "x"}]))


def test_an_unknown_set_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'gsm8k'.*aime24"):
        load_named("gsm8k")


def test_the_tiny_set_needs_no_download() -> None:
    assert NAMED[-1] == "tiny"
    items = find_data("tiny", seed=2, n=10)
    assert len(items) == 10
    assert all(item.grader == "exact" and item.reference.isdigit() for item in items)
    assert items != find_data("tiny", seed=3, n=10)


def test_a_missing_package_is_named_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'relay-integrations\[evaluate\]'"):
        load_named("aime24")


@pytest.mark.parametrize(
    ("offline", "name", "words"),
    [("1", "gpqa-diamond", "HF_HUB_OFFLINE is set"), ("0", "gpqa-diamond", "accept its terms"), ("0", "aime24", "check the network")],
)
def test_a_set_that_cannot_be_had_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: str, name: str, words: str
) -> None:
    (tmp_path / "datasets.py").write_text("def load_dataset(*names, split): raise ConnectionError(f'no way to {names} {split}')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    try:
        with pytest.raises(ConfigError, match=f"{words}.*ConnectionError: no way to"):
            load_named(name)
    finally:
        sys.modules.pop("datasets", None)


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed")
def test_rows_are_read_with_the_real_package(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "test.jsonl").write_text("".join(json.dumps({**PROBLEM, "id": number}) + "\n" for number in range(3)))
    code = (
        "import sys; from dataclasses import replace; from relay_integrations.evaluation.named_data import HUB_SETS, hub_rows, load_named\n"
        "source = replace(HUB_SETS['aime25'], repo=sys.argv[1])\n"
        "print(*(item.id for item in load_named('aime25', loader=lambda _: hub_rows(source))))"
    )
    env = os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code, str(folder)], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["aime25/0", "aime25/1", "aime25/2"], done.stderr


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed")
def test_the_real_package_offline_says_what_to_do(tmp_path: Path) -> None:
    code = "from relay_integrations.evaluation.named_data import load_named; load_named('aime25')"
    env = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert "HF_HUB_OFFLINE is set" in done.stderr
