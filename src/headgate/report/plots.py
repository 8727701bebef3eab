"""Plots as PNG files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.simulator import Result
from headgate.status import RunStatus

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = tuple[Sequence[float], Sequence[float]]

_COLOURS = ("#1f6fb4", "#d1495b", "#2e933c", "#8d5a97", "#edae49", "#3a3a3a", "#00a3a3", "#a0522d")
_STYLES = ("-", "--", ":")


@contextmanager
def panels(path: Path, title: str, count: int) -> Iterator[list[Axes]]:
    """Axes one below the other, over the same x axis; saved at the end."""
    # drawing is rare and importing it slow; a figure of its own needs no window system and no global state
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5 if count == 1 else 3 * count), layout="constrained")
    FigureCanvasAgg(figure)
    every: list[Axes] = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0].tolist()
    every[0].set_title(title)
    for axes in every:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    yield every
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


@contextmanager
def drawing(path: Path, title: str, x: str, y: str) -> Iterator[Axes]:
    """Axes to draw on; labelled ``x`` and ``y``, and saved at the end."""
    with panels(path, title, 1) as [axes]:
        yield axes
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.legend(frameon=False, fontsize="small")


def plot_lines(path: Path, title: str, x: str, y: str, lines: Mapping[str, Line], steps: bool = True) -> Path:
    """One line per name, as steps or from point to point."""
    with drawing(path, title, x, y) as axes:
        for number, (name, line) in enumerate(lines.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            style = _STYLES[number // len(_COLOURS) % len(_STYLES)]
            if steps:
                axes.step(*line, style, where="post", color=colour, label=name, linewidth=1.2)
            else:
                axes.plot(*line, style, marker=".", color=colour, label=name, linewidth=1.2)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
    return path


def plot_backlogs(results: Iterable[Result], path: Path, title: str) -> Path:
    lines = {r.strategy: (r.backlog.times_s.tolist(), r.backlog.sizes.tolist()) for r in results}
    return plot_lines(path, title, "time (s)", "backlog (tuples)", lines)


def plot_runs(
    path: Path, title: str, runs: Mapping[str, RunStatus], flood_s: tuple[float, float] | None = None
) -> Path:
    """Memory and latency of several runs over time; the time of the flood is shaded."""
    with panels(path, title, 2) as [memory, latency]:
        for colour, (name, status) in zip(_COLOURS, runs.items(), strict=False):
            ticks = status.history
            # the first tick begins with the traffic
            began_s = ticks[0].at_s - ticks[0].seconds if ticks else 0.0
            waiting = [tick.backlog_bytes / 1e6 for tick in ticks]
            memory.step([t.at_s - began_s for t in ticks], waiting, where="post", color=colour, label=name)
            # a tick's latency is that of its slowest query
            late = [(t.at_s - began_s, max(t.latency_s.values())) for t in ticks if t.latency_s]
            latency.plot(*zip(*late, strict=True) if late else ([], []), ".-", color=colour, label=name)
        memory.set_ylabel("memory of waiting\ntuples (MB)")
        latency.set_ylabel("latency of the results\nof a tick, mean (s)")
        latency.set_xlabel("time since the start of the traffic (s)")
        for axes in (memory, latency):
            axes.set_ylim(bottom=0)
            axes.margins(x=0.01)
            if flood_s is not None:
                axes.axvspan(*flood_s, color="#9aa5b1", alpha=0.2, linewidth=0)
        memory.legend(frameon=False, fontsize="small")
    return path
