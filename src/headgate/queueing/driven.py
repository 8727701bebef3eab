"""Ticks driven by recorded arrivals, which need not be a Poisson stream."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def tick_latencies(
    arrivals_s: Mapping[str, Floats], seconds_per_tuple: Mapping[str, float], overhead_s: float
) -> dict[str, Floats]:
    """How long each tuple of every stream takes: to the end of the tick that begins next after it has come.

    A tick takes ``overhead_s`` and, for each tuple that has come since the last one began, its seconds.
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
        float(times[place])
        for times in arrivals_s.values()
        if (place := int(np.searchsorted(times, after_s))) < len(times)
    ]
    return min(following, default=np.inf)
