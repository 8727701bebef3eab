"""The demo: one flood on Spark, under strategies and with shedding."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.experiments.study import Progress, script
from headgate.experiments.workloads import generated_arrivals
from headgate.model.profile import Profiles, TickCosts
from headgate.model.status import RunStatus, TickRecord
from headgate.runtime.drive import Observer
from headgate.scheduling import strategy_named
from headgate.session.handle import Run
from headgate.session.session import Session
from headgate.simulator.ticks import TickedRun, TickSimulation
from headgate.spark.application.cluster import processors
from headgate.statistics.estimators import tick_costs

QUERY = "fingerprints"
LATENCY_BOUND_S = 4.0
_SELECT, _PROJECT = f"{QUERY}.select_packets", f"{QUERY}.project"
_SHEDDING = f" WITH (overload = 'shed', latency = '{LATENCY_BOUND_S:g} s')"
_FINGERPRINT = "aggregate(sequence(1, 1600), concat(src, bytes), (digest, i) -> sha2(digest, 256))"
_NO_FINGERPRINT = "dst"
_OPTIONS = {"flows": 400, "seed": 7, "keys": 500, "start": "2024-05-01T12:00:00Z", "timestamp": "ts"}
# ticks of two sizes separate what a tick costs from what its tuples cost
_WARM_UPS = {_NO_FINGERPRINT: (80_000, 10_000), _FINGERPRINT: (120_000, 15_000)}
TICK_BUDGET_S = 0.8
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
        busy_s = TICK_BUDGET_S * processors(self._spark)
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
        warm = [history[len(history) // 2 :] for history in histories]
        self._costs = tick_costs(warm, processors=processors(self._spark)) or self._costs

    def choose(self) -> tuple[str, TickedRun]:
        """The strategy that is predicted to need the least memory, and the prediction."""
        network = Session(self._spark).execute(self.script()).network()
        arrivals_s, cores = generated_arrivals(network), processors(self._spark)
        simulation = TickSimulation(network, self._profiles, arrivals_s, self._costs, TICK_BUDGET_S, cores)
        predicted = {name: simulation.run(strategy_named(name)) for name in _CANDIDATES}
        least_bytes = min(run.peak_bytes for run in predicted.values())
        best = {name: run for name, run in predicted.items() if run.peak_bytes <= _SAME_PEAK * least_bytes}
        name = min(best, key=lambda name: best[name].mean_latency_s)
        return name, best[name]

    def run(self, strategy: str) -> RunStatus:
        """Run the flood under a strategy; work beyond the budget of a tick waits."""
        self._progress(f"the flood under {strategy}")
        return self._finish(self._start(self.script(), strategy, TICK_BUDGET_S))

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
