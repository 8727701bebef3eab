"""Drift: which query will break when, if measured rates go on as they do."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.queueing.advice import DEFAULT_PERCENTILE, Broken, broken_bounds
from headgate.queueing.faults import WrongFigure, check_amount
from headgate.queueing.models import LatencyModel
from headgate.queueing.plan import Plan

# below this many standard errors a trend is noise
_SURE = 3.0
_FEWEST = 5
_STEPS = 64


@dataclass(frozen=True)
class Warning:
    """A bound that breaks ``in_s`` seconds from the last observation; 0 if it does already."""

    query: str
    in_s: float
    broken: Broken

    def __str__(self) -> str:
        when = "breaks now" if self.in_s == 0 else f"will break in {self.in_s:.0f} s at the present trend"
        return f"query {self.query} {when}: {self.broken}"


@dataclass(frozen=True)
class Trend:
    """A rate now, and how it changes; 0 where that is not more than noise."""

    per_s: float
    change_per_s2: float

    def at(self, seconds: float) -> float:
        """The rate after some time."""
        return max(0.0, self.per_s + self.change_per_s2 * seconds)


class Drift:
    """Fed with the rates of each tick; says which query breaks within ``horizon_s``, and when.

    The last ``window_s`` seconds count. A trend is a line through them that rises or falls by more than three
    of its standard errors.
    """

    def __init__(
        self,
        plan: Plan,
        model: LatencyModel,
        horizon_s: float = 600.0,
        window_s: float = 60.0,
        percentile: float = DEFAULT_PERCENTILE,
    ) -> None:
        self._plan = plan
        self._model = model
        self._horizon_s = check_amount("horizon_s", horizon_s)
        self._window_s = check_amount("window_s", window_s)
        self._percentile = percentile
        self._seen: dict[str, deque[tuple[float, float]]] = {stream: deque() for stream in plan.rates}

    def observe(self, at_s: float, tuples_per_s: Mapping[str, float]) -> None:
        """The rates of streams since the last observation; ``at_s`` is any clock that goes forward."""
        for stream, rate in tuples_per_s.items():
            if stream not in self._seen:
                raise WrongFigure(f"no query reads a stream {stream}")
            seen = self._seen[stream]
            if seen and at_s < seen[-1][0]:
                raise WrongFigure(f"observation at {at_s:g} s comes after one at {seen[-1][0]:g} s")
            seen.append((at_s, check_amount(f"rate of stream {stream}", rate)))
            while seen[0][0] < at_s - self._window_s:
                seen.popleft()

    def learn(self, plan: Plan, model: LatencyModel | None = None) -> None:
        """Other figures of the same streams, from now on."""
        self._plan = plan
        self._model = model or self._model

    def trends(self) -> dict[str, Trend]:
        """The rate of every stream; as planned where nothing was observed yet."""
        return {stream: _trend(tuple(seen), self._plan.rates[stream]) for stream, seen in self._seen.items()}

    def warnings(self) -> tuple[Warning, ...]:
        """One for each query that breaks within the horizon, the first to break first."""
        trends = self.trends()
        found: dict[str, Warning] = {}
        before_s = 0.0
        for seconds in np.linspace(0.0, self._horizon_s, _STEPS + 1).tolist():
            for broken in self._broken(trends, seconds):
                if broken.query not in found:
                    in_s = self._first(trends, broken.query, before_s, seconds) if seconds > 0 else 0.0
                    found[broken.query] = Warning(broken.query, in_s, broken)
            if len(found) == len(self._plan.network.queries) or not any(
                t.change_per_s2 for t in trends.values()
            ):
                break
            before_s = seconds
        return tuple(sorted(found.values(), key=lambda warning: (warning.in_s, warning.query)))

    def _broken(self, trends: Mapping[str, Trend], seconds: float) -> tuple[Broken, ...]:
        rates = {stream: trend.at(seconds) for stream, trend in trends.items()}
        return broken_bounds(self._plan.at(rates), self._model, self._percentile)

    def _first(self, trends: Mapping[str, Trend], query: str, low_s: float, high_s: float) -> float:
        for _ in range(12):
            middle_s = (low_s + high_s) / 2
            if any(broken.query == query for broken in self._broken(trends, middle_s)):
                high_s = middle_s
            else:
                low_s = middle_s
        return high_s


def _trend(seen: tuple[tuple[float, float], ...], planned: float) -> Trend:
    if not seen:
        return Trend(planned, 0.0)
    times_s, rates = np.array(seen).T
    mean = float(rates.mean())
    spread = times_s - times_s.mean()
    if len(seen) < _FEWEST or not spread.any():
        return Trend(mean, 0.0)
    slope = float(spread @ rates / (spread @ spread))
    left = rates - mean - slope * spread
    error = float(np.sqrt(left @ left / (len(seen) - 2) / (spread @ spread)))
    if abs(slope) <= _SURE * error or abs(slope) * (times_s[-1] - times_s[0]) <= 1e-9 * mean:
        return Trend(mean, 0.0)
    return Trend(max(0.0, mean + slope * float(spread[-1])), slope)
