"""A burst on Spark under several strategies, beside what the simulator predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headgate.errors import SetupError
from headgate.experiments.flood import TICK_BUDGET_S
from headgate.experiments.study import Progress, Study, fingerprint, script
from headgate.experiments.workloads import Streams, generated_arrivals
from headgate.model.network import Network
from headgate.model.profile import Profiles, TickCosts
from headgate.model.status import RunStatus
from headgate.scheduling import Strategy
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.capacity import PathCapacity, Threshold
from headgate.scheduling.chain_envelope import Chain
from headgate.scheduling.deadlines import ChainFlush
from headgate.session.session import Session
from headgate.simulator.ticks import TickedRun, TickSimulation
from headgate.spark.application.cluster import processors
from headgate.statistics.completeness import Origin, operator_profiles
from headgate.statistics.estimators import tick_costs
from headgate.statistics.profile_file import Measured
from headgate.statistics.profiling import Sampling

# a tick decides for about as long as it lasts: what would be late after the next one is flushed in this one
MARGIN_S = 2 * TICK_BUDGET_S
# and a tick of the burst brings a good part of the limit: saving begins early
BETA = 0.7
# of what path capacity needs beyond chain's peak, so much is allowed to threshold
ROOM = 0.25
_WARM_UP_RATE = 4_000
# the work of the burst, as a multiple of what the processors can do
_OVERLOAD = 1.5
_RATES = (2_000.0, 200_000.0)
# what a tuple costs still falls in the first runs of a JVM
_REHEARSALS = range(3, 6)
_STEADY = 0.07
_QUIET_SHARE = 0.05


@dataclass(frozen=True)
class BurstRun:
    """A strategy's run on Spark."""

    strategy: str
    network: Network
    status: RunStatus
    measured: Measured
    fingerprint: tuple[tuple[int, int], ...]

    @property
    def peak_bytes(self) -> float:
        return float(self.status.peak_backlog_bytes)

    @property
    def mean_latency_s(self) -> float:
        """Over the results of all queries."""
        queries = self.status.queries.values()
        total_s = sum(query.rows_out * (query.latency_s.mean or 0.0) for query in queries)
        return total_s / max(1, sum(query.rows_out for query in queries))

    @property
    def p99_latency_s(self) -> float:
        """Of the query that has the largest."""
        return max(query.latency_s.p99 or 0.0 for query in self.status.queries.values())

    @property
    def max_latency_s(self) -> float:
        return max(query.latency_s.max or 0.0 for query in self.status.queries.values())

    @property
    def tuples_per_s(self) -> float:
        """Tuples taken in, over the time until the last result."""
        last = max((tick for tick in self.status.history if tick.rows_out), key=lambda tick: tick.at_s)
        return sum(tick.rows_in for tick in self.status.history) / last.at_s


class BurstBench:
    """Runs the burst of a script again and again on one Spark application."""

    def __init__(self, spark: Any, file: str, seed: int, progress: Progress) -> None:
        self.processors = processors(spark)
        self._spark = spark
        self._file = file
        self._seed = seed
        self._progress = progress
        self.rate = 0.0
        self._known: Profiles = {}

    def calibrate(self) -> None:
        """Warm up, and set a rate that exceeds the capacity of this machine by a known factor."""
        self._progress("warming up, and measuring what a tuple costs")
        # twice: the first run measures Java's compiler
        for seed in range(2):
            self._rehearse(seed, _WARM_UP_RATE, _WARM_UP_RATE)
        for seed in range(_REHEARSALS.stop):
            self._progress(f"rehearsing a burst of {self.rate:,.0f} tuples per second")
            before = self.rate
            self._rehearse(seed, _QUIET_SHARE * self.rate, self.rate)
            if seed + 1 >= _REHEARSALS.start and abs(self.rate / before - 1) < _STEADY:
                break
        self._progress(f"the burst has {self.rate:,.0f} tuples per second")

    def _rehearse(self, seed: int, quiet: float, burst: float) -> None:
        # operators rest in turn, so that their costs can be separated
        rehearsed = self._run(Sampling(seed), quiet, burst)
        self._known = rehearsed.measured.profiles
        ticks = rehearsed.status.history
        per_tuple_s = sum(tick.busy_s for tick in ticks) / sum(tick.rows_in for tick in ticks)
        self.rate = float(np.clip(_OVERLOAD * self.processors / per_tuple_s, *_RATES))

    def run(self, strategy: Strategy) -> BurstRun:
        self._progress(f"{strategy.name} on Spark")
        return self._run(strategy, _QUIET_SHARE * self.rate, self.rate)

    def _run(self, strategy: Strategy, quiet: float, burst: float) -> BurstRun:
        text = script(self._file, QUIET=f"{quiet:.0f}", BURST=f"{burst:.0f}", SEED=self._seed)
        session = Session(self._spark).execute(text)
        network = session.network()
        run = session.start(
            until_done=True, strategy=strategy, tick_budget=TICK_BUDGET_S, profiles=self._known
        )
        run.wait()
        prints = tuple(fingerprint(run.results(name)) for name in network.queries)
        return BurstRun(strategy.name, network, run.status(), run.measured(), prints)

    def predict(self, run: BurstRun, strategy: Strategy, costs: TickCosts, arrivals_s: Streams) -> TickedRun:
        """Simulate the same run in ticks, on the profile that it has measured."""
        profiles, own = operator_profiles(run.measured, run.network, Origin("the run")), run.measured.tick
        if own is not None:
            costs = replace(costs, fixed_busy_s=own.fixed_busy_s, stored_busy_s=own.stored_busy_s)
        simulation = TickSimulation(run.network, profiles, arrivals_s, costs, TICK_BUDGET_S, self.processors)
        return simulation.run(strategy)


def predict_burst(study: Study, bench: BurstBench) -> None:
    """Run the burst under each strategy, predict each run, and check both."""
    bench.calibrate()
    # strategies remember: the simulator gets new ones
    strategies: list[Callable[[], Strategy]] = [Fifo, Chain, PathCapacity]
    fifo, chain, path = runs = [bench.run(strategy()) for strategy in strategies]
    bound_s = 1.25 * fifo.max_latency_s
    # near the least that any strategy needs: far from it, memory is saved or not by accident of a tick
    limit_bytes = chain.peak_bytes + ROOM * (path.peak_bytes - chain.peak_bytes)
    strategies += [lambda: Threshold(limit_bytes, BETA), lambda: ChainFlush(bound_s, margin_s=MARGIN_S)]
    threshold, flush = more = [bench.run(strategy()) for strategy in strategies[3:]]
    runs += more
    for run in runs:
        study.equal(f"{run.strategy}: same results as fifo", fifo.fingerprint, run.fingerprint)
    study.at_most("chain's peak backlog, of fifo's", 0.6, chain.peak_bytes / fifo.peak_bytes)
    study.at_most("path-capacity's mean latency, of chain's", 1.0, path.mean_latency_s / chain.mean_latency_s)
    study.at_most("chain-flush: slowest result, of its bound", 1.0, flush.max_latency_s / bound_s)
    study.at_most("threshold: peak backlog, of its limit", 1.0, threshold.peak_bytes / limit_bytes)
    ticks = [tick for run in runs for tick in run.status.history]
    choosing = sum(tick.phases_s["choose"] for tick in ticks) / sum(tick.seconds for tick in ticks)
    study.at_most("choosing turns, of the time of all ticks", 0.01, choosing)
    costs = tick_costs([run.status.history for run in runs], processors=bench.processors)
    if costs is None:
        raise SetupError("the runs had too few ticks to measure what one costs; try again")
    study.progress(
        f"a tick costs {costs.overhead_s:.2f} s, {costs.intake_s * 1e6:.1f} us per tuple taken in, "
        f"{costs.work_s:.2f} s a processor second"
    )
    arrivals_s = generated_arrivals(fifo.network)
    pairs = zip(runs, strategies, strict=True)
    predicted = [bench.predict(run, strategy(), costs, arrivals_s) for run, strategy in pairs]
    for run, own in zip(runs, predicted, strict=True):
        name = f"{run.strategy}: {{}}, predicted within 25 %"
        study.close(name.format("peak backlog (kB)"), own.peak_bytes / 1e3, run.peak_bytes / 1e3, 0.25)
        study.close(name.format("mean latency (s)"), own.mean_latency_s, run.mean_latency_s, 0.25)
    title = "backlog after each tick: on Spark (lines) and predicted (dots)"
    with study.drawing("burst", title, "time since the start (s)", "backlog (kB)") as axes:
        for number, (run, own) in enumerate(zip(runs, predicted, strict=True)):
            at_s, measured = zip(*((t.at_s, t.backlog_bytes / 1e3) for t in run.status.history), strict=True)
            axes.step(at_s, measured, where="post", color=f"C{number}", label=run.strategy)
            axes.step(own.at_s, own.backlog_bytes / 1e3, where="post", color=f"C{number}", linestyle=":")
