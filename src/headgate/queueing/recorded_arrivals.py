"""Recorded arrivals, which need not be Poisson: how bursty they are, and ticks driven by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.queueing.service_times import ParameterError

Floats = NDArray[np.float64]
# fewer intervals give no useful variance
_FEWEST_INTERVALS = 20
_FEWEST_ARRIVALS = 100


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
    for seconds in scales_s or _scales(length_s, len(times_s)):
        intervals = int(length_s / seconds)
        if intervals >= 2:
            counts = np.diff(np.searchsorted(times_s, begin_s + seconds * np.arange(intervals + 1)))
            mean = counts.mean()
            index = float(counts.var(ddof=1) / mean) if mean > 0 else 0.0
            found.append(Dispersion(seconds, index, intervals))
    return tuple(found)


def _scales(length_s: float, count: int) -> list[float]:
    longest_s = length_s / _FEWEST_INTERVALS
    shortest_s = min(longest_s, 2 * length_s / count)
    steps = max(1, round(3 * np.log10(longest_s / shortest_s)))
    return [float(s) for s in np.geomspace(shortest_s, longest_s, steps + 1)]


def tick_latencies(
    arrivals_s: Mapping[str, Floats], seconds_per_tuple: Mapping[str, float], overhead_s: float
) -> dict[str, Floats]:
    """The latency of each tuple of every stream: to the end of the tick that begins next after its arrival.

    A tick takes ``overhead_s`` and, for each tuple that arrived since the last one began, its seconds.
    """
    end_s = max((float(times[-1]) for times in arrivals_s.values() if len(times)), default=0.0)
    begin_s, begins = 0.0, [0.0]
    taken = dict.fromkeys(arrivals_s, 0)
    while begin_s <= end_s:
        work_s = 0.0
        for stream, times in arrivals_s.items():
            up_to = int(np.searchsorted(times, begin_s, side="right"))
            work_s += (up_to - taken[stream]) * seconds_per_tuple[stream]
            taken[stream] = up_to
        # without any overhead a tick still ends after the next arrival
        begin_s = max(begin_s + overhead_s + work_s, np.nextafter(begin_s, np.inf))
        if overhead_s == 0 and work_s == 0:
            begin_s = _next_arrival(arrivals_s, begin_s)
        begins.append(begin_s)
    last_work_s = sum((len(t) - taken[s]) * seconds_per_tuple[s] for s, t in arrivals_s.items())
    begins.append(begin_s + overhead_s + last_work_s)
    edges = np.array(begins)
    return {
        stream: edges[np.minimum(np.searchsorted(edges, times) + 1, len(edges) - 1)] - times
        for stream, times in arrivals_s.items()
    }


def _next_arrival(arrivals_s: Mapping[str, Floats], after_s: float) -> float:
    following = [
        float(times[index])
        for times in arrivals_s.values()
        if (index := int(np.searchsorted(times, after_s))) < len(times)
    ]
    return min(following, default=np.inf)
