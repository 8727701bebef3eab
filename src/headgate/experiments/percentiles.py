"""Latency percentiles that a profile predicts, beside those of every tuple of runs on Spark.

The latency of a tuple is the time from its arrival to the commit of the tick that processes it. Streams are
generated on the wall clock: the timestamp of a tuple is its arrival.

A load above that of the first profile is predicted from a profile near it, at the rate that the one before
predicts. Small ticks are the work of one processor and large ones of all, and a tick is as long as its
overhead / (1 - utilisation): at 0.9, an error of 5 % in the cost of a tuple doubles or halves
it. Below the first profile there is no other: ticks of few tuples do not tell what a tuple costs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.experiments.predict import QUERIES, PredictBench, PredictedQuery, factor_at
from headgate.experiments.study import Progress, Study, rounded
from headgate.experiments.workloads import Streams, generated_arrivals
from headgate.model.event import TickCommitted
from headgate.model.profile import TickCosts
from headgate.queueing.load_model import LoadModel
from headgate.queueing.recorded_arrivals import dispersion
from headgate.queueing.service_times import Overloaded, ParameterError
from headgate.queueing.tick_model import InTicks

Floats = NDArray[np.float64]
Profiled = tuple[LoadModel, TickCosts]
ProfileAt = Callable[[float], Profiled]

_STREAM = "packets"
_SHARES = (0.5, 0.9, 0.99)
_REPETITIONS = 3
_FIRST_SEED = 21


@dataclass(frozen=True)
class _Load:
    """A utilisation, and how long a run at it takes; ticks count from ``settled_s`` on.

    Ticks at a utilisation of 0.9 take some ten of them to become as long as they will be.
    """

    name: str
    utilisation: float
    run_s: float
    settled_s: float


_LOADS = (_Load("light load", 0.2, 20.0, 6.0), _Load("utilisation 0.9", 0.9, 60.0, 24.0))
# profiles at rates that differ by less say the same
_NEAR, _MOST_PROFILES = 0.15, 5
# costs do not hold much further from where they were measured
_MOST_FACTOR = 4.0
# of p99, at the median over queries and repetitions: one tick more or less of a hundred moves p99 by as much
_MEDIAN_ERROR = 0.2


@dataclass(frozen=True)
class CommittedTick:
    """Tuples of a stream that a tick took in, the largest of their timestamps, and when it was committed."""

    tuples: int
    until_s: float
    committed_s: float


class _Observer:
    """Records the ticks of a run."""

    def __init__(self) -> None:
        self.ticks: list[CommittedTick] = []

    def __call__(self, event: object) -> None:
        if isinstance(event, TickCommitted) and event.streams[_STREAM].rows_in:
            tuples = event.streams[_STREAM].rows_in
            self.ticks.append(CommittedTick(tuples, event.until_s[_STREAM], event.now_s))


def tuple_latencies(offsets_s: Floats, ticks: Sequence[CommittedTick], settled_s: float) -> Floats:
    """Seconds from the arrival of each tuple to the commit of its tick.

    ``offsets_s`` are arrivals since the start of the traffic, in order; those before ``settled_s`` do not
    count, nor does the last tick, which has what was left when the traffic ended.
    """
    upto = np.cumsum([tick.tuples for tick in ticks])
    start_s = ticks[0].until_s - offsets_s[upto[0] - 1]
    tick_of = np.searchsorted(upto, np.arange(upto[-2] if len(upto) > 1 else 0), side="right")
    committed_s = np.array([tick.committed_s for tick in ticks])[tick_of] - start_s
    counted = offsets_s[: len(tick_of)]
    latencies_s: Floats = committed_s - counted
    return latencies_s[counted >= settled_s]


@dataclass(frozen=True)
class Percentiles:
    """Predicted and measured percentiles of a run, by their share."""

    predicted_s: Mapping[float, float]
    measured_s: Mapping[float, float]

    def error(self, share: float) -> float:
        """How far off the prediction is, as a share of what was measured."""
        return abs(self.predicted_s[share] / self.measured_s[share] - 1)

    @property
    def row(self) -> dict[str, float]:
        """A row of the report."""
        both = (("predicted", self.predicted_s), ("measured", self.measured_s))
        return {
            f"p{100 * share:g} {name} (s)": rounded(s, 3) for name, own in both for share, s in own.items()
        }


class PercentileBench:
    """One query at a time on one Spark application."""

    def __init__(self, spark: Any, progress: Progress) -> None:
        self._predicting = PredictBench(spark, progress)

    def repetitions(self, query: PredictedQuery) -> dict[str, list[Percentiles]]:
        """Profile a query near every load, and run it there on different traffic."""
        first = self._predicting.profile(query)
        seeds = range(_FIRST_SEED, _FIRST_SEED + _REPETITIONS)
        found = {}
        for load in _LOADS:
            plan, model = self._near(query, load, *first)
            found[load.name] = [self._run(query, load, plan, model, seed) for seed in seeds]
        return found

    def _near(
        self, query: PredictedQuery, load: _Load, plan: LoadModel, costs: TickCosts
    ) -> tuple[LoadModel, InTicks]:
        plan, costs = profiled_near(
            lambda rate: self._predicting.profile_at(query, rate), (plan, costs), load.utilisation
        )
        return plan, InTicks.measured(costs)

    def _run(
        self, query: PredictedQuery, load: _Load, plan: LoadModel, model: InTicks, seed: int
    ) -> Percentiles:
        factor = factor_at(load.utilisation, plan, model)
        observer = _Observer()
        rate = factor * plan.rates[_STREAM]
        network, _ = self._predicting.run(query, rate, load.run_s, seed, observer)
        arrivals_s = generated_arrivals(network)
        latencies_s = tuple_latencies(arrivals_s[_STREAM], observer.ticks, load.settled_s)
        found = Percentiles(
            _predicted(model, _as_recorded(plan.scaled(factor), arrivals_s, load)),
            {share: float(np.quantile(latencies_s, share)) for share in _SHARES},
        )
        # half an hour of runs: what is known is not to be lost with a later one
        self._predicting.progress(f"{query.name}, {load.name}: {found.row}")
        return found


def profiled_near(profile_at: ProfileAt, first: Profiled, utilisation: float) -> Profiled:
    """A profile at no less than about the rate that it predicts for a utilisation.

    Where ticks fall behind, operators are not measured: the next rate is between that one and the last that
    was.
    """
    (plan, costs), most = first, math.inf
    for _ in range(_MOST_PROFILES):
        factor = factor_at(utilisation, plan, InTicks.measured(costs))
        if factor < 1 + _NEAR:
            break
        known = plan.rates[_STREAM]
        rate = min(min(factor, _MOST_FACTOR) * known, math.sqrt(known * most))
        try:
            plan, costs = profile_at(rate)
        except ParameterError:
            most = rate
    return plan, costs


def _predicted(model: InTicks, load: LoadModel) -> dict[float, float]:
    """Percentiles of the query's latency; infinite if the traffic happens to bring more than fits."""
    try:
        predicted = model.predict(load)
    except Overloaded:
        return dict.fromkeys(_SHARES, math.inf)
    return {share: predicted.latency_s("q", share) for share in _SHARES}


def _as_recorded(plan: LoadModel, arrivals_s: Streams, load: _Load) -> LoadModel:
    """The load that has arrived: bursts bring more or less than is expected of them."""
    seconds = load.run_s - load.settled_s
    counted = {stream: times[times >= load.settled_s] for stream, times in arrivals_s.items()}
    found = plan.scaled(len(counted[_STREAM]) / seconds / plan.rates[_STREAM])
    return replace(found, dispersions={stream: dispersion(times) for stream, times in counted.items()})


def percentiles_study(spark: Any, out: Path, progress: Progress) -> Study:
    """Compare percentiles of four queries, three times, and check the median error of p99."""
    bench = PercentileBench(spark, progress)
    return compare(Study("percentiles", out, progress), {q.name: bench.repetitions(q) for q in QUERIES})


def compare(study: Study, queries: Mapping[str, Mapping[str, Sequence[Percentiles]]]) -> Study:
    """Check the errors of all runs, by query and load."""
    found: dict[str, list[Percentiles]] = defaultdict(list)
    rows: dict[str, Mapping[str, float]] = {}
    for query, by_load in queries.items():
        for load, runs in by_load.items():
            found[load] += runs
            rows |= {f"{query}, {load}, {number}": run.row for number, run in enumerate(runs, start=1)}
    study.tables["percentiles of all runs"] = rows
    medians = {}
    for load, runs in found.items():
        errors = {share: float(np.median([run.error(share) for run in runs])) for share in _SHARES}
        study.at_most(f"{load}: median error of p99", _MEDIAN_ERROR, errors[0.99])
        medians[load] = {f"p{100 * s:g}": rounded(e, 3) for s, e in errors.items()}
    study.tables["median errors"] = medians
    _draw(study, found)
    return study


def _draw(study: Study, found: Mapping[str, Sequence[Percentiles]]) -> None:
    title = "Latency percentiles, predicted and measured; on the line they agree"
    with study.drawing("percentiles", title, "predicted (s)", "measured (s)") as axes:
        for number, (load, runs) in enumerate(found.items()):
            for share, marker in zip(_SHARES, "ov^", strict=True):
                x, y = [run.predicted_s[share] for run in runs], [run.measured_s[share] for run in runs]
                axes.plot(x, y, marker, color=f"C{number}", label=f"{load}, p{100 * share:g}")
        both = [*axes.get_xlim(), *axes.get_ylim()]
        axes.plot([min(both), max(both)], [min(both), max(both)], ":", color="grey")
        axes.set_xscale("log")
        axes.set_yscale("log")
