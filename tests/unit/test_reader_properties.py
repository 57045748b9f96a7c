"""The reader against a few-line oracle that sees the whole text: what is shown does not depend on chunks, and nothing leaks."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from relay_integrations.chat.reader import OutputReader
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.events import Event, TextDelta
from tests.unit.oracle import both_channels

PIECES = ["a", "b", " ", "\n", "<", "</", "think", ">", "</think>", "STOP", "ST", "OP", "é", "🎉", "</thi", "nk>", "S"]
BODIES = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
STOPS = st.lists(st.sampled_from(["STOP", "OP", "TO", "b\n", "<", "think>", "a</", ">b", "🎉"]), max_size=3, unique=True)


def pieces_of(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(cuts)]


def show(text: str, pieces: list[str], stops: list[str]) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    events: list[Event] = []
    reader = OutputReader(events.append, lambda: 0.0, tags=[ThinkTags()], stops=stops)
    for number, piece in enumerate(pieces):
        reader.feed(piece, "small" if number % 2 else "large", number)
    reader.finish()
    deltas = [(e.channel, e.text) for e in events if isinstance(e, TextDelta)]
    both = ["".join(t for c, t in deltas if c == channel) for channel in ("reasoning", "answer")]
    return (both[0], both[1]), deltas


def ends_in_a_fragment(text: str) -> bool:
    """Whether a text ends with the beginning of a tag, which is dropped: the oracle knows nothing of that."""
    return bool(re.search(r"</?(t(h(i(nk?)?)?)?)?$", text))


@given(BODIES, STOPS, st.data())
def test_what_is_shown_follows_from_the_text_alone(body: str, stops: list[str], data: st.DataObject) -> None:
    text = "<think>" + body
    shown, deltas = show(text, pieces_of(text, data), stops)
    assert shown == show(text, [text], stops)[0]
    if not ends_in_a_fragment(text):
        assert shown == both_channels(text, stops)
    # What has been shown is never taken back, and never holds what must not be seen.
    assert not any(stop in shown[0] or stop in shown[1] for stop in stops)
    assert "</think>" not in shown[0]
    assert all(text for _, text in deltas)


@given(BODIES, st.data())
def test_what_is_shown_at_any_time_is_the_beginning_of_the_whole(body: str, data: st.DataObject) -> None:
    """Held-back text never leaks: stop reading anywhere, and what was shown could have been the beginning of another end."""
    text, stops = "<think>" + body, ["STOP"]
    pieces = pieces_of(text, data)
    whole = show(text, [text], stops)[0]
    events: list[Event] = []
    reader = OutputReader(events.append, lambda: 0.0, tags=[ThinkTags()], stops=stops)
    for piece in pieces:
        reader.feed(piece, "large", 0)
        for channel, full in zip(("reasoning", "answer"), whole, strict=True):
            so_far = "".join(e.text for e in events if isinstance(e, TextDelta) and e.channel == channel)
            assert full.startswith(so_far)
