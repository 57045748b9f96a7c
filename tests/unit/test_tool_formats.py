"""The ways in which families of models write tool calls: read as the same calls however the text is cut, and no text is lost."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations import ConfigError, Event, TextDelta, ToolCallDelta
from relay_integrations.chat.maybe_call import MaybeCall
from relay_integrations.chat.reader import OutputReader
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.chat.tool_formats import (
    HERMES,
    LLAMA,
    MISTRAL,
    MISTRAL_LIST,
    TOOL_FORMATS,
    ToolFormat,
    find_tool_format,
    tool_format_of,
)

Call = tuple[str, str, bool | None]


class Read:
    """What a reader shows of an answer."""

    def __init__(self, form: ToolFormat, *pieces: str, finish: bool = True, **options: Any) -> None:
        self.events: list[Event] = []
        self.reader = OutputReader(self.events.append, lambda: 0.0, tools={"large": form}, **options)
        for piece in pieces:
            self.reader.feed(piece, "large", 0)
        if finish:
            self.reader.finish()

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, TextDelta))

    @property
    def deltas(self) -> list[ToolCallDelta]:
        return [e for e in self.events if isinstance(e, ToolCallDelta)]

    @property
    def calls(self) -> list[Call]:
        """Name, arguments and validity, after checking that each call begins with its name and ends with its validity."""
        found: dict[int, list[ToolCallDelta]] = {}
        for delta in self.deltas:
            found.setdefault(delta.index, []).append(delta)
        assert sorted(found) == list(range(len(found)))
        for parts in found.values():
            assert parts[0].name is not None
            assert parts[0].id is not None
            assert parts[0].arguments == ""
            assert [d.name for d in parts[1:]] == [None] * (len(parts) - 1)
            assert [d.valid is None for d in parts] == [True] * (len(parts) - 1) + [False]
        return [(parts[0].name or "", "".join(d.arguments for d in parts), parts[-1].valid) for parts in found.values()]


def written(form: ToolFormat, *calls: tuple[str, str]) -> str:
    """Calls as a model of that family writes them."""
    return form.opening + form.separator.join(form.before_arguments(n) + a + form.behind for n, a in calls) + form.closing


def cut(text: str, data: st.DataObject) -> list[str]:
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


FORMATS = list(TOOL_FORMATS.values())
by_name = pytest.mark.parametrize("form", FORMATS, ids=lambda f: f.name)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(['"}', "[TOOL_CALLS]x", "; {", "</tool_call", "[ARGS]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
NAMES = st.text(alphabet="abc_-.0", min_size=1, max_size=8)


# --- calls


@by_name
@given(calls=st.lists(st.tuples(NAMES, st.dictionaries(st.text(max_size=5), JSON, max_size=3)), min_size=1, max_size=3), data=st.data())
def test_calls_are_read_however_the_text_is_cut(form: ToolFormat, calls: list[tuple[str, Any]], data: st.DataObject) -> None:
    ascii_only = data.draw(st.booleans())
    texts = [(name, json.dumps(arguments, ensure_ascii=ascii_only)) for name, arguments in calls]
    if form is HERMES:  # a closing tag in a string closes the call: the family has no way to write it
        texts = [(name, arguments.replace("</tool_call", "")) for name, arguments in texts]
    text = written(form, *texts)
    got = Read(form, *cut(text, data))
    assert got.calls == [(name, arguments, True) for name, arguments in texts]
    assert got.text == ""
    assert len({delta.id for delta in got.deltas if delta.id}) == len(calls)


@by_name
def test_arguments_are_streamed_as_they_come(form: ToolFormat) -> None:
    text = written(form, ("f", '{"city": "Oslo", "days": 3}'))
    until = text.index("Oslo")
    deltas = Read(form, *text[:until], finish=False).deltas
    assert "".join(d.arguments for d in deltas) == '{"city": "'
    assert [(d.name, d.valid) for d in deltas[:2]] == [("f", None), (None, None)]


@by_name
def test_nothing_of_a_call_shows_before_it_is_known_to_be_one(form: ToolFormat) -> None:
    text = written(form, ("f", '{"a": 1}'))
    for length in range(len(text)):
        assert Read(form, *text[:length], finish=False).text == ""


@by_name
def test_text_may_stand_behind_calls(form: ToolFormat) -> None:
    text = written(form, ("f", "{}"), ("g", "{}"))
    for got in (Read(form, text + "\n\nDone."), Read(form, *(text + "\n\nDone."))):
        assert [name for name, _, _ in got.calls] == ["f", "g"]
        assert got.text == "Done."


@pytest.mark.parametrize("form", [HERMES, MISTRAL, MISTRAL_LIST], ids=lambda f: f.name)
def test_text_may_stand_in_front_of_calls_that_have_a_mark(form: ToolFormat) -> None:
    text = "Let me see. [x] <b>\n" + written(form, ("f", '{"a": 1}'))
    for got in (Read(form, text), Read(form, *text)):
        assert (got.text, got.calls) == ("Let me see. [x] <b>\n", [("f", '{"a": 1}', True)])


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "parameters": {"a": 1}}',
        '\n {"name": "f", "parameters": {"a": 1}}\n',
        '<|python_tag|>{"name": "f", "parameters": {"a": 1}}',
        '<|python_tag|> {"name": "f", "arguments": {"a": 1}}',
        '{"type": "function", "name": "f", "parameters": {"a": 1}}',
        '{"parameters": {"a": 1}, "name": "f"}',
        '{ "name" : "f" , "parameters" : {"a": 1} }',
    ],
)
def test_llama_writes_bare_json(text: str) -> None:
    for got in (Read(LLAMA, text), Read(LLAMA, *text)):
        assert (got.text, got.calls) == ("", [("f", '{"a": 1}', True)])


@pytest.mark.parametrize("between", ["; ", ";", "\n", " ;\n\n", " ", ""])
def test_llama_separates_calls_in_many_ways(between: str) -> None:
    call = '{"name": "f", "parameters": {}}'
    for opening in ("", "<|python_tag|>"):
        got = Read(LLAMA, *(opening + call + between + call + between))
        assert (got.text, got.calls) == ("", [("f", "{}", True)] * 2)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]', [("f", '{"a": 1}', True)]),
        (
            '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "123456789"}, {"name": "g", "arguments": {}}]',
            [("f", "{}", True), ("g", "{}", True)],
        ),
        ('[TOOL_CALLS]{"name": "f", "arguments": {"a": 1}}', [("f", '{"a": 1}', True)]),
        ('[TOOL_CALLS]f[ARGS]{"a": 1}', [("f", '{"a": 1}', True)]),
        ('[TOOL_CALLS]f{"a": 1}', [("f", '{"a": 1}', True)]),
        ('[TOOL_CALLS] f [CALL_ID]abcdefghi[ARGS] {"a": 1}', [("f", '{"a": 1}', True)]),
        ('[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]{"a": "[TOOL_CALLS]"}', [("f", "{}", True), ("g", '{"a": "[TOOL_CALLS]"}', True)]),
        ("[TOOL_CALLS]f[TOOL_CALLS]g[ARGS]{}", [("", "f", False), ("g", "{}", True)]),
    ],
)
@pytest.mark.parametrize("form", [MISTRAL, MISTRAL_LIST], ids=lambda f: f.name)
def test_mistral_writes_a_list_or_names(form: ToolFormat, text: str, calls: list[Call]) -> None:
    for got in (Read(form, text), Read(form, *text)):
        assert (got.text, got.calls) == ("", calls)


# --- what is no call, or none that can be read


PROSE = st.lists(
    st.sampled_from(["a", " ", "\n", "<", "<tool", "_call>", "[", "[TOOL_", "CALLS", "<|python", "{", "}", '"name"', ": ", "é"]),
    max_size=14,
)


@by_name
@given(prose=PROSE.map("".join), data=st.data())
def test_text_that_is_no_call_comes_out_unchanged(form: ToolFormat, prose: str, data: st.DataObject) -> None:
    text = "So: " + prose + "."
    if any(mark in text for mark in form.marks):
        return
    got = Read(form, *cut(text, data))
    assert (got.text, got.calls) == (text, [])


@given(st.dictionaries(st.sampled_from(["name", "nam", "age", "id", "type", "parameter", "city"]), JSON, max_size=3), st.data())
def test_json_that_is_no_call_comes_out_unchanged(answer: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(answer, ensure_ascii=data.draw(st.booleans()))
    got = Read(LLAMA, *cut(text, data))
    assert (got.text, got.calls) == (text, [])


def test_json_that_is_no_call_is_shown_as_soon_as_that_is_known() -> None:
    assert Read(LLAMA, '{"na', finish=False).text == ""
    assert Read(LLAMA, '{"na', "t", finish=False).text == '{"nat'
    assert Read(LLAMA, '{"name": "Mia", "a', finish=False).text == ""
    assert Read(LLAMA, '{"name": "Mia", "ag', finish=False).text == '{"name": "Mia", "ag'


@given(
    st.dictionaries(st.sampled_from(["name", "parameters", "arguments", "type", "id", "x"]), JSON | st.just("f") | st.just({"a": 1})),
    st.data(),
)
def test_a_bare_call_is_told_from_other_json(answer: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(answer)
    keys = set(answer)
    strings = all(isinstance(answer[key], str) for key in keys & {"name", "type", "id"})
    objects = all(isinstance(answer[key], dict) for key in keys & {"parameters", "arguments"})
    is_call = "name" in keys and bool(keys & {"parameters", "arguments"}) and strings and objects
    watch, verdict = MaybeCall(), None
    for end in range(1, len(text) + 1):
        verdict = watch.look(text[:end])
        if verdict is not None:
            break
    if is_call and keys <= {"name", "parameters", "arguments", "type", "id"}:
        assert verdict is True
    elif verdict is True:  # known to be one before the key that would have spoken against it
        read = json.JSONDecoder().raw_decode(text)[0]
        assert "name" in read
        assert {"parameters", "arguments"} & set(read)
    assert verdict is not None


@pytest.mark.parametrize(
    ("form", "text", "call"),
    [
        (HERMES, "<tool_call>\nweather(Oslo)\n</tool_call>", ("", "weather(Oslo)", False)),
        (HERMES, '<tool_call>{"name": "f", "arguments": {"a": ', ("f", '{"a": ', False)),
        (LLAMA, '<|python_tag|>weather.call(city="Oslo")', ("", 'weather.call(city="Oslo")', False)),
        (LLAMA, '{"name": "f", "parameters": {"a": ', ("f", '{"a": ', False)),
        (LLAMA, '{"name": "f", "parameters": {a: 1}}', ("f", "{a: 1}", False)),
        (MISTRAL, "[TOOL_CALLS]weather(Oslo)", ("", "weather(Oslo)", False)),
        (MISTRAL, "[TOOL_CALLS]weather[ARGS]", ("weather", "", False)),
        (MISTRAL, '[TOOL_CALLS]f[ARGS]{"a": ', ("f", '{"a": ', False)),
        (MISTRAL, "[TOOL_CALLS]", ("", "", False)),
        (MISTRAL_LIST, '[TOOL_CALLS] [{"name": "f", "arguments": {"a": ', ("f", '{"a": ', False)),
        (MISTRAL_LIST, "[TOOL_CALLS] [weather(Oslo)]", ("", "[weather(Oslo)]", False)),
        (MISTRAL_LIST, "[TOOL_CALLS] [", ("", "[", False)),
    ],
)
def test_a_call_that_cannot_be_read_is_kept_and_not_valid(form: ToolFormat, text: str, call: Call) -> None:
    for got in (Read(form, text), Read(form, *text)):
        assert (got.text, got.calls) == ("", [call])


def test_a_bare_call_that_was_never_known_to_be_one_is_text() -> None:
    assert Read(LLAMA, '{"name": "f"').text == '{"name": "f"'
    assert Read(LLAMA, '{"name": "f"}').text == '{"name": "f"}'
    assert Read(LLAMA, "{").text == "{"


# --- in the reader


def test_a_bare_call_stands_at_the_beginning_of_the_answer_only() -> None:
    call = '{"name": "f", "parameters": {}}'
    assert Read(LLAMA, *("It is " + call)).text == "It is " + call
    got = Read(LLAMA, *("<think>It is " + call + "</think>\n\n" + call), tags=[ThinkTags()])
    assert (got.text, got.calls) == ("It is " + call, [("f", "{}", True)])


def test_a_stop_sequence_counts_in_json_that_is_no_call_and_not_in_a_call() -> None:
    got = Read(LLAMA, *'{"name": "Mia STOP", "age": 3}', stops=["STOP"])
    assert (got.text, got.reader.stopped) == ('{"name": "Mia ', "STOP")
    got = Read(LLAMA, *'{"name": "f", "parameters": {"a": "STOP"}}', stops=["STOP"])
    assert (got.text, got.calls) == ("", [("f", '{"a": "STOP"}', True)])


def test_a_call_is_open_while_it_may_still_be_one() -> None:
    assert not Read(LLAMA, " ", finish=False).reader.in_call
    assert Read(LLAMA, '{"na', finish=False).reader.in_call
    assert not Read(LLAMA, '{"nat', finish=False).reader.in_call


@by_name
def test_behind_as_many_calls_as_are_welcome_nothing_more_is_read(form: ToolFormat) -> None:
    text = written(form, ("f", '{"a": 1}'), ("g", "{}")) + "\nDone."
    for got in (Read(form, text, most_calls=1), Read(form, *text, most_calls=1)):
        assert (got.text, got.calls, got.reader.over) == ("", [("f", '{"a": 1}', True)], True)


def test_each_role_is_read_by_its_own_format() -> None:
    events: list[Event] = []
    reader = OutputReader(events.append, lambda: 0.0, tags=[ThinkTags()], tools={"large": HERMES, "small": LLAMA})
    reader.feed("<think>a</think>", "large", 0)
    for ch in written(LLAMA, ("f", "{}")):
        reader.feed(ch, "small", 1)
    for ch in "\n" + written(HERMES, ("g", "{}")) + "\n" + '{"name": "h"}':
        reader.feed(ch, "large", 2)
    reader.finish()
    assert [(e.name, e.role) for e in events if isinstance(e, ToolCallDelta) and e.name] == [("f", "small"), ("g", "large")]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == 'a{"name": "h"}'


# --- which format


def test_a_format_is_found_by_its_name() -> None:
    assert find_tool_format("llama") is LLAMA
    with pytest.raises(ConfigError, match=r"unknown tool_format 'gpt'; there are: hermes, llama, mistral, mistral-list"):
        find_tool_format("gpt")


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ '<tool_call>' }}", HERMES),
        ("{{ messages }}", HERMES),
        ('Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.', LLAMA),
        ("{{ '<|python_tag|>' + x }}", LLAMA),
        ("<|python_tag|> <tool_call>", HERMES),
        ("{{ '[TOOL_CALLS]' + tool.name + '[ARGS]' + arguments }}", MISTRAL),
        ('{{ "[TOOL_CALLS][" }}', MISTRAL_LIST),
    ],
)
def test_a_chat_template_shows_its_format(template: str, form: ToolFormat) -> None:
    assert tool_format_of(template) == form


def test_a_list_is_opened_as_its_template_opens_it() -> None:
    assert written(tool_format_of('{{ "[TOOL_CALLS] [" }}'), ("f", "{}")) == '[TOOL_CALLS] [{"name": "f", "arguments": {}}]'
