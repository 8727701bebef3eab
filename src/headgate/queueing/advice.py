"""Advice: which queries keep their bounds, what would help the others, and which will break theirs when."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from headgate.formats.html import html_table, listed, plural
from headgate.model.joins import WindowJoin
from headgate.queueing.distributions import first_true
from headgate.queueing.latency_models import LatencyModel, OwnServers
from headgate.queueing.load_model import LoadModel
from headgate.queueing.mg1 import largest_kept
from headgate.queueing.prediction import LoadPrediction
from headgate.queueing.service_times import Overloaded, ParameterError, check_amount, check_share
from headgate.queueing.tick_model import InTicks

DEFAULT_PERCENTILE = 0.99
_MOST_PROCESSORS = 4096
# what a user would round to anyway
_PRECISION = 1e-4
_TREND_S = 60.0
# within this many standard errors a trend is noise
_SURE = 3.0
_FEWEST = 5
_STEPS = 64
# an answer is sure if it holds within this many standard errors
_ERRORS = 2.0


@dataclass(frozen=True)
class Broken:
    """A bound that does not hold: in seconds, bytes, or the utilisation, which must stay below 1."""

    query: str
    bound: Literal["latency", "memory", "capacity"]
    limit: float
    predicted: float
    percentile: float

    @property
    def times(self) -> float:
        """The prediction as a multiple of the bound."""
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
    """Changes that would each make a query fit; None where one would not."""

    processors: int | None
    window_factor: float | None
    shed_share: float | None
    waits_for_order: bool = False
    """Whether a join of the query waits for the next tuple of other streams."""

    def __str__(self) -> str:
        parts = []
        if self.processors is not None:
            parts.append(plural(self.processors, "processor"))
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
    """One query: its broken bounds, and the largest factor on all rates at which it keeps them.

    ``may_shed``: it keeps its bounds by shedding, as far as that helps. ``is_sure`` is False if the
    answer would be another one were all costs off by twice their standard error.
    """

    query: str
    broken: tuple[Broken, ...]
    largest_factor: float
    remedies: Remedies | None
    may_shed: bool = False
    is_sure: bool = True

    @property
    def shed_share(self) -> float | None:
        """The share of its input that the query has to shed; None if it need not, or if that is no help."""
        return self.remedies.shed_share if self.remedies is not None and self.may_shed else None

    @property
    def fits(self) -> bool:
        return not self.broken or self.shed_share is not None

    @property
    def help(self) -> str:
        """What would make it fit; empty if it does."""
        return "" if self.remedies is None else str(self.remedies)


@dataclass(frozen=True)
class Advice:
    """All queries of a load, and what the advice rests on; ``prediction`` is None if it is overloaded."""

    load: LoadModel
    percentile: float
    utilisation: float
    prediction: LoadPrediction | None
    queries: Mapping[str, QueryAdvice]
    sure_factor: float
    """The largest factor on all rates at which all fit even if costs are higher by twice their error."""
    model: LatencyModel
    described: str = ""
    """The model in words."""
    idle: tuple[str, ...] = ()
    """Operators that were not measured since no tuple reaches them."""
    machine_bound: Mapping[str, float] = field(default_factory=dict)
    """Tuples per second that the profiled machine took of streams that bring more."""

    def __repr__(self) -> str:
        broken = [name for name, advice in self.queries.items() if not advice.fits]
        fits = f"{listed(broken)} would not fit" if broken else f"all fit up to x {self.largest_factor:.3g}"
        queries = plural(len(self.queries), "query", "queries")
        return f"<Advice on {queries}: {fits}; utilisation {self.utilisation:.3g}; {self.basis}>"

    def _repr_html_(self) -> str:
        rows = (
            (name, "yes" if own.fits else "NO", own.largest_factor, "; ".join(map(str, own.broken)), own.help)
            for name, own in self.queries.items()
        )
        headings = ("query", "fits", "rates up to (times these)", "broken", "what would help")
        return html_table(headings, rows, "; ".join((self.basis, *self.marks)))

    @property
    def basis(self) -> str:
        """Model, processors and percentile, in one line."""
        model = self.model
        described = self.described or type(model).__name__
        each = " for each operator" if isinstance(model, OwnServers) else ""
        count = model.servers if isinstance(model, OwnServers) else model.processors
        return f"model: {described}; processors: {count}{each}; percentile: p{100 * self.percentile:g}"

    @property
    def marks(self) -> tuple[str, ...]:
        """What was not measured, and rates that the profiled machine did not reach."""
        idle = [f"not measured, as no tuple reached it, and counted as idle: {name}" for name in self.idle]
        rates = self.load.rates
        missed = [
            f"{stream}: the profiled machine took {per_s:,.4g} tuples/s, not {rates[stream]:,.4g}"
            for stream, per_s in self.machine_bound.items()
        ]
        return (*idle, *missed)

    @property
    def error(self) -> float | None:
        """Twice the standard error of all times, as a share of them; None where it differs by operator."""
        return _ERRORS * self.model.error or None if isinstance(self.model, InTicks) else None

    @property
    def fits(self) -> bool:
        return all(advice.fits for advice in self.queries.values())

    @property
    def is_sure(self) -> bool:
        return all(advice.is_sure for advice in self.queries.values())

    @property
    def largest_factor(self) -> float:
        return min((advice.largest_factor for advice in self.queries.values()), default=math.inf)

    def largest_rates(self, query: str | None = None) -> dict[str, float]:
        """Tuples per second of all streams at the largest factor of a query, or of all."""
        return self._rates(self.largest_factor if query is None else self.queries[query].largest_factor)

    def sure_rates(self) -> dict[str, float]:
        """Tuples per second of all streams at the sure factor."""
        return self._rates(self.sure_factor)

    def _rates(self, factor: float) -> dict[str, float]:
        return {stream: rate * factor if rate else 0.0 for stream, rate in self.load.rates.items()}


def advise(load: LoadModel, model: LatencyModel, percentile: float = DEFAULT_PERCENTILE) -> Advice:
    """Check every query against its own bounds, and whether processors keep up with the load at all."""
    check_share("percentile", percentile)
    prediction, utilisation = _predicted(load, model)
    broken = _broken(load, prediction, utilisation, percentile)
    # where costs are as far off as they may well be, in both directions
    ends = [
        {bound.query for bound in broken_bounds(*_off_by(errors, load, model), percentile)}
        for errors in (-_ERRORS, _ERRORS)
    ]
    queries = {}
    for name, query in load.network.queries.items():
        own = tuple(bound for bound in broken if bound.query == name)
        found = _query_advice(load, model, percentile, name, own, utilisation > 0)
        is_sure = all((name in end) == bool(own) for end in ends)
        queries[name] = replace(found, may_shed=query.overload == "shed", is_sure=is_sure)
    sure_factor = math.inf
    if utilisation > 0:
        sure_factor = largest_kept(
            lambda factor: not broken_bounds(*_off_by(_ERRORS, load.scaled(factor), model), percentile),
            precision=_PRECISION,
        )
    return Advice(load, percentile, utilisation, prediction, queries, sure_factor, model)


def _off_by(errors: float, load: LoadModel, model: LatencyModel) -> tuple[LoadModel, LatencyModel]:
    """The load where costs are off by so many standard errors."""
    if isinstance(model, InTicks) and model.error + model.work_error + model.overhead_error_s > 0:
        return load, model.off_by(errors)
    return load.off_by(errors), model


def broken_bounds(
    load: LoadModel, model: LatencyModel, percentile: float = DEFAULT_PERCENTILE, query: str | None = None
) -> tuple[Broken, ...]:
    return _broken(load, *_predicted(load, model), percentile, query)


def _predicted(load: LoadModel, model: LatencyModel) -> tuple[LoadPrediction | None, float]:
    """The prediction, None if there is no steady state, and the utilisation."""
    try:
        prediction = model.predict(load)
        return prediction, prediction.utilisation
    except Overloaded as overloaded:
        return None, overloaded.utilisation


def _broken(
    load: LoadModel,
    prediction: LoadPrediction | None,
    utilisation: float,
    percentile: float,
    only: str | None = None,
) -> tuple[Broken, ...]:
    found = []
    for name, query in load.network.queries.items():
        if only is not None and name != only:
            continue
        if prediction is None:
            found.append(Broken(name, "capacity", 1.0, utilisation, percentile))
            continue
        limit_s, limit_bytes = query.latency_s, query.memory_bytes
        if limit_s is not None and (latency_s := prediction.latency_s(name, percentile)) > limit_s:
            found.append(Broken(name, "latency", limit_s, latency_s, percentile))
        if limit_bytes is not None and (queued := prediction.queue_bytes(name, percentile)) > limit_bytes:
            found.append(Broken(name, "memory", float(limit_bytes), queued, percentile))
    return tuple(found)


def _query_advice(
    load: LoadModel,
    model: LatencyModel,
    percentile: float,
    query: str,
    broken: tuple[Broken, ...],
    is_loaded: bool,
) -> QueryAdvice:
    """Search the changes to the load, or to its processors, under which a query keeps its bounds.

    What is not loaded at all keeps them at any rate.
    """

    def fits(load: LoadModel, model: LatencyModel = model) -> bool:
        return not broken_bounds(load, model, percentile, query)

    factor = math.inf
    if is_loaded:
        factor = largest_kept(lambda factor: fits(load.scaled(factor)), precision=_PRECISION)
    if not broken:
        return QueryAdvice(query, (), factor, None)
    window_factor = 0.0
    if any(isinstance(load.network.operators[n], WindowJoin) for n in load.network.operators_of(query)):
        window_factor = largest_kept(lambda f: fits(load.with_windows(query, f)), 1.0, _PRECISION)
    keep_ratio = largest_kept(lambda share: fits(load.shedding(query, 1 - share)), 1.0, _PRECISION)
    counts = range(1, _MOST_PROCESSORS + 1)
    place = bisect_left(counts, True, key=lambda n: fits(load, model.with_processors(n)))
    remedies = Remedies(
        counts[place] if place < len(counts) else None,
        window_factor if window_factor > _PRECISION else None,
        1 - keep_ratio if keep_ratio > _PRECISION else None,
        any(load.order_waits(path) for path in load.paths_of(query)),
    )
    return QueryAdvice(query, broken, factor, remedies)


@dataclass(frozen=True)
class Warning:
    """A bound that breaks ``in_s`` seconds after the last observation; 0 if it is broken already."""

    query: str
    in_s: float
    broken: Broken

    def __str__(self) -> str:
        when = "breaks now" if self.in_s == 0 else f"will break in {self.in_s:.0f} s at the current trend"
        return f"query {self.query} {when}: {self.broken}"


@dataclass(frozen=True)
class Trend:
    """A current rate and its change, which is 0 where it is not more than noise."""

    per_s: float
    change_per_s2: float = 0.0


class Drift:
    """Predicts which query breaks within ``horizon_s``, and when, by the trends of the last minute."""

    def __init__(self, load: LoadModel, model: LatencyModel, horizon_s: float = 600.0) -> None:
        self._horizon_s = check_amount("horizon_s", horizon_s)
        self._seen: dict[str, deque[tuple[float, float]]] = {stream: deque() for stream in load.rates}
        self.learn(load, model)

    def learn(self, load: LoadModel, model: LatencyModel) -> None:
        self._load = load
        self._model = model

    def observe(self, at_s: float, tuples_per_s: Mapping[str, float]) -> None:
        """Add the rates of streams since the last observation; ``at_s`` is any clock that never goes back."""
        for stream, rate in tuples_per_s.items():
            if stream not in self._seen:
                raise ParameterError(f"no query reads a stream {stream}")
            seen = self._seen[stream]
            if seen and at_s < seen[-1][0]:
                raise ParameterError(f"observation at {at_s:g} s comes after one at {seen[-1][0]:g} s")
            seen.append((at_s, check_amount(f"rate of stream {stream}", rate)))
            while seen[0][0] < at_s - _TREND_S:
                seen.popleft()

    def trends(self) -> dict[str, Trend]:
        """The trend of every stream; its rate in the load model where nothing was observed yet."""
        return {
            stream: _trend(seen) if seen else Trend(self._load.rates[stream])
            for stream, seen in self._seen.items()
        }

    def warnings(self) -> tuple[Warning, ...]:
        """One for each query that breaks within the horizon, the first to break first."""
        trends = self.trends()
        is_steady = not any(trend.change_per_s2 for trend in trends.values())
        found: dict[str, Warning] = {}

        def breaks(query: str, seconds: float) -> bool:
            return any(broken.query == query for broken in self._broken(trends, seconds))

        times_s = [0.0] if is_steady else np.linspace(0.0, self._horizon_s, _STEPS + 1).tolist()
        for before_s, seconds in pairwise([0.0, *times_s]):
            for broken in self._broken(trends, seconds):
                if broken.query not in found:
                    in_s = (
                        first_true(partial(breaks, broken.query), before_s, seconds, 12) if seconds else 0.0
                    )
                    found[broken.query] = Warning(broken.query, in_s, broken)
            if len(found) == len(self._load.network.queries):
                break
        return tuple(sorted(found.values(), key=lambda warning: (warning.in_s, warning.query)))

    def _broken(self, trends: Mapping[str, Trend], seconds: float) -> tuple[Broken, ...]:
        rates = {stream: max(0.0, t.per_s + t.change_per_s2 * seconds) for stream, t in trends.items()}
        return broken_bounds(self._load.at(rates), self._model)


def _trend(seen: deque[tuple[float, float]]) -> Trend:
    times_s, rates = np.array(seen).T
    mean = float(rates.mean())
    spread = times_s - times_s.mean()
    if len(seen) < _FEWEST or not spread.any():
        return Trend(mean)
    slope = float(spread @ rates / (spread @ spread))
    left = rates - mean - slope * spread
    error = float(np.sqrt(left @ left / (len(seen) - 2) / (spread @ spread)))
    if abs(slope) <= _SURE * error or abs(slope) * (times_s[-1] - times_s[0]) <= 1e-9 * mean:
        return Trend(mean)
    return Trend(max(0.0, mean + slope * float(spread[-1])), slope)
