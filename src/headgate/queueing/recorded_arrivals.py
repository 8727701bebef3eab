"""Recorded arrivals, which need not be Poisson: how bursty they are, and ticks driven by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.queueing.service_times import ParameterError

# fewer intervals give no useful variance
_FEWEST_INTERVALS = 20
_FEWEST_ARRIVALS = 100
_MOST_TICKS = 1_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dispersion:
    """Variance over mean of the arrivals in intervals of ``seconds``; 1 at any scale if they are Poisson."""

    seconds: float
    index: float
    intervals: int


def dispersion(arrivals_s: Floats, scales_s: Sequence[float] = ()) -> tuple[Dispersion, ...]:
    """The index over time scales: those given, or from two arrivals per interval to 20 intervals in all."""
    times_s = np.asarray(arrivals_s, np.float64)
    if len(times_s) < _FEWEST_ARRIVALS:
        raise ParameterError(f"{len(times_s)} arrivals are too few; give {_FEWEST_ARRIVALS} or more")
    begin_s, length_s = float(times_s[0]), float(times_s[-1] - times_s[0])
    if not length_s > 0:
        raise ParameterError("all arrivals are at one instant; give times that differ")
    found = []
    longest_s = length_s / _FEWEST_INTERVALS
    shortest_s = min(longest_s, 2 * length_s / len(times_s))
    steps = max(1, round(3 * np.log10(longest_s / shortest_s)))
    for seconds in scales_s or np.geomspace(shortest_s, longest_s, steps + 1).tolist():
        intervals = int(length_s / seconds)
        if intervals >= 2:
            counts = np.diff(np.searchsorted(times_s, begin_s + seconds * np.arange(intervals + 1)))
            mean = counts.mean()
            index = float(counts.var(ddof=1) / mean) if mean > 0 else 0.0
            found.append(Dispersion(seconds, index, intervals))
    return tuple(found)


def index_at(scales: Sequence[Dispersion], seconds: float) -> float:
    """The index at a time scale, by the two next to it; beyond all of them, that of the last one."""
    known = sorted(scales, key=lambda scale: scale.seconds)
    at = np.log([scale.seconds for scale in known])
    return float(np.interp(np.log(max(seconds, 1e-300)), at, [scale.index for scale in known]))


def tick_latencies(
    arrivals_s: Mapping[str, Floats],
    seconds_per_tuple: Mapping[str, float],
    overhead_s: float,
    least_s: float = 0.0,
) -> dict[str, Floats]:
    """The latency of each tuple of every stream: to the end of the tick that begins next after its arrival.

    A tick takes ``overhead_s`` and, for each tuple that arrived since the last one began, its seconds; but no
    less than ``least_s``.
    """
    end_s = max((float(times[-1]) for times in arrivals_s.values() if len(times)), default=0.0)
    if overhead_s > 0 and end_s / overhead_s > _MOST_TICKS:
        many = f"{end_s:g} s of arrivals have over {_MOST_TICKS:,} ticks of {overhead_s:g} s"
        raise ParameterError(f"{many}; give fewer arrivals, or longer ticks")
    begin_s, begins = 0.0, [0.0]
    taken = dict.fromkeys(arrivals_s, 0)
    while begin_s <= end_s:
        work_s = 0.0
        for stream, times in arrivals_s.items():
            up_to = int(np.searchsorted(times, begin_s, side="right"))
            work_s += (up_to - taken[stream]) * seconds_per_tuple[stream]
            taken[stream] = up_to
        tick_s = max(least_s, overhead_s + work_s)
        # without any overhead a tick still ends after the next arrival
        begin_s = max(begin_s + tick_s, np.nextafter(begin_s, np.inf))
        if tick_s == 0:
            following = [times[np.searchsorted(times, begin_s) :][:1] for times in arrivals_s.values()]
            begin_s = min((float(time_s) for times in following for time_s in times), default=np.inf)
        begins.append(begin_s)
    last_work_s = sum((len(t) - taken[s]) * seconds_per_tuple[s] for s, t in arrivals_s.items())
    begins.append(begin_s + max(least_s, overhead_s + last_work_s))
    edges = np.array(begins)
    return {
        stream: edges[np.minimum(np.searchsorted(edges, times) + 1, len(edges) - 1)] - times
        for stream, times in arrivals_s.items()
    }
