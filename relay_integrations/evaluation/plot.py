"""Draws accuracy against utilisation from a report's rows."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.report import Report, Row

_STYLES = {
    "large-only": ("s", "tab:blue"),
    "small-only": ("s", "tab:orange"),
    "relaygen": ("o", "tab:green"),
    "all-cues": ("^", "tab:purple"),
    "random": ("v", "tab:gray"),
}


def check_plot(path: Path) -> None:
    """Checks that a plot could be written, before anything is measured for it.

    Args:
        path: As in `plot_accuracy`.

    Raises:
        ConfigError: matplotlib is missing, there is no such folder, or the ending names no format.
    """
    kinds = _load("matplotlib.backend_bases").FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise ConfigError(f"the plot cannot be written to {str(path)!r}: its ending says the format, e.g. .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ConfigError(f"the plot cannot be written to {str(path)!r}: there is no folder {str(path.parent)!r}")


def plot_accuracy(report: Report, path: Path) -> None:
    """Writes a plot with a panel for each family: a point a policy, with its interval.

    The same figures give the same SVG file, to the byte.

    Args:
        report: Of `relay bench accuracy`.
        path: Where to; the ending says the format (.png, .svg, .pdf).

    Raises:
        ConfigError: matplotlib is missing, or cannot write such a file.
    """
    figure_class, rc_context = _load("matplotlib.figure").Figure, _load("matplotlib").rc_context
    families = list(dict.fromkeys(row["family"] for row in report.rows))
    figure = figure_class(figsize=(0.8 + 4.2 * len(families), 4.2), layout="constrained")
    panels = figure.subplots(1, len(families), squeeze=False, sharey=True)[0]
    for panel, family in zip(panels, families, strict=True):
        _panel(panel, family, [row for row in report.rows if row["family"] == family])
    panels[0].set_ylabel("right answers, % (95 % interval)")
    figure.suptitle(" with ".join(report.pair.values()), fontsize="medium")
    undated = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {}
    try:
        with rc_context({"svg.hashsalt": "relay"}):
            figure.savefig(path, dpi=150, **undated)
    except (OSError, ValueError) as e:
        raise ConfigError(f"the plot cannot be written to {str(path)!r}: {e}") from e


def _load(module: str) -> Any:
    """A module of matplotlib, which only plots need."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise ConfigError("a plot needs matplotlib: pip install 'relay-integrations[evaluate]'") from e


def _panel(axes: Any, family: str, rows: Sequence[Row]) -> None:
    for row in rows:
        marker, colour = _STYLES.get(row["policy"], ("D", "black"))
        share, (low, high) = row["accuracy"], row["accuracy_ci"]
        axes.errorbar(
            row["utilisation"],
            100 * share,
            yerr=[[100 * max(0.0, share - low)], [100 * max(0.0, high - share)]],
            fmt=marker,
            color=colour,
            capsize=3,
            label=row["policy"],
        )
    axes.set(
        title=f"{family} (n = {rows[0]['n']})",
        xlabel="utilisation (share of tokens by the large model)",
        xlim=(-0.05, 1.05),
        ylim=(-3, 105),
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")
