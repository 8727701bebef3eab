"""Ticks in virtual time: how the Spark engine would fare, told from profiles and arrivals alone.

A tick takes in what has arrived since the last one, lets the strategy choose turns in predicted time as
the engine does, and then lasts as long as its work and its overhead say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.errors import StalledError
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.tick import TickCosts
from headgate.runtime.forecast import Forecast, ForecastQueue
from headgate.scheduling.strategy import Strategy

_NOTHING = 1e-6
_MOST_TICKS = 100_000


@dataclass(frozen=True)
class TickedRun:
    """What came out: tuples waiting when each tick began, backlog after it, and how long results took from
    intake to commit."""

    at_s: NDArray[np.float64]
    waiting: NDArray[np.float64]
    backlog_bytes: NDArray[np.float64]
    latencies_s: NDArray[np.float64]
    results: NDArray[np.float64]

    @property
    def peak_bytes(self) -> float:
        """The largest backlog after a tick."""
        return float(self.backlog_bytes.max(initial=0.0))

    @property
    def mean_waiting(self) -> float:
        """Tuples that waited when a tick began, over the time of all ticks."""
        lengths_s = np.diff(self.at_s, prepend=0.0)
        return float(np.average(self.waiting, weights=lengths_s)) if len(self.at_s) else 0.0

    @property
    def mean_latency_s(self) -> float:
        """Over all results."""
        return float(np.average(self.latencies_s, weights=self.results)) if self.results.sum() else 0.0


class _Cohorts:
    """Tuples of a queue by their time of arrival, oldest first."""

    def __init__(self) -> None:
        self._parts: deque[tuple[float, float]] = deque()
        self.waited = 0.0
        """Tuples that were left when the last tick ended."""

    def add(self, parts: list[tuple[float, float]]) -> None:
        self._parts.extend(part for part in parts if part[1] > _NOTHING)

    @property
    def oldest_s(self) -> float | None:
        return self._parts[0][0] if self._parts else None

    def amount(self) -> float:
        return sum(amount for _, amount in self._parts)

    def take(self, amount: float) -> list[tuple[float, float]]:
        taken = []
        while amount > _NOTHING and self._parts:
            arrived_s, here = self._parts.popleft()
            part = min(here, amount)
            taken.append((arrived_s, part))
            amount -= part
            if here - part > _NOTHING:
                self._parts.appendleft((arrived_s, here - part))
        return taken


class TickSimulation:
    """A network of operators without window order, run tick by tick."""

    def __init__(
        self,
        network: Network,
        profiles: Profiles,
        arrivals_s: Mapping[str, NDArray[np.float64]],
        costs: TickCosts,
        budget_s: float,
        processors: int,
    ) -> None:
        self._network = network
        self._profiles = profiles
        self._arrivals_s = arrivals_s
        self._costs = costs
        self._budget_s = budget_s
        self._processors = processors

    def run(self, strategy: Strategy) -> TickedRun:
        """Tick until all has arrived and nothing waits."""
        strategy.prepare(self._network, self._profiles)
        cohorts = {name: _Cohorts() for name in self._network.operators}
        taken_in = dict.fromkeys(self._arrivals_s, 0)
        total = sum(len(times) for times in self._arrivals_s.values())
        now_s = 0.0
        at: list[float] = []
        waiting: list[float] = []
        backlog: list[float] = []
        outputs: list[tuple[float, float]] = []
        while sum(taken_in.values()) < total or any(c.oldest_s is not None for c in cohorts.values()):
            if len(at) >= _MOST_TICKS:
                raise StalledError(f"strategy {strategy.name} leaves a backlog that never ends")
            rows = self._arrive(now_s, taken_in, cohorts)
            waiting.append(sum(c.amount() for c in cohorts.values()))
            forecast = self._choose(strategy, now_s, cohorts)
            came, stored = self._move(forecast, cohorts)
            busy_s = forecast.spent_s + self._costs.stored_busy_s * stored
            now_s += self._costs.seconds(rows, busy_s)
            outputs += [(now_s - at_s, n) for at_s, n in came]
            at.append(now_s)
            backlog.append(sum(c.amount() * self._profiles[n].bytes_per_tuple for n, c in cohorts.items()))
        return TickedRun(
            np.array(at),
            np.array(waiting),
            np.array(backlog),
            np.array([s for s, _ in outputs]),
            np.array([n for _, n in outputs]),
        )

    def _arrive(self, now_s: float, taken_in: dict[str, int], cohorts: Mapping[str, _Cohorts]) -> int:
        rows = 0
        for stream, times in self._arrivals_s.items():
            upto = int(np.searchsorted(times, now_s, side="right"))
            new, taken_in[stream] = upto - taken_in[stream], upto
            for leaf in self._network.leaves(stream):
                cohorts[leaf].add([(now_s, float(new))])
            rows += new
        return rows

    def _choose(self, strategy: Strategy, now_s: float, cohorts: Mapping[str, _Cohorts]) -> Forecast:
        queues = {}
        for name, waiting in cohorts.items():
            oldest_s = waiting.oldest_s
            queues[name] = ForecastQueue(waiting.amount(), 0.0, now_s if oldest_s is None else oldest_s)
        budget_s = self._budget_s * self._processors
        forecast = Forecast(self._network, self._profiles, queues, now_s, budget_s, self._processors)
        while not forecast.spent and (turn := strategy.choose(forecast.view())) is not None:
            forecast.run(turn)
        return forecast

    def _move(
        self, forecast: Forecast, cohorts: Mapping[str, _Cohorts]
    ) -> tuple[list[tuple[float, float]], float]:
        """Carry tuples as far as was chosen: results, and how many tuples have to be stored."""
        outputs, stored = [], 0.0
        for name in self._network.operators:
            before = cohorts[name].waited
            moved = cohorts[name].take(forecast.taken[name])
            left = [(at_s, n * self._profiles[name].selectivity) for at_s, n in moved]
            for reader in self._network.readers(name):
                cohorts[reader].add(left)
            if self._network.is_output(name):
                outputs += left
            after = cohorts[name].amount()
            # the oldest go first: what waited longer is in a block already
            stored += max(0.0, after - max(0.0, before - forecast.taken[name]))
            cohorts[name].waited = after
        return outputs, stored
