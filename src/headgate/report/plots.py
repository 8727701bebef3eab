"""A run as a picture: what came in, what waited, how late results were."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.status import RunStatus, TickRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#1f6fb4", "#d1495b", "#2e933c", "#8d5a97", "#edae49", "#3a3a3a")


def plot_run(status: RunStatus, path: Path, title: str) -> Path:
    """Save arrivals, backlog and latency over time as PNG."""
    # drawing is rare and importing it slow; a figure of its own needs no window system and no global state
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    _draw(figure, status, title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    return path


def _draw(figure: Figure, status: RunStatus, title: str) -> None:
    arrivals, backlog, latency = figure.subplots(3, 1, sharex=True)
    figure.suptitle(title)
    _arrivals(arrivals, status.history)
    _backlog(backlog, status.history)
    _latency(latency, status)
    latency.set_xlabel("time since the start (s)")
    for axes in (arrivals, backlog, latency):
        axes.grid(alpha=0.25)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        axes.spines[["top", "right"]].set_visible(False)


def _arrivals(axes: Axes, history: list[TickRecord]) -> None:
    edges = [0.0, *(tick.at_s for tick in history)]
    spans = (max(end - begin, 1e-3) for begin, end in pairwise(edges))
    rates = [tick.rows_in / span_s for tick, span_s in zip(history, spans, strict=True)]
    axes.stairs(rates, edges, fill=True, color="#9aa5b1")
    axes.set_ylabel("arrivals\n(tuples/s)")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _backlog(axes: Axes, history: list[TickRecord]) -> None:
    times, tuples = [tick.at_s for tick in history], [tick.backlog_tuples for tick in history]
    axes.fill_between(times, tuples, step="post", alpha=0.3, color=_COLOURS[0])
    axes.step(times, tuples, where="post", color=_COLOURS[0])
    axes.set_ylabel("backlog\n(tuples)")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _latency(axes: Axes, status: RunStatus) -> None:
    for number, name in enumerate(status.queries):
        points = [(tick.at_s, tick.latency_s[name]) for tick in status.history if name in tick.latency_s]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.plot(*zip(*points, strict=True) if points else ([], []), ".-", color=colour, label=name)
    axes.set_ylabel("latency, mean\nof a tick (s)")
    if status.queries:
        # above the panel, where it covers no point
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, fontsize="small", frameon=False)
