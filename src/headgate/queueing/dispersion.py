"""How bursty arrivals are, and on which time scale: the index of dispersion for counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.queueing.faults import WrongFigure

# with fewer intervals a variance says little
_FEWEST_INTERVALS = 20
_FEWEST_ARRIVALS = 100


@dataclass(frozen=True)
class Dispersion:
    """Variance over mean of the arrivals in intervals of ``seconds``; 1 at any scale if they are Poisson."""

    seconds: float
    index: float
    intervals: int


def dispersion(arrivals_s: NDArray[np.float64], scales_s: Sequence[float] = ()) -> tuple[Dispersion, ...]:
    """The index over time scales: those given, or from some arrivals an interval to 20 intervals in all."""
    times_s = np.asarray(arrivals_s, np.float64)
    if len(times_s) < _FEWEST_ARRIVALS:
        raise WrongFigure(f"{len(times_s)} arrivals say nothing of bursts; give {_FEWEST_ARRIVALS} or more")
    begin_s, length_s = float(times_s[0]), float(times_s[-1] - times_s[0])
    if not length_s > 0:
        raise WrongFigure("all arrivals are at one instant; give times that last")
    return tuple(
        _at(times_s, begin_s, seconds, int(length_s / seconds))
        for seconds in scales_s or _scales(length_s, len(times_s))
        if int(length_s / seconds) >= 2
    )


def burstiness(found: Sequence[Dispersion]) -> float:
    """The largest index at any scale: what Poisson figures have to be taken with a grain of salt for."""
    return max((scale.index for scale in found), default=1.0)


def _scales(length_s: float, count: int) -> list[float]:
    longest_s = length_s / _FEWEST_INTERVALS
    shortest_s = min(longest_s, 2 * length_s / count)
    steps = max(1, round(3 * np.log10(longest_s / shortest_s)))
    return [float(s) for s in np.geomspace(shortest_s, longest_s, steps + 1)]


def _at(times_s: NDArray[np.float64], begin_s: float, seconds: float, intervals: int) -> Dispersion:
    edges = begin_s + seconds * np.arange(intervals + 1)
    counts = np.diff(np.searchsorted(times_s, edges))
    mean = counts.mean()
    return Dispersion(seconds, float(counts.var(ddof=1) / mean) if mean > 0 else 0.0, intervals)
