"""What has been generated so far: each model's own token ids, the text, the segments, and where the channels stand.

Token ids are the truth and text is derived. Where both models have the same vocabulary and think tags, ids pass as they are, even
in mid-character; where they differ, a segment is rolled back to its last whole character, and only its new text is encoded for the
other model. The transcript does no I/O: `pending` says what has to be encoded, `extend` takes the ids.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from relay_integrations.chat.tags import ThinkTags, translate
from relay_integrations.roles import Channel, HandoffReason, Role, SegmentEndCause, other

TAIL_CHARS = 128
"""How much of the raw text is kept at hand for matching across a seam."""


@dataclass(frozen=True, slots=True)
class Side:
    """One model's view of the conversation: its rendered prompt and its think tags."""

    prompt: tuple[int, ...]
    reasoning_open: bool
    tags: ThinkTags | None
    vocabulary: str


@dataclass(slots=True)
class Segment:
    """Consecutive tokens by one role.

    Attributes:
        ids: Kept ids, in the writer's vocabulary.
        ends: For each id, how many characters of the segment's text there are with it.
        parts: The raw text in pieces.
        generated: Tokens that the model generated for it, dropped ones included.
    """

    index: int
    role: Role
    reason: HandoffReason
    ids: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    length: int = 0
    generated: int = 0

    @property
    def text(self) -> str:
        """Raw text, tags and markup included."""
        return "".join(self.parts)


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """How a segment ended: what a policy decides by."""

    role: Role
    cause: SegmentEndCause
    cue: str | None = None


class Transcript:
    """The state of one generation, for the engine to write and for policies to read.

    Args:
        sides: The roles that take part.
        tools: Whether tools are bound.
        key: The same for the same prompt and choice: what a policy may seed its own draws with.
    """

    def __init__(self, sides: Mapping[Role, Side], *, tools: bool = False, key: int = 0) -> None:
        self.sides = dict(sides)
        self.tools = tools
        self.key = key
        self.shared = len({(s.vocabulary, s.reasoning_open, s.tags) for s in sides.values()}) == 1
        shared_ids: list[int] = []
        self._output: dict[Role, list[int]] = {role: shared_ids if self.shared else [] for role in sides}
        self._unsent: dict[Role, list[str]] = {role: [] for role in sides}  # in pieces, encoded one by one
        if not self.shared:
            self._open_reasoning()
        self.segments: list[Segment] = []
        self.tokens: dict[Role, int] = dict.fromkeys(("large", "small"), 0)
        self.generated: dict[Role, int] = dict.fromkeys(("large", "small"), 0)
        self.forced = 0
        self.tail = ""
        self._tail_before, self._tail_from = "", 0  # the tail in front of the current segment, and where in that it goes on
        self.channel: Channel = "reasoning" if any(s.reasoning_open for s in sides.values()) else "answer"
        self.reasoning_closed = False
        self.reasoning_tokens = 0
        self.in_call = False  # what one role has to write whole: a tool call, or what may still open the reasoning
        self.sentence_over = False  # the text ends with a sentence end that a segment was ended for
        self.unread: list[int] = []  # the latest ids, while the character that they begin has not come
        self._span: int | None = None  # the segment with which the constrained text begins
        self._span_from: dict[Role, int] = {}  # where it begins in each side's output

    @property
    def output_tokens(self) -> int:
        """Kept tokens by both roles; forced ones are in no role's count."""
        return self.tokens["large"] + self.tokens["small"]

    @property
    def discarded(self) -> int:
        """Tokens that were generated and dropped again."""
        return sum(self.generated.values()) - self.output_tokens

    @property
    def current(self) -> Segment:
        """The segment being written, or the last one."""
        return self.segments[-1]

    def ids(self, role: Role) -> tuple[int, ...]:
        """The prompt of the next hop: what `role` was given and all output so far, in its own vocabulary."""
        return (*self.sides[role].prompt, *self._output[role])

    def length(self, role: Role) -> int:
        """Length of `ids(role)`."""
        return len(self.sides[role].prompt) + len(self._output[role])

    def begin(self, role: Role, reason: HandoffReason) -> Segment:
        """Opens a new segment."""
        segment = Segment(len(self.segments), role, reason)
        self.segments.append(segment)
        self._tail_before, self._tail_from = self.tail, 0
        return segment

    def append(self, token: int) -> None:
        """Takes a token of the current segment; its text follows by `add_text`."""
        segment = self.segments[-1]
        segment.ids.append(token)
        segment.ends.append(segment.length)
        self._output[segment.role].append(token)
        self.unread.append(token)
        self.tokens[segment.role] += 1

    def add_text(self, text: str) -> None:
        """Takes text of the current segment's latest token."""
        if not text:
            return
        self.sentence_over = False
        self.unread.clear()
        segment = self.segments[-1]
        segment.parts.append(text)
        segment.length += len(text)
        if segment.ends:
            segment.ends[-1] = segment.length
        self.tail = (self.tail + text)[-TAIL_CHARS:]

    def cut(self, chars: int) -> None:
        """Keeps the tokens of the current segment up to the one with its `chars`-th character, and drops those behind it."""
        segment = self.segments[-1]
        keep = bisect_left(segment.ends, chars) + 1 if chars > 0 else 0
        if keep >= len(segment.ids):
            return
        length = segment.ends[keep - 1] if keep else 0
        self._drop_last(len(segment.ids) - keep)
        if length < segment.length:
            segment.parts, segment.length = [segment.text[:length]], length
            self.tail = (self._tail_before + segment.text[self._tail_from :])[-TAIL_CHARS:]

    def drop_last(self, count: int = 1) -> None:
        """Drops the last tokens of the current segment, which have no text: an end-of-sequence token that does not end the run."""
        self._drop_last(count)

    def begin_span(self) -> None:
        """The text of the current segment, and of those behind it, has to follow a constraint."""
        self._span = self.current.index
        for role in self.sides:
            if self.pending(role):
                self._unsent[role].append("")  # what comes is encoded apart from it, so that its ids begin somewhere
            else:
                self._span_from[role] = len(self._output[role])

    def span_start(self, role: Role) -> int:
        """Where the constrained text begins in `ids(role)`, once nothing is pending."""
        return len(self.sides[role].prompt) + self._span_from[role]

    @property
    def span_begun(self) -> bool:
        """Whether any of the constrained text stands."""
        return self._span is not None and any(segment.ids for segment in self.segments[self._span :])

    def hand_over(self) -> None:
        """The current segment is over and another role goes on: where vocabularies differ, it is shown the whole characters."""
        if self.shared:
            return
        self.roll_back()
        self._send(self.segments[-1].role, self.segments[-1].text)

    def roll_back(self) -> None:
        """Drops the tokens of the current segment that stand behind its last whole character."""
        segment = self.segments[-1]
        whole = bisect_left(segment.ends, segment.length) + 1 if segment.length else 0
        self._drop_last(max(0, len(segment.ids) - whole))

    def pending(self, role: Role) -> str:
        """Text that `role` has not seen yet, in its own tags; where a constraint begins in it, the text in front of that."""
        return self._unsent[role][0] if self._unsent[role] else ""

    def extend(self, role: Role, ids: list[int]) -> None:
        """Takes the ids of `pending(role)`."""
        self._output[role].extend(ids)
        del self._unsent[role][0]
        if self._span is not None:
            self._span_from.setdefault(role, len(self._output[role]))

    def force(self, role: Role, ids: list[int], text: str) -> None:
        """Takes tokens that no role wrote (a forced closing tag): `role`'s own ids, and the text for the other side."""
        self._output[role].extend(ids)
        self.forced += len(ids)
        if not self.shared:
            self._send(role, text)

    def close_reasoning(self) -> None:
        """The reasoning has ended; matching starts afresh behind its tag."""
        if not self.reasoning_closed:
            self.reasoning_tokens = self.output_tokens
        self.reasoning_closed = True
        self.tail = self._tail_before = ""
        self._tail_from = self.segments[-1].length if self.segments else 0

    def _drop_last(self, count: int) -> None:
        if count:
            segment = self.segments[-1]
            del segment.ids[-count:], segment.ends[-count:]
            del self._output[segment.role][-count:]
            del self.unread[-count:]
            self.tokens[segment.role] -= count

    def _open_reasoning(self) -> None:
        """One template opens the reasoning and the other does not: the other model is shown its own open tag."""
        if not any(side.reasoning_open for side in self.sides.values()):
            return
        for role, side in self.sides.items():
            if not side.reasoning_open and side.tags:
                self._unsent[role] = [side.tags.open + "\n"]

    def _send(self, writer: Role, text: str) -> None:
        reader = other(writer)
        if reader not in self.sides or not text:
            return
        source, target = self.sides[writer], self.sides[reader]
        if target.reasoning_open and not source.reasoning_open and source.tags:
            text = re.sub(rf"^\s*{re.escape(source.tags.open)}\n?", "", text)
        unsent = self._unsent[reader]
        unsent[-1:] = ["".join(unsent[-1:]) + translate(text, source.tags, target.tags)]
