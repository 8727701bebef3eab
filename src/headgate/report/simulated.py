"""Simulated runs: as JSON, as a ranked table, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from headgate.simulator import Result

_COLOURS = ("#1f6fb4", "#d1495b", "#2e933c", "#8d5a97", "#edae49", "#3a3a3a")
_STYLES = ("-", "--", ":")


def as_json(result: Result) -> dict[str, Any]:
    """A result as one JSON object; lists hold ``[time, size]`` and ``[time, amount, latency]``."""
    backlog, outputs = result.backlog, result.outputs
    return {
        "strategy": result.strategy,
        "backlog": [[t, _clean(size)] for t, size in _rows(backlog.times_s, backlog.sizes)],
        "peak": _clean(backlog.peak),
        "mean": _clean(backlog.mean),
        "latency": {
            "mean": _clean(result.latency_mean_s),
            "p99": _clean(result.latency_p99_s),
            "max": _clean(result.latency_max_s),
        },
        "outputs": [
            [t, _clean(amount), latency]
            for t, amount, latency in _rows(outputs.times_s, outputs.amounts, outputs.latencies_s)
        ],
    }


def ranked(results: Sequence[Result]) -> list[Result]:
    """Least peak backlog first; among equals least mean backlog, then least mean latency."""
    return sorted(
        results,
        key=lambda r: (_clean(r.backlog.peak), _clean(r.backlog.mean), _clean(r.latency_mean_s) or 0.0),
    )


def results_table(results: Sequence[Result]) -> Table:
    """One row a strategy, in the order given: backlog in tuples (and peak in bytes), latency in seconds."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("strategy", no_wrap=True)
    for heading in ("peak", "bytes", "mean", "latency mean", "p99", "max", "tuples/s out"):
        table.add_column(heading, justify="right")
    for place, result in enumerate(results, start=1):
        backlog = result.backlog
        latencies = (result.latency_mean_s, result.latency_p99_s, result.latency_max_s)
        figures = (backlog.peak, backlog.peak_bytes, backlog.mean, *latencies, result.throughput_per_s)
        table.add_row(str(place), result.strategy, *map(_shown, figures))
    return table


def plot_backlogs(results: Sequence[Result], path: Path, title: str) -> Path:
    """Draw the backlog over time of all results as PNG."""
    # drawing is rare and importing it slow
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for number, result in enumerate(results):
        style = _STYLES[number // len(_COLOURS) % len(_STYLES)]
        colour = _COLOURS[number % len(_COLOURS)]
        times_s, sizes = result.backlog.times_s, result.backlog.sizes
        axes.step(times_s, sizes, style, where="post", color=colour, label=result.strategy, linewidth=1.3)
    axes.set_title(title)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("backlog (tuples)")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    return path


def _rows(*columns: Any) -> list[tuple[float, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _clean(value: float | None) -> Any:
    """The value without what is mere rounding of floats: 1.2, not 1.2000000000000002."""
    return None if value is None else float(f"{value:.12g}")


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
