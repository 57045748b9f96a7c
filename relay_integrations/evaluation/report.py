"""What a bench found, and the one renderer that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from relay_integrations.evaluation.machine import describe_machine, describe_versions

Row = Mapping[str, Any]

_UNLIMITED = 1000
_LABELS = ("policy", "case")


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


def _number(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}f}"


def _significant(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def _interval(shares: Sequence[float]) -> str:
    return f"{100 * shares[0]:.0f}–{100 * shares[1]:.0f} %"


COLUMNS = (
    Column("policy", "policy"),
    Column("case", "case"),
    Column("n", "n"),
    Column("accuracy", "right", _percent),
    Column("accuracy_ci", "95 %", _interval),
    Column("utilisation", "utilisation", _number(2)),
    Column("handoffs", "handoffs", lambda value: str(value) if isinstance(value, int) else f"{value:.1f}"),
    Column("tokens", "tokens", _number(0)),
    Column("seconds", "s", _significant),
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
class Report:
    """The result of one bench.

    Attributes:
        bench: Its name, as in `relay bench NAME`.
        pair: Model name by role.
        backend: Kind of backend.
        rows: Figures; a row has those keys of `COLUMNS` that apply.
        notes: What a reader must know to read them; not part of the JSON.
    """

    bench: str
    pair: Mapping[str, str]
    backend: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    machine: Mapping[str, Any] = field(default_factory=describe_machine)
    versions: Mapping[str, str] = field(default_factory=describe_versions)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "bench": self.bench,
            "pair": dict(self.pair),
            "backend": self.backend,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "rows": [dict(row) for row in self.rows],
        }


def render(report: Report) -> RenderableType:
    """A report for a terminal: a head, one table for all rows with the same keys, and the notes."""
    pair = " with ".join(report.pair.values())
    machine = report.machine
    where = f"{machine.get('cpu')}, {machine.get('cores')} cores, load {machine.get('load')}"
    head = Text(f"{report.bench}: {pair} on {report.backend} · {where}", style="dim")
    notes = [Text(note, style="dim") for note in report.notes]
    return Group(head, *(part for rows in _alike(report.rows) for part in (Text(), _table(rows))), Text(), *notes)


def print_report(console: Console, report: Report) -> None:
    """Prints a report. Where there is no terminal to set a width, lines are as long as they need to be."""
    target = console if console.is_terminal else Console(file=console.file, width=_UNLIMITED, highlight=False)
    target.print(render(report))


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows in groups with the same figures."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        figures = tuple(c.key for c in COLUMNS if c.key not in _LABELS and row.get(c.key) is not None)
        groups.setdefault(figures, []).append(row)
    return list(groups.values())


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    columns = [c for c in COLUMNS if any(row.get(c.key) is not None for row in rows)]
    for column in columns:
        table.add_column(column.title, justify="left" if column.key in _LABELS else "right")
    for row in rows:
        table.add_row(*(column.cell(row) for column in columns))
    return table
