"""Admission control: queries with bounds are admitted if all keep them, and watched while they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from headgate.errors import OverloadError
from headgate.formats.html import listed, plural
from headgate.model.event import Event, TickCommitted
from headgate.model.network import Network
from headgate.queueing.advice import Advice, Drift, Warning, advise
from headgate.queueing.latency_models import LatencyModel
from headgate.queueing.load_model import LoadModel
from headgate.queueing.tick_model import InTicks
from headgate.statistics.completeness import (
    THE_PROFILE,
    NotMeasured,
    Origin,
    operator_profiles,
    stream_rates,
    tick_costs_of,
)
from headgate.statistics.likeness import Estimates, with_estimates
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

_CHECK_EVERY_S = 5.0
_REPEAT_AFTER_S = 60.0


class Refused(OverloadError):
    """A query would break its own bounds, or those of another; the text is the advice."""


def measured_load(
    network: Network,
    measured: Measured,
    rates: Mapping[str, float] = MappingProxyType({}),
    origin: Origin = THE_PROFILE,
) -> LoadModel:
    """The load of a network at given rates, else at those of its streams, else at those of its profile.

    Raises ``NotMeasured`` if anything of that is not known.
    """
    profiles = operator_profiles(measured, network, origin)
    now = stream_rates(measured, network, rates)
    profiled = {stream: measured.tuples_per_s.get(stream, rate) for stream, rate in now.items()}
    return LoadModel(network, profiles, profiled).at(now)


def measured_ticks(
    measured: Measured, processors: int | None = None, origin: Origin = THE_PROFILE
) -> InTicks:
    """Ticks as profiled, on so many processors; raises if none were: no result is earlier than a tick."""
    ticks = InTicks.measured(tick_costs_of(measured, origin), measured.processors)
    return ticks if processors is None else ticks.with_processors(processors)


def with_machine_bounds(measured: Measured, network: Network) -> Measured:
    """The profile, with the rates that the machine can take where it cannot take those of the streams."""
    try:
        load = measured_load(network, measured)
        utilisation = measured_ticks(measured).utilisation(load)
    except NotMeasured:
        return measured
    if utilisation < 1:
        return measured
    most = {stream: rate / utilisation for stream, rate in load.rates.items()}
    return replace(measured, machine_bound={**most, **measured.machine_bound})


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
        factor = self.advice.largest_factor
        most = f"all fits at {factor:.3g} times the present rates" if factor > 0 else "no rate would fit"
        return f"{'; '.join(self.reasons().values())}; {most}"

    def reasons(self) -> dict[str, str]:
        """By query that does not fit: its broken bounds, and what would make it fit."""
        return {
            query: f"{'' if query in self.new else 'running '}query {query}: "
            f"{'; '.join(map(str, own.broken))} ({own.remedies})"
            for query, own in self.advice.queries.items()
            if not own.fits
        }


def admission(plan: LoadModel, new: Collection[str], model: LatencyModel) -> Admission:
    """Judge the new queries of a plan that contains the running ones as well."""
    names = tuple(query for query in plan.network.queries if query in new)
    return Admission(names, advise(plan, model))


def check_admission(
    network: Network, new: Collection[str], measured: Measured, processors: int | None = None
) -> tuple[str, ...]:
    """Raise ``Refused`` if a query would break the bounds that it declares; returns warnings.

    The verdict is that of ``headgate advise`` on the same profile, and the same processors: as many as were
    profiled, unless it is known how many there will be. Operators that were not measured are estimated from
    like ones, and a warning names them. Queries without bounds and queries that shed are admitted all the
    same, with a warning if they do not fit; so is what nothing is known of.
    """
    bounded = bounded_queries(network)
    # a profile that does not say how many there were cannot be scaled
    others = processors if measured.processors not in (None, processors) else None
    try:
        known, estimates = with_estimates(measured, network)
        load, model = measured_load(network, known), measured_ticks(known, others)
    except NotMeasured as error:
        names = ", ".join(sorted(bounded))
        return (f"bounds of {names} are not checked: {error}",) if bounded else ()
    marks = marks_of(estimates, bounded)
    found = admission(load, new, model)
    reasons = found.reasons()
    if bounded & reasons.keys():
        on = f"on {plural(others, 'processor')}, " if others else ""
        raise Refused("; ".join([f"{on}{found.reason}", *marks, "--force (or force=True) admits it"]))
    doubtful = [
        f"query {name} keeps its bounds by a margin smaller than the error of its profile"
        for name, own in found.advice.queries.items()
        if name in bounded and not own.is_sure
    ]
    return (*reasons.values(), *doubtful, *marks)


_SHOWN = 3


def marks_of(estimates: Estimates, bounded: Collection[str]) -> tuple[str, ...]:
    """Which operators a verdict on bounds rests on without a measurement of theirs."""
    if not (estimates and bounded):
        return ()
    parts = [
        f"{name} (as before it changed)" if name == like else f"{name} (as {like})"
        for name, like in estimates.items()
    ]
    names = ", ".join(sorted(bounded))
    return (f"bounds of {names} are checked by estimates of operator {listed(parts, _SHOWN)}",)


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
        measured = self._statistics.snapshot(rates)
        # the latest estimates: rates may have changed the costs of joins
        latest = {name: self._statistics.profiles[name] for name in measured.profiles}
        measured = replace(measured, profiles=latest)
        try:
            plan, model = measured_load(self._network, measured, rates), measured_ticks(measured)
        except NotMeasured:
            return
        if self._drift is None:
            self._drift = Drift(plan, model)
        else:
            self._drift.learn(plan, model)
