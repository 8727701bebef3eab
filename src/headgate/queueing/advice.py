"""Advice: which queries keep their bounds, by how much others break theirs, and what would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from headgate.model.operator import WindowJoin
from headgate.queueing.faults import Overloaded, check_share
from headgate.queueing.figures import PlanFigures
from headgate.queueing.inverse import largest_kept
from headgate.queueing.models import LatencyModel
from headgate.queueing.plan import Plan

DEFAULT_PERCENTILE = 0.99
_MOST_PROCESSORS = 4096
# what a user would round to anyway
_PRECISION = 1e-4

BoundKind = Literal["latency", "memory", "capacity"]


@dataclass(frozen=True)
class Broken:
    """A bound that does not hold: seconds, bytes, or the utilisation that has to stay below 1."""

    query: str
    bound: BoundKind
    limit: float
    predicted: float
    percentile: float

    @property
    def times(self) -> float:
        """How many times the bound it is."""
        return self.predicted / self.limit if self.limit > 0 else math.inf

    def __str__(self) -> str:
        share = f"p{100 * self.percentile:g}"
        if self.bound == "capacity":
            return f"utilisation would be {self.predicted:.3g}, and has to stay below 1"
        if self.bound == "latency":
            excess = f"{self.times:.3g} times its bound of {self.limit:g} s"
            return f"latency {share} would be {self.predicted:.3g} s, {excess}"
        sizes = f"{self.predicted / 1e6:.3g} MB, {self.times:.3g} times its bound of {self.limit / 1e6:g} MB"
        return f"queue memory {share} would be {sizes}"


@dataclass(frozen=True)
class Remedies:
    """Each of these alone would make a query fit; None where it would not."""

    processors: int | None
    window_factor: float | None
    shed_share: float | None
    waits_for_order: bool = False
    """Whether a join of the query waits for the other streams to come as far."""

    def __str__(self) -> str:
        parts = []
        if self.processors is not None:
            parts.append(f"{self.processors} processors")
        if self.window_factor is not None:
            parts.append(f"windows {self.window_factor:.2g} times as long")
        if self.shed_share is not None:
            parts.append(f"shedding {self.shed_share:.1%} of its input")
        if parts:
            return "it would fit with " + ", or ".join(parts)
        if self.waits_for_order:
            return "its join waits for the next tuple of a slow stream, which no capacity shortens"
        return "no processors, windows or shedding would make it fit"


@dataclass(frozen=True)
class QueryAdvice:
    """One query: what breaks, and up to which factor on all rates nothing would."""

    query: str
    broken: tuple[Broken, ...]
    largest_factor: float
    remedies: Remedies | None

    @property
    def fits(self) -> bool:
        """Whether the query keeps its bounds."""
        return not self.broken


@dataclass(frozen=True)
class Advice:
    """All queries of a plan; without ``figures`` if it is overloaded."""

    plan: Plan
    model: LatencyModel
    percentile: float
    utilisation: float
    figures: PlanFigures | None
    queries: Mapping[str, QueryAdvice]

    @property
    def fits(self) -> bool:
        """Whether all queries keep their bounds."""
        return all(advice.fits for advice in self.queries.values())

    @property
    def largest_factor(self) -> float:
        """The largest factor on all rates at which all queries keep their bounds."""
        return min((advice.largest_factor for advice in self.queries.values()), default=math.inf)

    def largest_rates(self, query: str | None = None) -> dict[str, float]:
        """Tuples a second of all streams at that factor."""
        factor = self.largest_factor if query is None else self.queries[query].largest_factor
        return {stream: rate * factor if rate else 0.0 for stream, rate in self.plan.rates.items()}


def advise(plan: Plan, model: LatencyModel, percentile: float = DEFAULT_PERCENTILE) -> Advice:
    """Judge every query by its own bounds, and by whether the plan can be kept up with at all."""
    check_share("percentile", percentile)
    figures: PlanFigures | None = None
    try:
        figures = model.figures(plan)
        utilisation = figures.utilisation
    except Overloaded as overloaded:
        utilisation = overloaded.utilisation
    broken = _broken(plan, figures, utilisation, percentile)
    queries = {}
    for query in plan.network.queries:

        def fits(changed: Plan, by: LatencyModel, query: str = query) -> bool:
            return not broken_bounds(changed, by, percentile, query)

        own = tuple(bound for bound in broken if bound.query == query)
        queries[query] = QueryAdvice(
            query,
            own,
            _largest_factor(plan, model, fits),
            _remedies(plan, model, query, fits) if own else None,
        )
    return Advice(plan, model, percentile, utilisation, figures, queries)


def broken_bounds(
    plan: Plan, model: LatencyModel, percentile: float = DEFAULT_PERCENTILE, query: str | None = None
) -> tuple[Broken, ...]:
    """The bounds that do not hold, of one query or of all."""
    try:
        figures = model.figures(plan)
    except Overloaded as overloaded:
        return _broken(plan, None, overloaded.utilisation, percentile, query)
    return _broken(plan, figures, figures.utilisation, percentile, query)


def _broken(
    plan: Plan, figures: PlanFigures | None, utilisation: float, percentile: float, only: str | None = None
) -> tuple[Broken, ...]:
    found = []
    for name, query in plan.network.queries.items():
        if only is not None and name != only:
            continue
        if figures is None:
            found.append(Broken(name, "capacity", 1.0, utilisation, percentile))
            continue
        if query.latency_s is not None:
            latency_s = figures.latency_s(name, percentile)
            if latency_s > query.latency_s:
                found.append(Broken(name, "latency", query.latency_s, latency_s, percentile))
        if query.memory_bytes is not None:
            queued = figures.queue_bytes(name, percentile)
            if queued > query.memory_bytes:
                found.append(Broken(name, "memory", float(query.memory_bytes), queued, percentile))
    return tuple(found)


Fits = Callable[[Plan, LatencyModel], bool]


def _largest_factor(plan: Plan, model: LatencyModel, fits: Fits) -> float:
    if plan.load == 0:
        return math.inf
    return largest_kept(lambda factor: fits(plan.scaled(factor), model), precision=_PRECISION)


def _remedies(plan: Plan, model: LatencyModel, query: str, fits: Fits) -> Remedies:
    window = None
    if any(isinstance(plan.network.operators[name], WindowJoin) for name in plan.network.operators_of(query)):
        factor = largest_kept(
            lambda share: fits(plan.with_windows(query, share), model), limit=1.0, precision=_PRECISION
        )
        window = factor if factor > _PRECISION else None
    kept = largest_kept(
        lambda share: fits(plan.shedding(query, 1 - share), model), limit=1.0, precision=_PRECISION
    )
    shed = 1 - kept if kept > _PRECISION else None
    ordered = any(plan.order_waits(path) for path in plan.paths_of(query))
    return Remedies(_least_processors(plan, model, fits), window, shed, ordered)


def _least_processors(plan: Plan, model: LatencyModel, fits: Fits) -> int | None:
    low, high = 0, 1
    while not fits(plan, model.with_processors(high)):
        if high >= _MOST_PROCESSORS:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if fits(plan, model.with_processors(middle)):
            high = middle
        else:
            low = middle
    return high
