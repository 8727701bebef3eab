"""Ticks in virtual time: the Spark engine, predicted from profiles and arrivals alone.

A tick takes in what has arrived since the last one, lets the strategy choose turns in predicted time as
the engine does, and then lasts as long as its work and its overhead take.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.errors import StalledError
from headgate.model.network import Network
from headgate.model.profile import Profiles, TickCosts
from headgate.runtime.forecast import Forecast, ForecastQueue
from headgate.scheduling.strategy import Strategy
from headgate.simulator.scenario import Floats

_NOTHING = 1e-6
_MOST_TICKS = 100_000

Cohort = tuple[float, float]
"""When tuples arrived, and how many."""


@dataclass(frozen=True)
class TickedRun:
    """Tuples waiting when each tick began, the backlog after it, and results with latencies to commit."""

    at_s: Floats
    waiting: Floats
    backlog_bytes: Floats
    latencies_s: Floats
    results: Floats

    @property
    def peak_bytes(self) -> float:
        return float(self.backlog_bytes.max(initial=0.0))

    @property
    def mean_waiting(self) -> float:
        """Tuples that waited when a tick began, over the time of all ticks."""
        lengths_s = np.diff(self.at_s, prepend=0.0)
        return float(np.average(self.waiting, weights=lengths_s)) if len(self.at_s) else 0.0

    @property
    def mean_latency_s(self) -> float:
        return float(np.average(self.latencies_s, weights=self.results)) if self.results.sum() else 0.0


class _Queue:
    """Tuples before an operator by their time of arrival, oldest first."""

    def __init__(self) -> None:
        self.cohorts: deque[Cohort] = deque()
        self.waited = 0.0
        """Tuples that were left when the last tick ended."""

    def add(self, cohorts: list[Cohort]) -> None:
        self.cohorts.extend(cohort for cohort in cohorts if cohort[1] > _NOTHING)

    def amount(self) -> float:
        return sum(amount for _, amount in self.cohorts)

    def take(self, amount: float) -> list[Cohort]:
        taken = []
        while amount > _NOTHING and self.cohorts:
            arrived_s, here = self.cohorts.popleft()
            part = min(here, amount)
            taken.append((arrived_s, part))
            amount -= part
            if here - part > _NOTHING:
                self.cohorts.appendleft((arrived_s, here - part))
        return taken


@dataclass(frozen=True)
class TickSimulation:
    """A network of operators without window order, run tick by tick."""

    network: Network
    profiles: Profiles
    arrivals_s: Mapping[str, Floats]
    costs: TickCosts
    budget_s: float
    processors: int

    def run(self, strategy: Strategy) -> TickedRun:
        """Run ticks until everything has arrived and nothing waits."""
        strategy.prepare(self.network, self.profiles)
        queues = {name: _Queue() for name in self.network.operators}
        taken_in = dict.fromkeys(self.arrivals_s, 0)
        total = sum(len(times) for times in self.arrivals_s.values())
        now_s = 0.0
        ticks: list[tuple[float, float, float]] = []
        outputs: list[tuple[float, float]] = []
        while sum(taken_in.values()) < total or any(queue.cohorts for queue in queues.values()):
            if len(ticks) >= _MOST_TICKS:
                raise StalledError(f"strategy {strategy.name} leaves a backlog that never ends")
            rows = self._arrive(now_s, taken_in, queues)
            waiting = sum(queue.amount() for queue in queues.values())
            forecast = self._choose(strategy, now_s, queues)
            results, stored = self._move(forecast, queues)
            now_s += self.costs.seconds(rows, forecast.spent_s + self.costs.stored_busy_s * stored)
            outputs += [(now_s - at_s, amount) for at_s, amount in results]
            backlog = sum(q.amount() * self.profiles[name].bytes_per_tuple for name, q in queues.items())
            ticks.append((now_s, waiting, backlog))
        return TickedRun(*np.array(ticks).reshape(-1, 3).T, *np.array(outputs).reshape(-1, 2).T)

    def _arrive(self, now_s: float, taken_in: dict[str, int], queues: Mapping[str, _Queue]) -> int:
        rows = 0
        for stream, times in self.arrivals_s.items():
            upto = int(np.searchsorted(times, now_s, side="right"))
            new, taken_in[stream] = upto - taken_in[stream], upto
            for leaf in self.network.leaves(stream):
                queues[leaf].add([(now_s, float(new))])
            rows += new
        return rows

    def _choose(self, strategy: Strategy, now_s: float, queues: Mapping[str, _Queue]) -> Forecast:
        expected = {
            name: ForecastQueue(queue.amount(), 0.0, queue.cohorts[0][0] if queue.cohorts else now_s)
            for name, queue in queues.items()
        }
        budget_s = self.budget_s * self.processors
        forecast = Forecast(self.network, self.profiles, expected, now_s, budget_s, self.processors)
        while not forecast.spent and (turn := strategy.choose(forecast.view())) is not None:
            forecast.run(turn)
        return forecast

    def _move(self, forecast: Forecast, queues: Mapping[str, _Queue]) -> tuple[list[Cohort], float]:
        """Move tuples as far as was chosen; the results, and the number of tuples to store."""
        outputs, stored = [], 0.0
        for name in self.network.operators:
            queue, taken = queues[name], forecast.taken[name]
            selectivity = self.profiles[name].selectivity
            left = [(at_s, amount * selectivity) for at_s, amount in queue.take(taken)]
            for reader in self.network.readers(name):
                queues[reader].add(left)
            if self.network.is_output(name):
                outputs += left
            # the oldest go first: what waited before is in a block already
            after = queue.amount()
            stored += max(0.0, after - max(0.0, queue.waited - taken))
            queue.waited = after
        return outputs, stored
