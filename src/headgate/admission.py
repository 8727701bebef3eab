"""Admission by QoS: queries are let in if all keep their bounds, and watched while they run."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headgate.errors import OverloadError
from headgate.model.event import Event, TickCommitted
from headgate.model.measured import Measured
from headgate.model.network import Network, QueryDefinition
from headgate.model.profile import Profiles
from headgate.model.tick import TickCosts
from headgate.queueing.admission import admission
from headgate.queueing.drift import Drift, Warning
from headgate.queueing.models import InTicks, LatencyModel, OnServer
from headgate.queueing.plan import Plan

# how often a running query is judged anew, and how soon a warning may be repeated
_LOOK_EVERY_S = 5.0
_REPEAT_AFTER_S = 60.0


class Refused(OverloadError):
    """A query would break its own bounds, or those of another; the text is the advice."""


def has_bounds(query: QueryDefinition) -> bool:
    """Whether there is anything to break: one that sheds keeps its bounds by shedding."""
    return query.overload != "shed" and (query.latency_s is not None or query.memory_bytes is not None)


def judge(network: Network, new: Collection[str], measured: Measured, processors: int) -> None:
    """Raise if a query with bounds would not keep them.

    Nothing is said of queries whose operators or streams have not been measured.
    """
    bounded = [query for query in network.queries.values() if has_bounds(query)]
    known = set(network.operators) <= set(measured.profiles) and set(network.streams) <= set(
        measured.tuples_per_s
    )
    if not bounded or not known:
        return
    rates = {stream: measured.tuples_per_s[stream] for stream in network.streams}
    found = admission(Plan(network, measured.profiles, rates), new, model_of(measured, processors))
    if any(not found.advice.queries[query.name].fits for query in bounded):
        raise Refused(f"{found.reason}; --force (or force=True) lets it in")


def model_of(measured: Measured, processors: int) -> LatencyModel:
    """How long things take where this was measured."""
    return OnServer(processors) if measured.tick is None else InTicks.measured(measured.tick)


class Watch:
    """An observer that warns when the rates of a run drift towards breaking a query's bounds."""

    def __init__(
        self,
        network: Network,
        profiles: Callable[[], Profiles],
        costs: Callable[[], TickCosts | None],
        warn: Callable[[Warning], None],
    ) -> None:
        self._network = network
        self._profiles = profiles
        self._costs = costs
        self._warn = warn
        self._bounded = {query.name for query in network.queries.values() if has_bounds(query)}
        self._drift: Drift | None = None
        self._last_s: float | None = None
        self._looked_s = 0.0
        self._warned_s: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        """Take in a tick."""
        if not self._bounded or not isinstance(event, TickCommitted):
            return
        before_s, self._last_s = self._last_s, event.now_s
        if before_s is None or event.now_s <= before_s:
            # nobody knows since when the first tick's tuples had waited
            return
        rates = {name: c.rows_in / (event.now_s - before_s) for name, c in event.streams.items()}
        if event.now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = event.now_s
            self._learn(rates)
        if self._drift is not None:
            self._drift.observe(event.now_s, rates)
            if self._looked_s == event.now_s:
                self._say(event.now_s)

    def _learn(self, rates: dict[str, float]) -> None:
        plan = Plan(self._network, self._profiles(), rates)
        costs = self._costs()
        if costs is None:
            return
        model = InTicks.measured(costs)
        if self._drift is None:
            self._drift = Drift(plan, model)
        else:
            self._drift.learn(plan, model)

    def _say(self, now_s: float) -> None:
        assert self._drift is not None
        for warning in self._drift.warnings():
            last_s = self._warned_s.get(warning.query)
            if warning.query in self._bounded and (last_s is None or now_s - last_s >= _REPEAT_AFTER_S):
                self._warned_s[warning.query] = now_s
                self._warn(warning)
