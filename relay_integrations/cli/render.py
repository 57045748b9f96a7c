"""Shows the events of one answer as text: coloured by who wrote it, with the switch cues marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from relay_integrations.cli.flow import TextFlow
from relay_integrations.cues.profile import CueProfile
from relay_integrations.engine import RelayEngine
from relay_integrations.events import Event, Handoff, ReasoningClosed, RelayFailed, RelayFinished, TextDelta
from relay_integrations.roles import Channel, Role, other

ROLE_STYLES: Mapping[Role, str] = {"large": "color(166)", "small": "color(32)"}
"""Orange and blue: told apart with any kind of colour vision, equally legible on black and on white."""

CUE_STYLE = "bold reverse"
OPEN, CLOSE = "⟦", "⟧"
"""Around what the helper wrote, where there are no colours."""

_CONFIRMING = 24  # characters that may follow a cue before the handoff is known: the token that confirms its boundary


class RoleMarks:
    """Puts brackets around the text of one role, white space left outside.

    Args:
        role: Whose text is marked.
    """

    def __init__(self, role: Role) -> None:
        self._role = role
        self._open = False
        self._space = ""

    def add(self, text: str, role: Role) -> str:
        """The marked text, as far as it can be said; the space at its end comes with the next."""
        body = text.strip()
        if not body:
            self._space += text
            return ""
        at = text.index(body)
        space, self._space = self._space + text[:at], text[at + len(body) :]
        mine = role == self._role
        closing = CLOSE if self._open and not mine else ""
        opening = OPEN if mine and not self._open else ""
        self._open = mine
        return f"{closing}{space}{opening}{body}"

    def end(self) -> str:
        """What closes an open mark."""
        was_open, self._open, self._space = self._open, False, ""
        return CLOSE if was_open else ""


class RelayPrinter:
    """Writes the text of one answer as its events come in.

    A few characters stay back until it is known whether they were a cue.

    Args:
        engine: Whose policy says what the cues are, and who leads.
        reasoning, answer: Where each channel goes; None drops it.
        dim_reasoning: Whether the reasoning stands back.
        marks: Whether brackets say who wrote what: for where there are no colours.
        begin: Called before the first text of a channel.
    """

    def __init__(
        self,
        engine: RelayEngine,
        *,
        reasoning: TextFlow | None,
        answer: TextFlow | None,
        dim_reasoning: bool = True,
        marks: bool = False,
        begin: Callable[[Channel], None] = lambda channel: None,
    ) -> None:
        self._flows: dict[Channel, TextFlow | None] = {"reasoning": reasoning, "answer": answer}
        self._dim = " dim" if dim_reasoning else ""
        self._marks = RoleMarks(other(engine.policy.leader)) if marks else None
        self._begin = begin
        self._begun: set[Channel] = set()
        self._hold = _longest_cue(engine)
        self._held = ""
        self._held_for: tuple[Channel, Role] = ("reasoning", "large")

    def handle(self, event: Event) -> None:
        """Shows an event, if there is anything to show."""
        match event:
            case TextDelta():
                self._take(event)
            case Handoff():
                self._release_cue(event.cue)
            case ReasoningClosed() | RelayFinished() | RelayFailed():
                self.finish()
            case _:
                pass

    def finish(self) -> None:
        """Writes what stays back, and ends the line. May be called twice."""
        self._release()
        flow = self._flows[self._held_for[0]]
        if flow is not None:
            flow.write(self._marks.end() if self._marks else "")
            flow.end_line()

    def _take(self, delta: TextDelta) -> None:
        if self._held_for != (delta.channel, delta.role):
            self._release()
            self._held_for = (delta.channel, delta.role)
        self._held += delta.text
        self._release(len(self._held) - self._hold)

    def _release_cue(self, cue: str | None) -> None:
        at = self._held.rfind(cue) if cue else -1
        if cue and at >= 0:
            self._release(at)
            self._release(len(cue), cue=True)
        self._release()

    def _release(self, count: int | None = None, cue: bool = False) -> None:
        """Writes held characters from the front, all if `count` is None."""
        end = len(self._held) if count is None else max(0, count)
        text, self._held = self._held[:end], self._held[end:]
        channel, role = self._held_for
        flow = self._flows[channel]
        if not text or flow is None:
            return
        if channel not in self._begun:
            self._begun.add(channel)
            self._begin(channel)
        if self._marks:
            text = self._marks.add(f"*{text}*" if cue else text, role)
        style = ROLE_STYLES[role] + (self._dim if channel == "reasoning" else "")
        flow.write(text, f"{style} {CUE_STYLE}" if cue else style)


def _longest_cue(engine: RelayEngine) -> int:
    """How many characters may turn out to be a cue; 0 where the policy has none."""
    profile: CueProfile | None = getattr(engine.policy, "cues", None)
    return max(len(cue.text) for cue in profile.cues) + _CONFIRMING if profile else 0
