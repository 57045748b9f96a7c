"""What a bench found, and the one renderer that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from relay_integrations.evaluation.machine import describe_machine, describe_versions

Row = Mapping[str, Any]

_UNLIMITED = 1000
_SHOWN_ROWS = 20
_LABELS = ("policy", "family", "case")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_BESIDE = ("difference", "difference_ci")  # of all rows but the one that the others are held against


@dataclass(frozen=True, slots=True)
class Column:
    """How one key of a row is shown.

    Attributes:
        key: The key; its spread, where there is one, is under `<key>_spread` as two numbers.
        title: Head of the column.
        spell: Spells one value.
    """

    key: str
    title: str
    spell: Callable[[Any], str] = str

    def cell(self, row: Row) -> str:
        """The value, with its spread beside it."""
        value = row.get(self.key)
        if value is None:
            return ""
        text = self.spell(value)
        if spread := row.get(f"{self.key}_spread"):
            text += f" ({self.spell(spread[0])}–{self.spell(spread[1])})"
        return text


def printable(text: str) -> str:
    """Text that a terminal can show and does nothing else with: without controls, turns of direction, and halves of characters."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _number(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}f}"


def _significant(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def _interval(shares: Sequence[float]) -> str:
    return f"{100 * shares[0]:.0f}–{100 * shares[1]:.0f} %"


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def _points_interval(differences: Sequence[float]) -> str:
    return f"{100 * differences[0]:+.1f} … {100 * differences[1]:+.1f}"


COLUMNS = (
    Column("policy", "policy"),
    Column("family", "family"),
    Column("case", "case"),
    Column("n", "n"),
    Column("failed", "failed"),
    Column("accuracy", "right", _percent),
    Column("accuracy_ci", "95 %", _interval),
    Column("difference", "vs large", _points),
    Column("difference_ci", "95 %", _points_interval),
    Column("utilisation", "utilisation", _number(2)),
    Column("handoffs", "handoffs", lambda value: str(value) if isinstance(value, int) else f"{value:.1f}"),
    Column("tokens", "tokens", _number(0)),
    Column("seconds", "s", _significant),
    Column("cost", "cost", _significant),
    Column("ms_per_token", "ms a token", _significant),
    Column("ms_per_handoff", "ms a handoff", _significant),
    Column("aim", "aim", lambda value: f"≤ {value:g}"),
    Column("speedup", "speed-up", _number(2)),
    Column("efficiency", "efficiency", _number(2)),
    Column("acceptance", "accepted", _percent),
    Column("cached_share", "cached", _percent),
    Column("requests_per_s", "requests/s", _number(0)),
    Column("kib_per_request", "KiB a request", _significant),
    Column("max_rss_mb", "max MB", _number(0)),
)
"""Every key that a row may have, in the order shown. A bench that needs another adds it here."""


@dataclass(frozen=True, slots=True)
class Section:
    """Single cases behind the figures, in a table of their own.

    Attributes:
        key: Its name in the JSON.
        title: What they are.
        columns: What of them is shown.
        rows: The cases.
    """

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one bench.

    Attributes:
        bench: Its name, as in `relay bench NAME`.
        pair: Model name by role.
        backend: Kind of backend.
        rows: Figures; a row has those keys of `COLUMNS` that apply.
        notes: What a reader must know to read them; not part of the JSON.
        difference: Between two rows, where a bench is about that; `text` says it in words.
        sections: Single cases, where a bench lists some.
    """

    bench: str
    pair: Mapping[str, str]
    backend: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    machine: Mapping[str, Any] = field(default_factory=describe_machine)
    versions: Mapping[str, str] = field(default_factory=describe_versions)
    difference: Mapping[str, Any] | None = None
    sections: Sequence[Section] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "bench": self.bench,
            "pair": dict(self.pair),
            "backend": self.backend,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "rows": [dict(row) for row in self.rows],
            **({} if self.difference is None else {"difference": dict(self.difference)}),
            **{section.key: [dict(row) for row in section.rows] for section in self.sections},
        }


def render(report: Report) -> RenderableType:
    """A report for a terminal: a head, one table for all rows with the same keys, and the notes."""
    pair = " with ".join(report.pair.values())
    machine = report.machine
    where = f"{machine.get('cpu')}, {machine.get('cores')} cores, load {machine.get('load')}"
    head = Text(f"{report.bench}: {pair} on {report.backend} · {where}", style="dim")
    notes = [Text(printable(note), style="dim") for note in report.notes]
    parts: list[RenderableType] = [head]
    for rows in _alike(report.rows):
        parts += [Text(), _table(rows)]
    if report.difference is not None:
        parts += [Text(), Text(str(report.difference["text"]), style="bold")]
    for section in report.sections:
        parts += _section(section)
    return Group(*parts, Text(), *notes)


def print_report(console: Console, report: Report) -> None:
    """Prints a report. Where there is no terminal to set a width, lines are as long as they need to be."""
    target = console if console.is_terminal else Console(file=console.file, width=_UNLIMITED, highlight=False)
    target.print(render(report))


def markdown(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """A Markdown table of some columns of rows.

    Args:
        rows: Of a report.
        columns: Keys of `COLUMNS`; an interval (`KEY_ci`) stands behind its figure.
    """
    shown = [column for key in columns for column in COLUMNS if column.key == key and not key.endswith("_ci")]
    intervals = {column.key.removesuffix("_ci"): column for column in COLUMNS if column.key in columns and column.key.endswith("_ci")}
    lines = ["| " + " | ".join(c.title + (" (95 %)" if c.key in intervals else "") for c in shown) + " |", "|---" * len(shown) + "|"]
    for row in rows:
        cells = [c.cell(row) + (f" ({intervals[c.key].cell(row)})" if c.key in intervals and c.cell(row) else "") for c in shown]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows in groups with the same figures."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        figures = tuple(c.key for c in COLUMNS if c.key not in (*_LABELS, *_BESIDE) and row.get(c.key) is not None)
        groups.setdefault(figures, []).append(row)
    return list(groups.values())


def _table(rows: Sequence[Row], columns: Sequence[Column] = COLUMNS, labels: Sequence[str] = _LABELS) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    used = [c for c in columns if any(row.get(c.key) is not None for row in rows)]
    for column in used:
        table.add_column(column.title, justify="left" if column.key in labels else "right")
    for row in rows:
        table.add_row(*(Text(printable(column.cell(row))) for column in used))  # as Text: what a model wrote is no markup
    return table


def _section(section: Section) -> list[RenderableType]:
    if not section.rows:
        return []
    more = len(section.rows) - _SHOWN_ROWS
    rest: list[RenderableType] = [Text(f"… and {more} more (--json lists all)", style="dim")] if more > 0 else []
    table = _table(section.rows[:_SHOWN_ROWS], section.columns, [column.key for column in section.columns])
    return [Text(), Text(f"{section.title} ({len(section.rows)})", style="bold"), table, *rest]
