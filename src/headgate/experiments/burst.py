"""One recorded burst on Spark under several strategies, beside what the simulator says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.experiments.bursts import generated
from headgate.experiments.check import Progress, Study
from headgate.experiments.script import script
from headgate.model.measured import Measured
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.tick import TickCosts
from headgate.profiling import tick_costs
from headgate.report.lines import drawing
from headgate.runtime.sampling import Sampling
from headgate.scheduling import Strategy
from headgate.scheduling.chain import Chain
from headgate.scheduling.chain_flush import ChainFlush
from headgate.scheduling.fifo import Fifo
from headgate.scheduling.path_capacity import PathCapacity
from headgate.scheduling.threshold import Threshold
from headgate.session import Session
from headgate.simulator.ticks import TickedRun, TickSimulation
from headgate.spark.cluster import processors
from headgate.status import RunStatus

_TICK_BUDGET_S = 0.8
# a tick decides for about as long as it lasts: what would be late after the next one is flushed in this one
_MARGIN_S = 2 * _TICK_BUDGET_S
# and a tick of the burst brings a good part of the limit: saving begins early
_BETA = 0.7
# of what path capacity needs beyond chain's peak, so much is allowed to threshold
_ROOM = 0.25
_WARM_UP_RATE = 4_000
# the burst asks for this many times what the processors can do
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
    status: RunStatus
    measured: Measured
    fingerprint: tuple[tuple[int, int], ...]

    @property
    def peak_bytes(self) -> float:
        """The largest backlog after a tick."""
        return float(self.status.peak_backlog_bytes)

    @property
    def mean_latency_s(self) -> float:
        """Over the results of all queries."""
        queries = [q for q in self.status.queries.values() if q.rows_out]
        total = sum(q.rows_out for q in queries)
        return sum((q.latency_s.mean or 0.0) * q.rows_out for q in queries) / total

    @property
    def max_latency_s(self) -> float:
        """The slowest result of all."""
        return max(q.latency_s.max or 0.0 for q in self.status.queries.values())


class BurstBench:
    """Runs the burst again and again on one Spark application."""

    def __init__(self, spark: Any, seed: int, progress: Progress) -> None:
        self._spark = spark
        self._seed = seed
        self._progress = progress
        self.rate = 0.0
        self._known: Profiles = {}
        self.network: Network | None = None

    def script(self, quiet: float, burst: float) -> str:
        """The streams and queries, at some rates."""
        values = {"$QUIET": f"{quiet:.0f}", "$BURST": f"{burst:.0f}", "$SEED": self._seed}
        return script("burst.sql", values)

    def calibrate(self) -> None:
        """Warm up, and find a rate that is too high for this machine by a known factor."""
        self._progress("warming up, and measuring what a tuple costs")
        # twice: the first run tells about Java's compiler
        for seed in range(2):
            # operators take turns at resting, which tells their costs apart
            warm = self._run(Sampling(seed), _WARM_UP_RATE, _WARM_UP_RATE)
            self._known = warm.measured.profiles
            self._set_rate(warm)
        for seed in range(_REHEARSALS.stop):
            self._progress(f"rehearsing a burst of {self.rate:,.0f} tuples a second")
            rehearsed = self._run(Sampling(seed), _QUIET_SHARE * self.rate, self.rate)
            self._known = rehearsed.measured.profiles
            before = self.rate
            self._set_rate(rehearsed)
            if seed + 1 >= _REHEARSALS.start and abs(self.rate / before - 1) < _STEADY:
                break
        self._progress(f"the burst has {self.rate:,.0f} tuples a second")

    def _set_rate(self, rehearsed: BurstRun) -> None:
        ticks = rehearsed.status.history
        per_tuple_s = sum(tick.busy_s for tick in ticks) / sum(tick.rows_in for tick in ticks)
        self.rate = float(np.clip(_OVERLOAD * processors(self._spark) / per_tuple_s, *_RATES))

    def run(self, strategy: Strategy) -> BurstRun:
        """The burst under a strategy."""
        self._progress(f"{strategy.name} on Spark")
        return self._run(strategy, _QUIET_SHARE * self.rate, self.rate)

    def _run(self, strategy: Strategy, quiet: float, burst: float) -> BurstRun:
        session = Session(self._spark)
        session.execute(self.script(quiet, burst))
        self.network = session.network()
        run = session.start(
            until_done=True, strategy=strategy, tick_budget=_TICK_BUDGET_S, profiles=self._known
        )
        run.wait()
        prints = tuple(fingerprint(run.results(name)) for name in self.network.queries)
        return BurstRun(strategy.name, run.status(), run.measured(), prints)

    def predict(
        self,
        run: BurstRun,
        strategy: Strategy,
        costs: TickCosts,
        arrivals_s: Mapping[str, NDArray[np.float64]],
    ) -> TickedRun:
        """The same run in virtual time, on the profiles that it has measured."""
        assert self.network is not None
        found = run.measured
        if found.tick is not None:
            own = found.tick
            costs = replace(costs, fixed_busy_s=own.fixed_busy_s, stored_busy_s=own.stored_busy_s)
        simulation = TickSimulation(
            self.network, found.profiles, arrivals_s, costs, _TICK_BUDGET_S, processors(self._spark)
        )
        return simulation.run(strategy)


def fingerprint(results: Any) -> tuple[int, int]:
    """Number of rows, and an order-free sum of their hashes."""
    columns = ", ".join(f"`{name}`" for name in results.columns)
    hashed = results.selectExpr(f"CAST(xxhash64({columns}) AS DECIMAL(38, 0)) AS h")
    [(rows, total)] = hashed.selectExpr("COUNT(*)", "SUM(h)").collect()
    return int(rows), int(total or 0)


def _choosing_share(runs: list[BurstRun]) -> float:
    ticks = [tick for run in runs for tick in run.status.history]
    return sum(tick.phases_s["choose"] for tick in ticks) / sum(tick.seconds for tick in ticks)


def burst_study(spark: Any, out: Path, seed: int, progress: Progress) -> Study:
    """Run, predict, check."""
    study = Study("burst", out, progress)
    bench = BurstBench(spark, seed, progress)
    bench.calibrate()
    fifo, chain, path = (bench.run(s) for s in (Fifo(), Chain(), PathCapacity()))
    bound_s = 1.25 * fifo.max_latency_s
    # near the least that any strategy needs: far from it, memory is saved or not by accident of a tick
    limit_bytes = chain.peak_bytes + _ROOM * (path.peak_bytes - chain.peak_bytes)
    runs = [
        fifo,
        chain,
        path,
        bench.run(Threshold(limit_bytes, _BETA)),
        bench.run(ChainFlush(bound_s, margin_s=_MARGIN_S)),
    ]
    threshold, flush = runs[-2:]
    # strategies remember: the simulator gets new ones
    fresh: list[Strategy] = [
        Fifo(),
        Chain(),
        PathCapacity(),
        Threshold(limit_bytes, _BETA),
        ChainFlush(bound_s, margin_s=_MARGIN_S),
    ]
    for run in runs:
        study.equal(f"{run.strategy}: same results as fifo", fifo.fingerprint, run.fingerprint)
    study.at_most("chain's peak backlog, of fifo's", 0.6, chain.peak_bytes / fifo.peak_bytes)
    study.at_most("path-capacity's mean latency, of chain's", 1.0, path.mean_latency_s / chain.mean_latency_s)
    study.at_most("chain-flush: slowest result, of its bound", 1.0, flush.max_latency_s / bound_s)
    study.at_most("threshold: peak backlog, of its limit", 1.0, threshold.peak_bytes / limit_bytes)
    study.at_most("choosing turns, of the time of all ticks", 0.01, _choosing_share(runs))
    costs = tick_costs([run.status.history for run in runs])
    assert costs is not None
    progress(
        f"a tick costs {costs.overhead_s:.2f} s, {costs.intake_s * 1e6:.1f} us a tuple taken in, "
        f"{costs.work_s:.2f} s a processor second"
    )
    assert bench.network is not None
    predicted, arrivals_s = {}, generated(bench.network)
    for run, strategy in zip(runs, fresh, strict=True):
        predicted[run.strategy] = told = bench.predict(run, strategy, costs, arrivals_s)
        _within(study, f"{run.strategy}: peak backlog (kB)", told.peak_bytes / 1e3, run.peak_bytes / 1e3)
        _within(study, f"{run.strategy}: mean latency (s)", told.mean_latency_s, run.mean_latency_s)
    study.figure(_drawn(runs, predicted, out / "burst.png"))
    return study


def _within(study: Study, name: str, predicted: float, measured: float) -> None:
    study.close(f"{name}, predicted within 25 %", predicted, measured, 0.25)


def _drawn(runs: list[BurstRun], predicted: Mapping[str, TickedRun], path: Path) -> Path:
    title = "backlog after each tick: on Spark (lines) and predicted (dots)"
    with drawing(path, title) as axes:
        for number, run in enumerate(runs):
            history, told = run.status.history, predicted[run.strategy]
            measured = [tick.backlog_bytes / 1e3 for tick in history]
            colour = f"C{number}"
            at_s = [tick.at_s for tick in history]
            axes.step(at_s, measured, where="post", color=colour, label=run.strategy)
            axes.step(told.at_s, told.backlog_bytes / 1e3, where="post", color=colour, linestyle=":")
        axes.set_xlabel("time since the start (s)")
        axes.set_ylabel("backlog (kB)")
        axes.legend(frameon=False)
    return path
