"""Stacked bars, as PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.report.lines import drawing


def plot_stacked(path: Path, title: str, y_label: str, bars: Mapping[str, Mapping[str, float]]) -> Path:
    """One bar a name, made of its parts."""
    with drawing(path, title) as axes:
        parts = list(next(iter(bars.values())))
        below = [0.0] * len(bars)
        for part in parts:
            heights = [bar[part] for bar in bars.values()]
            axes.bar(list(bars), heights, bottom=below, label=part, width=0.7)
            below = [low + height for low, height in zip(below, heights, strict=True)]
        axes.set_ylabel(y_label)
        axes.legend(frameon=False, fontsize="small")
    return path
