"""Hermes tool calls, read out of streamed text piece by piece."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.chat.tool_calls import CallPiece, JsonCall


def read(*pieces: str) -> tuple[str, str, bool | None]:
    """Name, arguments and validity of one call, its inside fed in these pieces."""
    parser = JsonCall()
    got = [piece for text in pieces for piece in parser.feed(text)] + parser.finish()
    names = [piece.name for piece in got if piece.name is not None]
    assert len(names) == 1, "the name comes once, and whole"
    assert got[0].name is not None, "the name comes first"
    assert got[0].arguments == "", "the name comes without arguments"
    assert [piece.valid for piece in got[:-1]] == [None] * (len(got) - 1), "validity is known at the end"
    return names[0], "".join(piece.arguments for piece in got), got[-1].valid


def test_a_call_has_a_name_and_arguments() -> None:
    assert read('\n{"name": "weather", "arguments": {"city": "Oslo"}}\n') == ("weather", '{"city": "Oslo"}', True)


def test_arguments_are_passed_on_as_they_were_written() -> None:
    assert read('{"name":"f","arguments":{ "a":1,\n "b" : [1, {"c": null}] }}')[1] == '{ "a":1,\n "b" : [1, {"c": null}] }'


def test_the_name_is_known_before_the_arguments_are() -> None:
    parser = JsonCall()
    assert parser.feed('{"name": "weather"') == []
    assert parser.feed(', "arguments": {"ci') == [CallPiece(name="weather"), CallPiece(arguments='{"ci')]
    assert parser.feed('ty": "Os') == [CallPiece(arguments='ty": "Os')]
    assert parser.feed('lo"}}') == [CallPiece(arguments='lo"}')]
    assert parser.finish() == [CallPiece(valid=True)]


@pytest.mark.parametrize("value", ["{", "}", '"', "\\", '}}"{{', 'a \\" b', "[", "</x>", "日本 🎉", "line\nbreak"])
def test_braces_quotes_and_any_characters_may_stand_in_strings(value: str) -> None:
    arguments = json.dumps({"q": value, "n": 1}, ensure_ascii=False)
    assert read('{"name": "f", "arguments": ' + arguments + "}") == ("f", arguments, True)


def test_parameters_may_stand_for_arguments() -> None:
    assert read('{"name": "f", "parameters": {"a": 1}}') == ("f", '{"a": 1}', True)


@pytest.mark.parametrize(
    "inside",
    ['{"arguments": {"a": 1}, "name": "f"}', '{"id": 7, "name": "f", "arguments": {"a": 1}}', '{"name": "f", "arguments": "{\\"a\\": 1}"}'],
)
def test_an_unusual_order_or_shape_is_read_at_the_end(inside: str) -> None:
    assert read(inside) == ("f", '{"a": 1}', True)


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert read('{"name": "f"}') == ("f", "{}", True)


def test_a_name_may_hold_escapes() -> None:
    assert read('{"name": "w\\u00e9ather", "arguments": {}}') == ("wéather", "{}", True)


def test_arguments_cut_short_are_kept_and_not_valid() -> None:
    assert read('{"name": "f", "arguments": {"a": "x') == ("f", '{"a": "x', False)


def test_what_is_no_call_is_kept_as_written_and_not_valid() -> None:
    assert read("weather(Oslo)") == ("", "weather(Oslo)", False)
    assert read('{"nom": "f", "arguments": {}}') == ("", '{"nom": "f", "arguments": {}}', False)
    assert read("") == ("", "", False)


def test_arguments_that_are_no_json_or_no_object_are_not_valid() -> None:
    assert read('{"name": "f", "arguments": {a: 1}}') == ("f", "{a: 1}", False)
    assert read('{"name": "f", "arguments": [1]}') == ("f", "[1]", False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@given(st.text(min_size=1, max_size=8), st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.data())
def test_fragments_of_any_size_equal_one_piece(name: str, arguments: dict[str, object], data: st.DataObject) -> None:
    order = data.draw(st.permutations(["name", "arguments"]))
    call = {"name": name, "arguments": arguments}
    inside = json.dumps(
        {key: call[key] for key in order}, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1]))
    )
    pieces, at = [], 0
    while at < len(inside):
        size = data.draw(st.integers(1, 6))
        pieces.append(inside[at : at + size])
        at += size
    got = read(*pieces)
    assert got == read(inside)
    assert (got[0], json.loads(got[1]), got[2]) == (name, arguments, True)


@given(st.text(alphabet='{}[]":,\\ ax1name"arguments', max_size=40), st.integers(1, 5))
def test_fragments_of_broken_calls_equal_one_piece_and_lose_nothing(inside: str, size: int) -> None:
    assert read(*(inside[i : i + size] for i in range(0, len(inside), size))) == read(inside)


@pytest.mark.parametrize("length", [900, 1100, 5000])
def test_a_name_of_any_length_is_read_however_it_is_cut(length: int) -> None:
    text = f'{{"name": "{"n" * length}", "arguments": {{ "a":1}}}}'
    assert read(text) == read(*text)
    assert read(text)[0] == "n" * length
