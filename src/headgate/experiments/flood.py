"""Floods on Spark: the demo, with strategies and shedding; and a burst, compared with the simulator."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headgate.experiments.study import Progress, Study, fingerprint, script
from headgate.experiments.workloads import Streams, generated_arrivals
from headgate.handle import Run
from headgate.model.network import Network
from headgate.model.profile import Profiles, TickCosts
from headgate.runtime.drive import Observer
from headgate.scheduling import Strategy, strategy_named
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.capacity import PathCapacity, Threshold
from headgate.scheduling.chain_envelope import Chain
from headgate.scheduling.deadlines import ChainFlush
from headgate.session import Session
from headgate.simulator.ticks import TickedRun, TickSimulation
from headgate.spark.application.cluster import processors
from headgate.statistics.completeness import Origin, operator_profiles
from headgate.statistics.estimators import tick_costs
from headgate.statistics.profile_file import Measured
from headgate.statistics.profiling import Sampling
from headgate.status import RunStatus, TickRecord

QUERY = "fingerprints"
LATENCY_BOUND_S = 4.0
_SELECT, _PROJECT = f"{QUERY}.select_packets", f"{QUERY}.project"
_SHEDDING = f" WITH (overload = 'shed', latency = '{LATENCY_BOUND_S:g} s')"
_FINGERPRINT = "aggregate(sequence(1, 800), concat(src, bytes), (digest, i) -> sha2(digest, 256))"
_NO_FINGERPRINT = "dst"
_OPTIONS = {"flows": 400, "seed": 7, "keys": 500, "start": "2024-05-01T12:00:00Z", "timestamp": "ts"}
# ticks of two sizes separate what a tick costs from what its tuples cost
_WARM_UPS = {_NO_FINGERPRINT: (80_000, 10_000), _FINGERPRINT: (160_000, 20_000)}
_TICK_BUDGET_S = 0.8
# of the predicted capacity
_QUIET_LOAD, _FLOOD_LOAD = 0.1, 2.2
# in doubt, the first of them
_CANDIDATES = ("chain", "segment", "simplified-segment", "greedy", "path-capacity", "fifo")
# peaks that differ by less are the same, and latency decides
_SAME_PEAK = 1.1


class Flood:
    """Runs the same flood through the same query several times, on one Spark application.

    ``watch`` is called with every run and returns at its end; ``observers`` see all events.
    """

    def __init__(
        self,
        spark: Any,
        seconds: float,
        progress: Progress,
        watch: Callable[[Run], None],
        observers: Sequence[Observer] = (),
    ) -> None:
        self._spark = spark
        self._observers = observers
        self._progress = progress
        self._watch = watch
        self._profiles: Profiles = {}
        self._costs = TickCosts(0.0, 0.0, 1.0)
        self._seconds = seconds
        # when the flood begins and ends, since the start of the traffic
        self.flood_s = (seconds / 3, 2 * seconds / 3)

    @property
    def _capacity_per_s(self) -> float:
        """Tuples per second that ticks can process, by the measured statistics."""
        select, project = self._profiles[_SELECT], self._profiles[_PROJECT]
        busy_s = _TICK_BUDGET_S * processors(self._spark)
        tuples = busy_s / (select.seconds_per_tuple + select.selectivity * project.seconds_per_tuple)
        return tuples / self._costs.seconds(tuples, busy_s)

    def script(self, settings: str = "") -> str:
        """The stream and the query, at rates that this machine can and cannot keep up with."""
        quiet, flood = (round(load * self._capacity_per_s) for load in (_QUIET_LOAD, _FLOOD_LOAD))
        begin_s, end_s = self.flood_s
        rate = f"{quiet}, {flood} from {begin_s:.3g} s, {quiet} from {end_s:.3g} s"
        return _script({"rate": rate, "duration": f"{self._seconds:g} s"}, settings)

    def warm_up(self) -> None:
        """Let Java compile the query, and measure its two operators: the filter alone, then both."""
        histories = []
        for column, (tuples, per_tick) in _WARM_UPS.items():
            self._progress("warming up, and measuring the operators")
            options = {"rate": tuples, "duration": "1 s", "speed": "max", "maxRowsPerTrigger": per_tick}
            run = self._start(_script(options, fingerprint=column), "fifo", float("inf"))
            histories.append(self._finish(run).history)
            self._profiles = dict(run.profiles())
        select_s, both_s = map(_seconds_per_tuple, histories)
        select, project = self._profiles[_SELECT], self._profiles[_PROJECT]
        project_s = max(0.0, both_s - select_s) / select.selectivity
        self._profiles = {
            _SELECT: replace(select, seconds_per_tuple=select_s),
            _PROJECT: replace(project, seconds_per_tuple=project_s),
        }
        # the first half of each run is what Java's compiler takes
        self._costs = tick_costs([history[len(history) // 2 :] for history in histories]) or self._costs

    def choose(self) -> tuple[str, TickedRun]:
        """The strategy that is predicted to need the least memory, and the prediction."""
        network = Session(self._spark).execute(self.script()).network()
        arrivals_s, cores = generated_arrivals(network), processors(self._spark)
        simulation = TickSimulation(network, self._profiles, arrivals_s, self._costs, _TICK_BUDGET_S, cores)
        predicted = {name: simulation.run(strategy_named(name)) for name in _CANDIDATES}
        least_bytes = min(run.peak_bytes for run in predicted.values())
        best = {name: run for name, run in predicted.items() if run.peak_bytes <= _SAME_PEAK * least_bytes}
        name = min(best, key=lambda name: best[name].mean_latency_s)
        return name, best[name]

    def run(self, strategy: str) -> RunStatus:
        """Run the flood under a strategy; work beyond the budget of a tick waits."""
        self._progress(f"the flood under {strategy}")
        return self._finish(self._start(self.script(), strategy, _TICK_BUDGET_S))

    def run_shedding(self) -> RunStatus:
        """Run the flood with drop boxes, which keep what the latency bound allows."""
        self._progress("the flood with shedding")
        return self._finish(self._start(self.script(_SHEDDING), "fifo", None))

    def _start(self, text: str, strategy: str, tick_budget_s: float | None) -> Run:
        session = Session(self._spark).execute(text)
        return session.start(
            until_done=True,
            strategy=strategy,
            tick_budget=tick_budget_s,
            profiles=self._profiles,
            observers=self._observers,
        )

    def _finish(self, run: Run) -> RunStatus:
        try:
            self._watch(run)
            return run.status()
        finally:
            shutil.rmtree(run.checkpoint, ignore_errors=True)


def _seconds_per_tuple(history: Sequence[TickRecord]) -> float:
    """CPU seconds per tuple of the fastest tick: of a warm one, without pauses."""
    return min(tick.busy_s / tick.rows_in for tick in history if tick.rows_in and tick.busy_s)


def _script(options: Mapping[str, object], settings: str = "", fingerprint: str = _FINGERPRINT) -> str:
    text = ", ".join(f"{name} '{value}'" for name, value in {**options, **_OPTIONS}.items())
    return script("flood.sql", OPTIONS=text, SETTINGS=settings, FINGERPRINT=fingerprint)


_BURST_QUERY = "heavy"
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
    network: Network
    status: RunStatus
    measured: Measured
    fingerprint: tuple[tuple[int, int], ...]

    @property
    def peak_bytes(self) -> float:
        return float(self.status.peak_backlog_bytes)

    @property
    def mean_latency_s(self) -> float:
        return self.status.queries[_BURST_QUERY].latency_s.mean or 0.0

    @property
    def max_latency_s(self) -> float:
        return self.status.queries[_BURST_QUERY].latency_s.max or 0.0


class BurstBench:
    """Runs the burst again and again on one Spark application."""

    def __init__(self, spark: Any, seed: int, progress: Progress) -> None:
        self._spark = spark
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
        self.rate = float(np.clip(_OVERLOAD * processors(self._spark) / per_tuple_s, *_RATES))

    def run(self, strategy: Strategy) -> BurstRun:
        self._progress(f"{strategy.name} on Spark")
        return self._run(strategy, _QUIET_SHARE * self.rate, self.rate)

    def _run(self, strategy: Strategy, quiet: float, burst: float) -> BurstRun:
        text = script("burst.sql", QUIET=f"{quiet:.0f}", BURST=f"{burst:.0f}", SEED=self._seed)
        session = Session(self._spark).execute(text)
        network = session.network()
        run = session.start(
            until_done=True, strategy=strategy, tick_budget=_TICK_BUDGET_S, profiles=self._known
        )
        run.wait()
        prints = tuple(fingerprint(run.results(name)) for name in network.queries)
        return BurstRun(strategy.name, network, run.status(), run.measured(), prints)

    def predict(self, run: BurstRun, strategy: Strategy, costs: TickCosts, arrivals_s: Streams) -> TickedRun:
        """Simulate the same run in ticks, on the profile that it has measured."""
        profiles, own = operator_profiles(run.measured, run.network, Origin("the run")), run.measured.tick
        if own is not None:
            costs = replace(costs, fixed_busy_s=own.fixed_busy_s, stored_busy_s=own.stored_busy_s)
        cores = processors(self._spark)
        simulation = TickSimulation(run.network, profiles, arrivals_s, costs, _TICK_BUDGET_S, cores)
        return simulation.run(strategy)


def burst_study(spark: Any, out: Path, seed: int, progress: Progress) -> Study:
    """Run the burst under each strategy, predict each run, and check both."""
    study = Study("burst", out, progress)
    bench = BurstBench(spark, seed, progress)
    bench.calibrate()
    # strategies remember: the simulator gets new ones
    strategies: list[Callable[[], Strategy]] = [Fifo, Chain, PathCapacity]
    fifo, chain, path = runs = [bench.run(strategy()) for strategy in strategies]
    bound_s = 1.25 * fifo.max_latency_s
    # near the least that any strategy needs: far from it, memory is saved or not by accident of a tick
    limit_bytes = chain.peak_bytes + _ROOM * (path.peak_bytes - chain.peak_bytes)
    strategies += [lambda: Threshold(limit_bytes, _BETA), lambda: ChainFlush(bound_s, margin_s=_MARGIN_S)]
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
    costs = tick_costs([run.status.history for run in runs])
    assert costs is not None
    progress(
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
    return study
