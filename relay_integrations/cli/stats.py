"""Who wrote how much, how often they took turns, and what that cost: the table behind an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from relay_integrations.cli.render import ROLE_STYLES
from relay_integrations.events import SegmentFinished, Usage
from relay_integrations.result import RelayResult
from relay_integrations.roles import ROLES, Role

_LABEL_CELLS = 12


@dataclass(frozen=True, slots=True)
class RelayStats:
    """Figures of one result, all taken from its events.

    Attributes:
        usage: Of all choices.
        names: Model by role, of the roles that wrote.
        segments: Number of segments by role.
        token_ms: Milliseconds a token by role, the first of each segment left out; None where no segment has a second.
        handoff_ms: Median wait from the request behind a handoff to its first token; None without handoffs.
        seconds: From the start to the end of the last segment.
    """

    usage: Usage
    names: dict[Role, str]
    segments: Counter[Role]
    token_ms: dict[Role, float | None]
    handoff_ms: float | None
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Output tokens over the whole time, the prompt included."""
        return self.usage.completion_tokens / self.seconds if self.seconds else 0.0


def relay_stats(result: RelayResult) -> RelayStats:
    """Takes the figures from a result."""
    segments = [segment for choice in result.choices for segment in choice.segments]
    waits = [s.time_to_first_token for s in segments if s.index and s.time_to_first_token is not None]
    return RelayStats(
        usage=result.usage,
        names={s.role: s.model for s in segments},
        segments=Counter(s.role for s in segments),
        token_ms={role: _token_ms([s for s in segments if s.role == role]) for role in ROLES},
        handoff_ms=1e3 * median(waits) if waits else None,
        seconds=max((s.time for s in segments), default=0.0),
    )


def print_stats(console: Console, stats: RelayStats, *more: tuple[str, Text]) -> None:
    """Prints the figures as a table, with further lines under it."""
    grid = Table.grid(padding=(0, 3))
    grid.add_column(min_width=_LABEL_CELLS)
    for _ in range(3):
        grid.add_column(justify="right")
    for row in _rows(stats):
        grid.add_row(*row)
    console.print(grid)
    for label, text in (*_lines(stats), *more):
        console.print(Text(f"{label:<{_LABEL_CELLS + 3}}").append(text), soft_wrap=True)


def _rows(stats: RelayStats) -> Iterator[tuple[str | Text, ...]]:
    usage, total = stats.usage, stats.usage.completion_tokens
    yield "", *(Text(role, style=f"bold {ROLE_STYLES[role]}") for role in ROLES), "together"
    yield "tokens", str(usage.large_tokens), str(usage.small_tokens), str(total)
    yield "segments", *(str(stats.segments[role]) for role in ROLES), str(stats.segments.total())
    yield "ms a token", *(_ms(stats.token_ms[role]) for role in ROLES), _ms(1e3 * stats.seconds / total if total else None)


def _lines(stats: RelayStats) -> Iterator[tuple[str, Text]]:
    usage = stats.usage
    yield "utilisation", Text(f"{_share(usage)} of the tokens are the large model's")
    reasons = " · ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in usage.handoffs.items())
    yield "handoffs", Text(f"{sum(usage.handoffs.values())}: {reasons}" if reasons else "none")
    if stats.handoff_ms is not None:
        yield "ms a handoff", Text(f"{stats.handoff_ms:.1f} (median wait for the first token behind one, that token included)")
    yield "tokens/s", Text(f"{stats.tokens_per_second:.0f} over {stats.seconds:.1f} s, the prompt included")


def stats_line(stats: RelayStats) -> str:
    """The most important figures in one line."""
    usage = stats.usage
    return (
        f"{usage.completion_tokens} tokens, {_share(usage)} by the large model · {sum(usage.handoffs.values())} handoffs"
        f" · {stats.tokens_per_second:.0f} tokens/s"
    )


def _token_ms(segments: Sequence[SegmentFinished]) -> float | None:
    timed = [(s.duration - s.time_to_first_token, s.tokens + s.discarded - 1) for s in segments if s.time_to_first_token is not None]
    tokens = sum(count for _, count in timed)
    return 1e3 * sum(seconds for seconds, _ in timed) / tokens if tokens > 0 else None


def _share(usage: Usage) -> str:
    return "–" if usage.utilisation is None else f"{100 * usage.utilisation:.0f} %"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
