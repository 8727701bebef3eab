"""Plots: lines, backlogs of strategies, and runs over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.model.status import RunStatus
from headgate.report.screen import shown

if TYPE_CHECKING:
    # all of these are slow to import, and few commands need them
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from headgate.simulator import Result

Line = tuple[Any, Any]
"""Its x and y: lists, or arrays."""

_COLOURS = ("#1f6fb4", "#d1495b", "#2e933c", "#8d5a97", "#edae49", "#3a3a3a", "#00a3a3", "#a0522d")
_STYLES = ("-", "--", ":")
_PALE = "#c4c9cf"
# more lines than these cannot be distinguished
_MOST_LINES = 4
_PANELS_PER_ROW = 3
# two for each pixel of a line
_MOST_STEPS = 2000


@contextmanager
def panels(path: Path, title: str, count: int, per_row: int = 1) -> Iterator[list[Axes]]:
    """Axes over the same x axis, one below the other or in rows; those in rows have the same y axis as well.

    The figure is saved at the end.
    """
    # drawing is rare and importing it slow; a figure of its own needs no window system and no global state
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-count // per_row)
    size = (9, 5 if count == 1 else 3 * count) if per_row == 1 else (3.5 * per_row, 1 + 2 * rows)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, per_row, sharex=True, sharey=per_row > 1, squeeze=False)
    every: list[Axes] = grid.flatten().tolist()
    for axes in every[count:]:
        axes.remove()
    del every[count:]
    if per_row == 1:
        every[0].set_title(title)
    else:
        figure.suptitle(title)
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
    """One line per strategy; if they are many, each in a panel of its own, before the others in grey."""
    lines = {r.strategy: thinned(r.backlog.times_s, r.backlog.sizes) for r in results}
    if len(lines) <= _MOST_LINES:
        return plot_lines(path, title, "time (s)", "backlog (tuples)", lines)
    with panels(path, title, len(lines), _PANELS_PER_ROW) as every:
        for number, (axes, name) in enumerate(zip(every, lines, strict=True)):
            for other in lines.values():
                axes.step(*other, where="post", color=_PALE, linewidth=0.6)
            axes.step(*lines[name], where="post", color=_COLOURS[0], linewidth=1.4)
            peak = shown(float(max(lines[name][1], default=0.0)), digits=4)
            axes.set_title(f"{name}, peak {peak}", loc="left", fontsize="medium")
            if number % _PANELS_PER_ROW == 0:
                axes.set_ylabel("backlog (tuples)")
            # the last panel of each column
            if number + _PANELS_PER_ROW >= len(every):
                axes.set_xlabel("time (s)")
                axes.tick_params(labelbottom=True)
        every[0].set_ylim(bottom=0)
        every[0].margins(x=0.01)
    return path


def thinned(times: NDArray[Any], sizes: NDArray[Any]) -> Line:
    """A line of steps; of a long one, the range and the last size of each stretch narrower than a pixel."""
    if len(times) <= 3 * _MOST_STEPS:
        return times, sizes
    import numpy as np

    stretches = np.linspace(times[0], times[-1], _MOST_STEPS, endpoint=False)
    begins = np.unique(np.searchsorted(times, stretches))
    lasts = sizes[np.append(begins[1:], len(sizes)) - 1]
    ranges = (np.minimum.reduceat(sizes, begins), np.maximum.reduceat(sizes, begins), lasts)
    return np.repeat(times[begins], len(ranges)), np.stack(ranges, axis=1).ravel()


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
