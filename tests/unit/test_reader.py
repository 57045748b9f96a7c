"""From raw text to what a user sees: channels, stop sequences, tool calls; nothing that is no text ever shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from relay_integrations.chat.reader import OutputReader
from relay_integrations.chat.tags import ThinkTags, translate
from relay_integrations.chat.tool_formats import HERMES, ToolFormat
from relay_integrations.events import Event, Handoff, ReasoningClosed, TextDelta, ToolCallDelta

TAGS = (ThinkTags(),)


class Reading:
    """What a reader makes of a text."""

    def __init__(self, *, tags: Sequence[ThinkTags] = TAGS, tools: ToolFormat | None = None, **options: Any) -> None:
        self.events: list[Event] = []
        if tools is not None:
            options["tools"] = {"large": tools, "small": tools}
        self.reader = OutputReader(self.events.append, lambda: 0.0, tags=tags, **options)

    def feed(self, *pieces: str, role: Any = "large", segment: int = 0) -> Reading:
        for piece in pieces:
            self.reader.feed(piece, role, segment)
        return self

    def finish(self) -> Reading:
        self.reader.finish()
        return self

    def text(self, channel: str) -> str:
        return "".join(e.text for e in self.events if isinstance(e, TextDelta) and e.channel == channel)

    @property
    def both(self) -> tuple[str, str]:
        return self.text("reasoning"), self.text("answer")

    @property
    def calls(self) -> list[ToolCallDelta]:
        return [e for e in self.events if isinstance(e, ToolCallDelta)]


def read(*pieces: str, **options: Any) -> Reading:
    return Reading(**options).feed(*pieces).finish()


# --- the channels


def test_a_closing_tag_alone_in_the_answer_is_dropped_however_it_is_cut() -> None:
    text = "It is 4.\n</think>\n\nIt is 4, I say.</think>"
    assert read(text).both == read(*text).both == ("", "It is 4.\nIt is 4, I say.")
    again = "<think>a</think>b</think>c"
    assert read(again).both == read(*again).both == ("a", "bc")


def test_a_pair_of_tags_in_the_answer_is_text() -> None:
    text = "<think>a</think>Write <think>x</think>, not y</think>."
    assert read(text).both == read(*text).both == ("a", "Write <think>x</think>, not y.")


def test_reasoning_stands_between_the_tags_and_the_answer_behind_them() -> None:
    assert read("<think>\nHmm.\n</think>\n\nIt is 4.").both == ("Hmm.\n", "It is 4.")


def test_tags_may_be_split_over_any_chunks() -> None:
    assert read(*"<think>\nHmm.\n</think>\n\nIt is 4.").both == ("Hmm.\n", "It is 4.")


def test_a_template_may_have_opened_the_reasoning() -> None:
    assert read("Hmm.\n</think>\n\nIt is 4.", reasoning_open=True).both == ("Hmm.\n", "It is 4.")


def test_an_open_tag_that_is_written_though_the_template_did_is_dropped() -> None:
    assert read("<thi", "nk>\nHmm.</think>It is 4.", reasoning_open=True).both == ("Hmm.", "It is 4.")


def test_reasoning_that_is_never_closed_stays_reasoning() -> None:
    assert read("<think>\nHmm, let me").both == ("Hmm, let me", "")
    assert read("Hmm, let me", reasoning_open=True).both == ("Hmm, let me", "")


def test_without_reasoning_all_is_answer() -> None:
    assert read("It is 4.").both == ("", "It is 4.")
    assert read("<think>It is 4.", tags=()).both == ("", "<think>It is 4.")


def test_a_tag_counts_only_where_it_can_stand() -> None:
    assert read("The tag <think> opens").both == ("", "The tag <think> opens")
    assert read("<think>a <think> b</think>c").both == ("a <think> b", "c")


def test_white_space_in_front_of_the_open_tag_is_dropped() -> None:
    assert read("\n ", "<think>a</think>b").both == ("a", "b")


def test_each_model_may_have_tags_of_its_own() -> None:
    tags = (ThinkTags(), ThinkTags("[R]", "[/R]"))
    assert read("<think>a[/R]b", tags=tags).both == ("a", "b")
    assert read("[R]a</think>b", tags=tags).both == ("a", "b")


def test_text_that_only_looks_like_a_tag_comes_through() -> None:
    assert read(*"<think>a </b> < c</think>1 < 2 <b").both == ("a </b> < c", "1 < 2 <b")


def test_the_channel_is_known_while_reading() -> None:
    reading = Reading()
    assert reading.reader.channel == "answer"
    assert reading.feed("<think>a").reader.channel == "reasoning"
    assert reading.feed("</think>").reader.channel == "answer"
    assert Reading(reasoning_open=True).reader.channel == "reasoning"


# --- what is held back


def test_what_may_become_a_tag_is_held_back_and_comes_when_it_is_none() -> None:
    reading = Reading().feed("<think>a</th")
    assert reading.both == ("a", "")
    assert reading.feed("e").both == ("a</the", "")


def test_text_that_can_be_nothing_else_is_not_held_back() -> None:
    reading = Reading(stops=["\nUser:"]).feed("Hello ")
    assert reading.both == ("", "Hello ")
    assert reading.feed("there\n").both == ("", "Hello there")


def test_a_fragment_of_a_tag_at_the_very_end_never_shows() -> None:
    assert read("<think>a</thin").both == ("a", "")
    assert read("<thin").both == ("", "")
    assert read("b<tool_", tools=HERMES).both == ("", "b")


def test_a_single_character_at_the_end_is_text() -> None:
    assert read("<think>1 <").both == ("1 <", "")
    assert read("<think>a</think>", "<").both == ("a", "<")


def test_a_fragment_of_a_stop_sequence_at_the_very_end_is_text() -> None:
    assert read("Hello\nUs", stops=["\nUser:"]).both == ("", "Hello\nUs")


def test_closing_by_force_takes_what_is_held_for_reasoning() -> None:
    reading = Reading().feed("<think>a\n", "<")
    reading.reader.close_reasoning(7)
    assert reading.feed("\n\nb").finish().both == ("a\n<", "b")
    assert [e.by for e in reading.events if isinstance(e, ReasoningClosed)] == ["budget"]


# --- stop sequences


def test_a_stop_sequence_ends_the_text_and_is_no_part_of_it() -> None:
    reading = read("It is 4. END and", " more", stops=["END", "FIN"])
    assert reading.both == ("", "It is 4. ")
    assert reading.reader.stopped == "END"


def test_a_stop_sequence_counts_in_the_reasoning() -> None:
    reading = read("<think>a STOP b</think>c", stops=["STOP"])
    assert reading.both == ("a ", "")
    assert not any(isinstance(e, ReasoningClosed) for e in reading.events)


@pytest.mark.parametrize("seam", range(1, 10))
def test_a_stop_sequence_may_be_split_anywhere_even_over_segments(seam: int) -> None:
    text = "ab\nUser: cd"
    reading = Reading(stops=["\nUser:"]).feed(text[:seam]).feed(text[seam:], role="small", segment=1).finish()
    assert reading.both == ("", "ab")
    assert reading.reader.stopped == "\nUser:"


def test_the_stop_sequence_that_is_complete_first_wins_and_of_two_the_longer() -> None:
    assert read("a bcd", stops=["bcd", "c"]).reader.stopped == "c"
    assert read("a bcd", stops=["d", "bcd"]).reader.stopped == "bcd"


def test_after_a_stop_sequence_nothing_more_is_read() -> None:
    assert read("a END", "b", "c", stops=["END"]).both == ("", "a ")


@pytest.mark.parametrize("stop", ["think", "<", "</", ">", "a</think>"])
def test_a_stop_sequence_does_not_count_inside_a_tag_or_across_one(stop: str) -> None:
    whole, split = read("<think>a</think>b", stops=[stop]), read(*"<think>a</think>b", stops=[stop])
    assert whole.both == split.both == ("a", "b")
    assert whole.reader.stopped is split.reader.stopped is None


@pytest.mark.parametrize("text", ["1 < 2", "1 <", "1 </b", "1 </"])
def test_a_stop_sequence_counts_where_a_tag_only_seems_to_begin(text: str) -> None:
    for reading in (read("<think>", text, stops=["<"]), read("<think>", *text, stops=["<"])):
        assert reading.both == ("1 ", "")
        assert reading.reader.stopped == "<"


def test_line_breaks_behind_the_closing_tag_are_no_text_and_no_stop() -> None:
    assert read("<think>a</think>\n\n", "\nb\n\nc", stops=["\n\n"]).both == ("a", "b")


def test_a_stop_sequence_of_white_space_counts_from_the_first_character_on() -> None:
    assert read("\n\n", stops=["\n\n"]).reader.stopped == "\n\n"
    assert read("\n\nHello", stops=["\n\n"]).both == ("", "")


# --- tool calls


def test_a_call_is_no_text() -> None:
    reading = read('Let me see.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\nDone.', tools=HERMES)
    assert reading.both == ("", "Let me see.\nDone.")
    assert [(c.index, c.name, c.arguments, c.valid) for c in reading.calls] == [
        (0, "f", "", None),
        (0, None, '{"a": 1}', None),
        (0, None, "", True),
    ]
    assert reading.reader.calls == 1


def test_several_calls_are_numbered_and_have_ids_of_their_own() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    reading = read(*(call + "\n" + call), tools=HERMES, call_id="id{}".format)
    assert [(c.index, c.id) for c in reading.calls if c.name] == [(0, "id0"), (1, "id1")]
    assert reading.both == ("", "")


def test_a_call_that_is_never_closed_is_closed_at_the_end() -> None:
    reading = read('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool', tools=HERMES)
    assert "".join(c.arguments for c in reading.calls) == '{"a": 1}'
    assert reading.calls[-1].valid is True
    assert read('<tool_call>{"name": "f", "arg', tools=HERMES).calls[-1].valid is False


def test_stop_sequences_do_not_count_inside_a_call() -> None:
    reading = read('<tool_call>{"name": "f", "arguments": {"a": "END"}}</tool_call> b END c', tools=HERMES, stops=["END"])
    assert reading.calls[-1].valid is True
    assert reading.both == ("", " b ")


def test_a_call_in_the_reasoning_is_only_talked_about() -> None:
    reading = read("<think>I could <tool_call>x</tool_call></think>b", tools=HERMES)
    assert reading.both == ("I could <tool_call>x</tool_call>", "b")
    assert reading.calls == []


def test_without_tools_the_markup_is_text() -> None:
    assert read("<tool_call>x</tool_call>").both == ("", "<tool_call>x</tool_call>")


def test_whether_a_call_is_open_is_known_while_reading() -> None:
    reading = Reading(tools=HERMES).feed("a <tool_call>{")
    assert reading.reader.in_call
    assert not reading.feed("}</tool_call>").reader.in_call


# --- order


def handoff() -> Handoff:
    return Handoff(index=0, from_role="large", to_role="small", from_model="L", to_model="S", reason="cue", position=0)


def outline(events: list[Event]) -> list[str]:
    return [e.text if isinstance(e, TextDelta) else e.type for e in events]


def test_a_marked_event_waits_for_the_text_that_is_held_in_front_of_it() -> None:
    reading = Reading().feed("<think>a</th")
    reading.reader.mark(handoff())
    assert outline(reading.events) == ["a"]
    reading.feed("ank>b", role="small", segment=1)
    assert outline(reading.events) == ["a", "</th", "handoff", "ank>b"]
    assert [e.role for e in reading.events if isinstance(e, TextDelta)] == ["large", "large", "small"]


def test_a_marked_event_comes_at_once_where_nothing_is_held() -> None:
    reading = Reading().feed("<think>a")
    reading.reader.mark(handoff())
    assert outline(reading.events) == ["a", "handoff"]


def test_the_reasoning_closes_in_front_of_the_answer_even_within_one_chunk() -> None:
    assert outline(read("<think>a</think>b").events) == ["a", "reasoning_closed", "b"]


def test_a_tag_over_a_seam_belongs_to_whoever_completes_it() -> None:
    reading = Reading().feed("<think>a</th").feed("ink>b", role="small", segment=1)
    assert [e.by for e in reading.events if isinstance(e, ReasoningClosed)] == ["small"]
    assert [(e.role, e.segment) for e in reading.events if isinstance(e, TextDelta)] == [("large", 0), ("small", 1)]


def test_no_delta_is_empty() -> None:
    assert all(e.text for e in read(*"<think>a\n</think>\n\nb", stops=["xyz"]).events if isinstance(e, TextDelta))


# --- the other model's tags


def test_tags_are_translated_for_the_other_model() -> None:
    ours, theirs = ThinkTags(), ThinkTags("[R]", "[/R]")
    assert translate("<think>a</think>b", ours, theirs) == "[R]a[/R]b"
    assert translate("<think>a</think>b", ours, None) == "ab"
    assert translate("[R]a", None, ours) == "[R]a"


# --- an answer that is held until it may begin


def test_a_held_answer_is_not_shown_and_the_reasoning_is() -> None:
    reading = Reading(hold_answer=True).feed("<think>a</think>\n\nb", " c")
    assert reading.reader.answering
    assert reading.both == ("a", "")
    reading.reader.open_answer()
    assert reading.feed("\n{}").finish().both == ("a", "{}")


@pytest.mark.parametrize("pieces", [("It is",), ("\n", " ", "I"), ("<", "t", "x"), ("<tool_call>",)], ids=str)
def test_what_may_open_the_reasoning_is_told_from_a_held_answer_as_soon_as_that_is_known(pieces: tuple[str, ...]) -> None:
    reading = Reading(hold_answer=True)
    assert reading.reader.leading
    for piece in pieces[:-1]:
        assert not reading.feed(piece).reader.answering
    assert reading.feed(pieces[-1]).reader.answering
    reading.reader.drop_lead()
    assert not reading.reader.answering
    assert reading.feed("<think>a</think>").finish().both == ("a", "")


def test_a_held_answer_is_dropped_at_the_end_and_marks_keep_their_place() -> None:
    reading = Reading(hold_answer=True).feed("It is")
    reading.reader.mark(handoff())
    assert outline(reading.events) == []
    assert reading.finish().both == ("", "")
    assert outline(reading.events) == ["handoff"]


def test_in_an_answer_that_was_held_think_tags_are_text() -> None:
    reading = Reading(hold_answer=True, stops=["END"])
    reading.reader.open_answer()
    assert reading.feed(*'"</think><think>x" END').finish().both == ("", '"</think><think>x" ')


def test_who_closed_the_reasoning_by_force_is_said() -> None:
    reading = Reading(hold_answer=True, reasoning_open=True).feed("a")
    reading.reader.close_reasoning(1, "constraint")
    assert [e.by for e in reading.events if isinstance(e, ReasoningClosed)] == ["constraint"]
