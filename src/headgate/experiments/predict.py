"""Predictions from a profile against runs on Spark: cost, backlog, throughput, and the largest rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.experiments.queueing import UTILISATIONS
from headgate.experiments.study import Progress, Study
from headgate.experiments.workloads import Streams, generated_arrivals
from headgate.model.network import Network
from headgate.model.profile import TickCosts
from headgate.model.status import TickRecord
from headgate.queueing.load_model import LoadModel
from headgate.queueing.mg1 import largest_kept
from headgate.queueing.tick_model import InTicks
from headgate.runtime.drive import Observer
from headgate.scheduling.baselines import Fifo
from headgate.session.session import Session
from headgate.simulator.ticks import TickedRun, TickSimulation
from headgate.spark.application.cluster import processors
from headgate.workload.packets import BurstSettings


def _stream(columns: str, rate: str, seed: str, traffic: str = "flows '64', skew '0.5'") -> str:
    return f"""\
CREATE STREAM {columns}
  FROM burst OPTIONS (rate '{rate}', {traffic}, seed '{seed}', keys '5000',
                      duration '$DURATION s', timestamp 'ts');
"""


@dataclass(frozen=True)
class PredictedQuery:
    """A query, and a rate near the capacity of two processors."""

    name: str
    text: str
    full_rate: float

    def script(self, rate: float, seconds: float, seed: int) -> str:
        values = {"RATE": rate, "ALERTS": rate / 20, "DURATION": seconds, "SEED": seed}
        return Template(self.text).substitute({name: f"{value:.0f}" for name, value in values.items()})


_COLUMNS = "ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT"
_PACKETS = _stream(f"packets ({_COLUMNS})", "$RATE", "$SEED")
_ALERTS = _stream("alerts (ts TIMESTAMP, src STRING, score DOUBLE)", "$ALERTS", "1$SEED")
_FILTER = """\
CREATE QUERY q AS
  SELECT src, dst, bytes FROM packets
  WHERE bytes > 60 AND aggregate(sequence(1, 60), concat(dst, bytes), (d, i) -> sha2(d, 256)) < '1';
"""
_DIGEST = """\
CREATE QUERY q AS
  SELECT src, aggregate(sequence(1, 200), concat(src, bytes), (d, i) -> sha2(d, 256)) AS digest
  FROM packets WHERE port = 80;
"""
_JOIN = """\
CREATE QUERY q AS
  SELECT a.src, a.score, p.dst, p.bytes
  FROM alerts [RANGE 2 SECONDS] AS a, packets [RANGE 2 SECONDS] AS p
  WHERE a.src = p.src AND a.score > 0.5;
"""
_AGGREGATE = """\
CREATE QUERY q AS
  SELECT src, COUNT(*) AS packets, SUM(bytes) AS volume, MAX(bytes) AS largest
  FROM packets [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY src;
"""
QUERIES = (
    PredictedQuery("filter", _PACKETS + _FILTER, 100_000),
    PredictedQuery("digest", _PACKETS + _DIGEST, 60_000),
    PredictedQuery("join", _PACKETS + _ALERTS + _JOIN, 60_000),
    PredictedQuery("aggregate", _PACKETS + _AGGREGATE, 250_000),
)

_PROFILE_S = 24.0
_RUN_S = 12.0
_CONFIRM_S = 45.0
# what a tuple costs falls by half in the first minute of a query: two runs at full load before it is measured
_WARM_UPS = 2
# of what full load comes to: costs hold best near where they were measured
_PROFILE_LOAD = 0.5
_LOADS = (0.3, 0.6, 0.9)
_OVERLOAD = 1.5
# runs are on other traffic than the profile
_PROFILE_SEED, _RUN_SEED = 3, 5
# the first ticks of a run take what came while it started
_SETTLING_TICKS = 2
# at 0.9 of the largest rate ticks must stay near what is predicted
_STABLE = 1.5
# ticks of the last third by those of the second: a steady length is 1, one that grows from nothing 5/3
_GROWING = 1.25


@dataclass(frozen=True)
class PredictBench:
    """One query at a time on one Spark application."""

    spark: Any
    progress: Progress

    def profile(self, query: PredictedQuery) -> tuple[LoadModel, TickCosts]:
        """Profile the query once Java is warm; returns the plan at the profiled rates, and costs of ticks."""
        return self.profile_at(query, _PROFILE_LOAD * self.warm_up(query))

    def warm_up(self, query: PredictedQuery) -> float:
        """Run the query until Java is warm, and return the rate at which it is fully loaded."""
        rate = query.full_rate
        for _ in range(_WARM_UPS):
            network, ticks = self.run(query, rate, _RUN_S)
            rates = _expected_rates(network)
            rate = _throughput(ticks) * (rates["packets"] / sum(rates.values()))
        return rate

    def profile_at(self, query: PredictedQuery, rate: float) -> tuple[LoadModel, TickCosts]:
        """Profile the query at this rate."""
        self.progress(f"{query.name}: profile at {rate:,.0f} tuples per second")
        session = Session(self.spark).execute(query.script(rate, 3600, _PROFILE_SEED))
        measured = session.profile(_PROFILE_S)
        assert measured.tick is not None
        network = session.network()
        return LoadModel(network, measured.profiles, _expected_rates(network)), measured.tick

    def run(
        self, query: PredictedQuery, rate: float, seconds: float, seed: int = _RUN_SEED, *observers: Observer
    ) -> tuple[Network, list[TickRecord]]:
        self.progress(f"{query.name}: {rate:,.0f} tuples per second for {seconds:.0f} s")
        session = Session(self.spark).execute(query.script(rate, seconds, seed))
        network = session.network()
        run = session.start(until_done=True, tick_budget=float("inf"), observers=observers)
        run.wait()
        return network, run.status().history

    def predict_ticks(self, plan: LoadModel, arrivals_s: Streams, costs: TickCosts) -> TickedRun:
        """Simulate the ticks of a run from a profile and arrival times."""
        cores, budget_s = processors(self.spark), float("inf")
        return TickSimulation(plan.network, plan.profile, arrivals_s, costs, budget_s, cores).run(Fifo())


def _expected_rates(network: Network) -> dict[str, float]:
    processes = {name: BurstSettings.parse(dict(s.options)).process for name, s in network.streams.items()}
    return {name: process.rate.expected(0, 1_000_000) for name, process in processes.items()}


def _measured_cost_s(ticks: Sequence[TickRecord]) -> float:
    counted = ticks[_SETTLING_TICKS:]
    return sum(tick.busy_s for tick in counted) / max(1, sum(tick.rows_in for tick in counted))


def _mean_waiting(ticks: Sequence[TickRecord]) -> float:
    """Tuples waiting at the start of a tick, averaged over time."""
    waiting = [tick.rows_in + before.backlog_tuples for before, tick in pairwise(ticks)]
    return float(np.average(waiting[_SETTLING_TICKS:], weights=_lengths_s(ticks)[_SETTLING_TICKS:]))


def _throughput(ticks: Sequence[TickRecord]) -> float:
    """Tuples per second, once the run has settled; of a run of very few ticks, in the last one."""
    since = min(_SETTLING_TICKS, len(ticks) - 1)
    begin_s = ticks[since - 1].at_s if since else ticks[0].at_s - ticks[0].seconds
    return sum(tick.rows_in for tick in ticks[since:]) / (ticks[-1].at_s - begin_s)


def _lengths_s(ticks: Sequence[TickRecord]) -> NDArray[np.float64]:
    return np.diff([tick.at_s for tick in ticks])


def factor_at(utilisation: float, plan: LoadModel, model: InTicks) -> float:
    """Factor on all rates at which ticks spend this share of their time on tuples."""
    return largest_kept(lambda f: model.utilisation(plan.scaled(f)) < utilisation, precision=1e-3)


def _cost_per_tuple_s(plan: LoadModel) -> float:
    return plan.busy_processors / sum(plan.rates.values())


def predict_study(spark: Any, out: Path, progress: Progress) -> Study:
    study = Study("predict", out, progress)
    bench = PredictBench(spark, progress)
    found = [prediction for query in QUERIES for prediction in _predictions(study, bench, query)]
    errors = []
    for name, predicted, measured in found:
        low, high = sorted((predicted, measured))
        numbers = f"{predicted:.4g} predicted, {measured:.4g} measured"
        study.at_most(f"{name}: {numbers}, q-error", 1.5, high / low if low > 0 else float("inf"))
        errors.append(abs(predicted / measured - 1) if measured > 0 else float("inf"))
    study.at_most("median error of all predictions", 0.2, float(np.median(errors)))
    study.at_most("worst error of all predictions", 0.5, max(errors))
    return study


def _predictions(study: Study, bench: PredictBench, query: PredictedQuery) -> list[tuple[str, float, float]]:
    """What is predicted: its name, the prediction, and what was measured."""
    plan, costs = bench.profile(query)
    model = InTicks.measured(costs)
    # the load at which ticks would grow without end
    most = factor_at(1.0, plan, model)
    largest = most * plan.rates["packets"]
    study.progress(
        f"{query.name}: {_cost_per_tuple_s(plan) * 1e6:.1f} us per tuple, {model.overhead_s:.2f} s a tick, "
        f"up to {largest:,.0f} packets per second"
    )
    if query is QUERIES[0]:
        _confirm(study, bench, query, plan, model, most)
    found = []
    for load in _LOADS:
        network, ticks = bench.run(query, load * largest, _RUN_S)
        arrivals_s, loaded = generated_arrivals(network), plan.scaled(load * most)
        predicted = bench.predict_ticks(loaded, arrivals_s, costs)
        # jobs cost something before their first tuple: the more tuples share it, the less each
        fixed_s = costs.fixed_busy_s * len(predicted.at_s) / sum(map(len, arrivals_s.values()))
        cost_us, measured_us = (_cost_per_tuple_s(loaded) + fixed_s) * 1e6, _measured_cost_s(ticks) * 1e6
        name = f"{query.name}, load {load:g}"
        found.append((f"{name}: us per tuple", cost_us, measured_us))
        found.append((f"{name}: tuples waiting", predicted.mean_waiting, _mean_waiting(ticks)))
    _, ticks = bench.run(query, _OVERLOAD * largest, _RUN_S)
    flooded = plan.scaled(_OVERLOAD * most)
    # what comes faster fills the windows more, so that each tuple meets more of them
    kept_up = sum(flooded.rates.values()) / model.utilisation(flooded)
    found.append((f"{query.name}: tuples per second at saturation", kept_up, _throughput(ticks)))
    return found


def _confirm(
    study: Study, bench: PredictBench, query: PredictedQuery, plan: LoadModel, model: InTicks, factor: float
) -> None:
    """Check the largest rate that fits, from below and from above."""
    lines = {}
    for share in (0.9, 1.15):
        rate = share * factor * plan.rates["packets"]
        network = Session().execute(query.script(rate, _CONFIRM_S, _RUN_SEED)).network()
        # as much more as the bursts happen to bring less than expected
        rate *= rate * _CONFIRM_S / len(generated_arrivals(network)["packets"])
        _, ticks = bench.run(query, rate, _CONFIRM_S)
        # the last tick has what was left when the traffic ended
        ticks = ticks[:-1]
        lengths_s = _lengths_s(ticks)
        lines[f"{share:g} of the largest rate"] = ([t.at_s for t in ticks[1:]], lengths_s.tolist())
        name = f"{query.name} at {share:g} of the largest rate"
        third = len(lengths_s) // 3
        growth = lengths_s[-third:].mean() / lengths_s[third : 2 * third].mean()
        growing = f"{name}: ticks of the last third, of those of the second"
        if share < 1:
            steady_s = model.tick_s(plan.scaled(share * factor))
            longest = f"{name}: longest tick, of the predicted {steady_s:.2f} s"
            study.at_most(longest, _STABLE, lengths_s.max() / steady_s)
            study.at_most(growing, _GROWING, growth)
        else:
            study.at_least(growing, _GROWING, growth)
    title = "Length of ticks below and above the largest rate that fits"
    study.plot("largest-rate", title, "time since the start (s)", "seconds", lines)


# seconds of each stream's window
_JOIN_WINDOWS_S = {"equal windows": (1, 1), "one window twice the other": (2, 1)}
_JOIN_RUN_S = 14.0
_JOIN_FULL_RATE = 80_000.0
# what a prediction may be off, as the profile that it is made from
_WITHIN = 0.5
_WINDOW_JOIN = """CREATE QUERY q AS
  SELECT a.v AS left_v, b.v AS right_v
  FROM packets [RANGE {left} SECONDS] AS a, others [RANGE {right} SECONDS] AS b
  WHERE a.k = b.k;
"""


def compare_joins(study: Study, spark: Any) -> None:
    """Theory of a join from a profile at one rate, against runs at utilisations of 0.2 to 0.95."""
    poisson = "process 'poisson', flows '1'"
    streams = "".join(
        _stream(f"{name} (ts TIMESTAMP, k INT, v INT)", "$RATE", f"{seed}$SEED", poisson)
        for seed, name in enumerate(("packets", "others"), start=1)
    )
    bench = PredictBench(spark, study.progress)
    for windows, (left, right) in _JOIN_WINDOWS_S.items():
        text = streams + _WINDOW_JOIN.format(left=left, right=right)
        _compare_join(study, bench, PredictedQuery(windows, text, _JOIN_FULL_RATE))


def _compare_join(study: Study, bench: PredictBench, query: PredictedQuery) -> None:
    plan, costs = bench.profile(query)
    model = InTicks.measured(costs)
    full = plan.scaled(factor_at(1.0, plan, model)).rates["packets"]
    study.progress(f"{query.name}: full at {full:,.0f} tuples per second of each stream")
    waiting: dict[str, list[float]] = {"in the long run": [], "within this run": [], "on Spark": []}
    for utilisation in UTILISATIONS:
        loaded = plan.scaled(factor_at(utilisation, plan, model))
        network, ticks = bench.run(query, loaded.rates["packets"], _JOIN_RUN_S)
        name = f"{query.name} on Spark, utilisation {utilisation:g}"
        # near 1 ticks take minutes to become as long as they will be: the same theory, tick by tick
        predicted = bench.predict_ticks(loaded, generated_arrivals(network), costs)
        predicted_s = float(np.diff(predicted.at_s)[_SETTLING_TICKS:].mean())
        length_s = float(_lengths_s(ticks)[_SETTLING_TICKS:].mean())
        study.close(f"{name}: mean length of a tick (s)", predicted_s, length_s, _WITHIN)
        study.close(f"{name}: mean tuples that wait", predicted.mean_waiting, _mean_waiting(ticks), _WITHIN)
        waiting["in the long run"].append(model.tick_s(loaded) * sum(loaded.rates.values()))
        waiting["within this run"].append(predicted.mean_waiting)
        waiting["on Spark"].append(_mean_waiting(ticks))
    title = f"Tuples that wait for a tick, {query.name}: theory (lines) and Spark (dots)"
    with study.drawing(f"spark-{query.name.replace(' ', '-')}", title, "utilisation", "tuples") as axes:
        for (label, tuples), style in zip(waiting.items(), (":", "-", "o"), strict=True):
            axes.plot(UTILISATIONS, tuples, style, label=label)
        axes.set_yscale("log")
