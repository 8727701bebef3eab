"""Predictions from a profile against runs on Spark: cost, backlog, throughput, and the largest rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headgate.experiments.bursts import generated
from headgate.experiments.check import Progress, Study
from headgate.experiments.plan import Streams
from headgate.experiments.predict_queries import QUERIES, PredictedQuery
from headgate.model.measured import Measured
from headgate.model.network import Network
from headgate.model.tick import TickCosts
from headgate.queueing.inverse import largest_kept
from headgate.queueing.models import InTicks
from headgate.queueing.plan import Plan
from headgate.report.lines import plot_lines
from headgate.scheduling.fifo import Fifo
from headgate.session import Session
from headgate.simulator.ticks import TickedRun, TickSimulation
from headgate.spark.cluster import processors
from headgate.status import TickRecord
from headgate.workload.settings import BurstSettings

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
SETTLING_TICKS = 2
# at 0.9 of the largest rate ticks must stay near what is predicted
_STABLE = 1.5
# ticks of the last third by those of the second: a steady length is 1, one that grows from nothing 5/3
_GROWING = 1.25


@dataclass(frozen=True)
class Figure:
    """A prediction and what was measured."""

    name: str
    predicted: float
    measured: float

    @property
    def q_error(self) -> float:
        """How many times the larger is the smaller."""
        low, high = sorted((self.predicted, self.measured))
        return high / low if low > 0 else float("inf")

    @property
    def error(self) -> float:
        """By which share of what was measured the prediction is off."""
        return abs(self.predicted / self.measured - 1) if self.measured > 0 else float("inf")


class PredictBench:
    """One query at a time on one Spark application."""

    def __init__(self, spark: Any, progress: Progress) -> None:
        self._spark = spark
        self._progress = progress

    def profile(self, query: PredictedQuery) -> tuple[Plan, Measured]:
        """What the query's operators take once Java is warm, and the plan at the rates of the profile."""
        rate = query.full_rate
        for _ in range(_WARM_UPS):
            network, ticks = self.run(query, rate, _RUN_S)
            packets = _expected_rate(network, "packets") / sum(
                _expected_rate(network, s) for s in network.streams
            )
            rate = throughput(ticks) * packets
        rate *= _PROFILE_LOAD
        self._progress(f"{query.name}: profile at {rate:,.0f} tuples a second")
        session = Session(self._spark)
        session.execute(query.script(rate, 3600, _PROFILE_SEED))
        measured = session.profile(_PROFILE_S)
        network = session.network()
        rates = {name: _expected_rate(network, name) for name in network.streams}
        return Plan(network, measured.profiles, rates), measured

    def run(self, query: PredictedQuery, rate: float, seconds: float) -> tuple[Network, list[TickRecord]]:
        """The ticks of a run over traffic that ends."""
        self._progress(f"{query.name}: {rate:,.0f} tuples a second for {seconds:.0f} s")
        session = Session(self._spark)
        session.execute(query.script(rate, seconds, _RUN_SEED))
        network = session.network()
        run = session.start(until_done=True, tick_budget=float("inf"))
        run.wait()
        return network, run.status().history

    def foretold(self, plan: Plan, arrivals_s: Streams, costs: TickCosts) -> TickedRun:
        """The ticks of a run, from a profile and from when its tuples come."""
        inf = float("inf")
        simulation = TickSimulation(
            plan.network, plan.profile, arrivals_s, costs, inf, processors(self._spark)
        )
        return simulation.run(Fifo())


def _expected_rate(network: Network, stream: str) -> float:
    return BurstSettings.parse(dict(network.streams[stream].options)).process.rate.expected(0, 1_000_000)


def cost_per_tuple_s(ticks: Sequence[TickRecord]) -> float:
    """Processor seconds that a tuple took."""
    counted = ticks[SETTLING_TICKS:]
    return sum(tick.busy_s for tick in counted) / max(1, sum(tick.rows_in for tick in counted))


def mean_waiting(ticks: Sequence[TickRecord]) -> float:
    """Tuples that waited when a tick began, over the time of all ticks."""
    waited = [
        (tick.rows_in + before.backlog_tuples, tick.at_s - before.at_s) for before, tick in pairwise(ticks)
    ]
    tuples, seconds = np.array(waited[SETTLING_TICKS:]).T
    return float(np.average(tuples, weights=seconds))


def throughput(ticks: Sequence[TickRecord]) -> float:
    """Tuples a second, once the run has settled."""
    counted = ticks[SETTLING_TICKS:]
    return sum(tick.rows_in for tick in counted) / (ticks[-1].at_s - ticks[SETTLING_TICKS - 1].at_s)


def predict_study(spark: Any, out: Path, progress: Progress) -> Study:
    """Profile, predict, run, compare."""
    study = Study("predict", out, progress)
    bench = PredictBench(spark, progress)
    figures: list[Figure] = []
    for query in QUERIES:
        figures += _compared(study, bench, query)
    for figure in figures:
        study.at_most(
            f"{figure.name}: {figure.predicted:.4g} predicted, {figure.measured:.4g} measured, q-error",
            1.5,
            figure.q_error,
        )
    study.at_most("median error of all predictions", 0.2, float(np.median([f.error for f in figures])))
    study.at_most("worst error of all predictions", 0.5, max(f.error for f in figures))
    return study


def _compared(study: Study, bench: PredictBench, query: PredictedQuery) -> list[Figure]:
    plan, measured = bench.profile(query)
    assert measured.tick is not None
    model = InTicks.measured(measured.tick)
    # the load at which ticks would grow without end
    most = factor_at(1.0, plan, model)
    largest = most * plan.rates["packets"]
    study.progress(
        f"{query.name}: {_cost_per_tuple_s(plan) * 1e6:.1f} us a tuple, {model.overhead_s:.2f} s a tick, "
        f"up to {largest:,.0f} packets a second"
    )
    if query is QUERIES[0]:
        _confirm(study, bench, query, plan, model, most)
    figures = []
    for load in _LOADS:
        network, ticks = bench.run(query, load * largest, _RUN_S)
        arrivals_s, loaded = generated(network), plan.scaled(load * most)
        told = bench.foretold(loaded, arrivals_s, measured.tick)
        # jobs cost something before their first tuple: the more tuples share it, the less each
        fixed_s = measured.tick.fixed_busy_s * len(told.at_s) / sum(map(len, arrivals_s.values()))
        figures.append(
            Figure(
                f"{query.name}, load {load:g}: us a tuple",
                (_cost_per_tuple_s(loaded) + fixed_s) * 1e6,
                cost_per_tuple_s(ticks) * 1e6,
            )
        )
        figures.append(
            Figure(f"{query.name}, load {load:g}: tuples waiting", told.mean_waiting, mean_waiting(ticks))
        )
    _, ticks = bench.run(query, _OVERLOAD * largest, _RUN_S)
    flooded = plan.scaled(_OVERLOAD * most)
    # what comes faster fills the windows more, so that each tuple meets more of them
    kept_up = sum(flooded.rates.values()) / model.utilisation(flooded)
    figures.append(Figure(f"{query.name}: tuples a second at saturation", kept_up, throughput(ticks)))
    return figures


def factor_at(utilisation: float, plan: Plan, model: InTicks) -> float:
    """On all rates of a plan, so that ticks spend this share of their time on tuples."""
    return largest_kept(lambda f: model.utilisation(plan.scaled(f)) < utilisation, precision=1e-3)


def _cost_per_tuple_s(plan: Plan) -> float:
    return plan.load / sum(plan.rates.values())


def _shortfall(query: PredictedQuery, rate: float) -> float:
    """How many times as many tuples should have come as bursts happened to bring."""
    session = Session()
    session.execute(query.script(rate, _CONFIRM_S, _RUN_SEED))
    return rate * _CONFIRM_S / len(generated(session.network())["packets"])


def _confirm(
    study: Study, bench: PredictBench, query: PredictedQuery, plan: Plan, model: InTicks, factor: float
) -> None:
    """The largest rate that fits, from both sides."""
    lines = {}
    for share in (0.9, 1.15):
        rate = share * factor * plan.rates["packets"]
        _, ticks = bench.run(query, rate * _shortfall(query, rate), _CONFIRM_S)
        # the last tick has what was left when the traffic ended
        ticks = ticks[:-1]
        lengths_s = np.array([after.at_s - before.at_s for before, after in pairwise(ticks)])
        lines[f"{share:g} of the largest rate"] = ([t.at_s for t in ticks[1:]], lengths_s.tolist())
        name = f"{query.name} at {share:g} of the largest rate"
        third = len(lengths_s) // 3
        growth = lengths_s[-third:].mean() / lengths_s[third : 2 * third].mean()
        growing = f"{name}: ticks of the last third, of those of the second"
        if share < 1:
            steady_s = model.tick_s(plan.scaled(share * factor))
            study.at_most(
                f"{name}: longest tick, of the predicted {steady_s:.2f} s",
                _STABLE,
                lengths_s.max() / steady_s,
            )
            study.at_most(growing, _GROWING, growth)
        else:
            study.at_least(growing, _GROWING, growth)
    title = "Length of ticks below and above the largest rate that fits"
    path = study.out / "largest-rate.png"
    study.figure(plot_lines(path, title, "time since the start (s)", "seconds", lines, steps=False))
