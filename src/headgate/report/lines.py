"""Lines over a common axis, as PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = tuple[Sequence[float], Sequence[float]]

_COLOURS = ("#1f6fb4", "#d1495b", "#2e933c", "#8d5a97", "#edae49", "#3a3a3a", "#00a3a3", "#a0522d")


@contextmanager
def drawing(path: Path, title: str) -> Iterator[Axes]:
    """Axes to draw on; saved at the end."""
    # drawing is rare and importing it slow; a figure of its own needs no window system and no global state
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_title(title)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    yield axes
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def plot_lines(
    path: Path, title: str, x_label: str, y_label: str, lines: Mapping[str, Line], steps: bool = True
) -> Path:
    """One line a name, as steps or from point to point."""
    with drawing(path, title) as axes:
        for number, (name, (x, y)) in enumerate(lines.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            if steps:
                axes.step(x, y, where="post", color=colour, label=name, linewidth=1.2)
            else:
                axes.plot(x, y, ".-", color=colour, label=name, linewidth=1.2)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        axes.legend(frameon=False, fontsize="small")
    return path
