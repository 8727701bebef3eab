"""Admission control: queries with bounds are admitted if all keep them, and watched while they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from headgate.errors import OverloadError
from headgate.model.event import Event, TickCommitted
from headgate.model.network import Network
from headgate.queueing.advice import Advice, Drift, Warning, advise
from headgate.queueing.latency_models import InTicks, LatencyModel, OnServer
from headgate.queueing.load_model import LoadModel
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

_CHECK_EVERY_S = 5.0
_REPEAT_AFTER_S = 60.0


class Refused(OverloadError):
    """A query would break its own bounds, or those of another; the text is the advice."""


@dataclass(frozen=True)
class Admission:
    """Whether new queries may join those that run; ``advice`` is on the plan that contains both."""

    new: tuple[str, ...]
    advice: Advice

    @property
    def admitted(self) -> bool:
        return self.advice.fits

    @property
    def reason(self) -> str:
        """Why not, in one line: which bounds break, by how much, and what would fit."""
        if self.admitted:
            return ""
        lines = [
            f"{'' if query in self.new else 'running '}query {query}: "
            f"{'; '.join(map(str, own.broken))} ({own.remedies})"
            for query, own in self.advice.queries.items()
            if not own.fits
        ]
        factor = self.advice.largest_factor
        most = f"all fits at {factor:.3g} times the present rates" if factor > 0 else "no rate would fit"
        return f"{'; '.join(lines)}; {most}"


def admission(plan: LoadModel, new: Collection[str], model: LatencyModel) -> Admission:
    """Judge the new queries of a plan that contains the running ones as well."""
    names = tuple(query for query in plan.network.queries if query in new)
    return Admission(names, advise(plan, model))


def check_admission(network: Network, new: Collection[str], measured: Measured, processors: int) -> None:
    """Raise ``Refused`` if a query would break its bounds; one that is not measured yet is admitted."""
    bounded = bounded_queries(network)
    is_known = network.operators.keys() <= measured.profiles.keys() and (
        network.streams.keys() <= measured.tuples_per_s.keys()
    )
    if not bounded or not is_known:
        return
    rates = {stream: measured.tuples_per_s[stream] for stream in network.streams}
    model = OnServer(processors) if measured.tick is None else InTicks.measured(measured.tick)
    found = admission(LoadModel(network, measured.profiles, rates), new, model)
    if any(not found.advice.queries[name].fits for name in bounded):
        raise Refused(f"{found.reason}; --force (or force=True) lets it in")


def bounded_queries(network: Network) -> set[str]:
    """Queries that can break a bound; one that sheds keeps its bounds by shedding."""
    return {
        name
        for name, query in network.queries.items()
        if query.overload != "shed" and (query.latency_s is not None or query.memory_bytes is not None)
    }


class BoundsWatch:
    """An observer that warns when rates drift towards breaking a query's bounds."""

    def __init__(
        self, network: Network, statistics: StatisticsStore, warn: Callable[[Warning], None]
    ) -> None:
        self._network = network
        self._statistics = statistics
        self._warn = warn
        self._bounded = bounded_queries(network)
        self._drift: Drift | None = None
        self._checked_s = 0.0
        self._warned_s: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        interval = self._statistics.arrivals.latest
        if not self._bounded or not isinstance(event, TickCommitted) or interval is None:
            return
        rates = {name: counts.rows_in / interval.arrived_s for name, counts in event.streams.items()}
        is_due = event.now_s - self._checked_s >= _CHECK_EVERY_S
        if is_due:
            self._checked_s = event.now_s
            self._update_plan(rates)
        if self._drift is not None:
            self._drift.observe(event.now_s, rates)
            for warning in self._drift.warnings() if is_due else ():
                last_s = self._warned_s.get(warning.query, -math.inf)
                if warning.query in self._bounded and event.now_s - last_s >= _REPEAT_AFTER_S:
                    self._warned_s[warning.query] = event.now_s
                    self._warn(warning)

    def _update_plan(self, rates: dict[str, float]) -> None:
        costs = self._statistics.snapshot({}).tick
        if costs is None:
            return
        plan, model = LoadModel(self._network, self._statistics.profiles, rates), InTicks.measured(costs)
        if self._drift is None:
            self._drift = Drift(plan, model)
        else:
            self._drift.learn(plan, model)
