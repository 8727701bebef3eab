"""Overload by a factor of three on Spark: what is shed, what is produced, and by which plan."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

from headgate.control.controller import TICK_OF_BOUND
from headgate.errors import SetupError
from headgate.experiments.study import Progress, Study, script
from headgate.handle import Run
from headgate.model.profile import Profile, Profiles
from headgate.planning.join_order.choose import work_of
from headgate.planning.join_order.pose import problems_of
from headgate.planning.rules import optimize
from headgate.planning.statistics import LiveStatistics, Missing
from headgate.session import Session
from headgate.spark.application.cluster import processors
from headgate.statistics.estimators import Term, fit, tick_costs
from headgate.statistics.profile_file import Measured
from headgate.status import RunStatus, TickRecord

_QUERY = "abc"
_LATENCY_S = 20.0
_MEMORY_BYTES = 16 * 2**20
_WARM_UP_S = 25.0
_CALIBRATION_S = 18.0
_MOST_CALIBRATION_S = 90.0
_COLD_TICKS, _LEAST_TICKS = 3, 5
_RUN_S = 70.0
_COUNTING_S = 8.0
# until the first boxes are closed
_SETTLING_S = 20.0
_FAST_BY_SLOW = 4.0
# of the capacity: the selection of c, and the join of a and b
_SELECTING, _JOINING = 1.8, 1.2
_CHEAP_ORDER = ("a", "b", "c")
_SELECTIVITIES = {"abc.join": {0: 1 / 4, 1: 1 / 13}}


@dataclass(frozen=True)
class Drive:
    """The load: tuples per second of a and of b, and how often the text of c is repeated."""

    slow_per_s: float
    repeat: int

    @property
    def rates(self) -> dict[str, float]:
        return {"a": self.slow_per_s, "b": self.slow_per_s, "c": _FAST_BY_SLOW * self.slow_per_s}

    @property
    def script(self) -> str:
        return script(
            "overload.sql",
            SLOW=f"{self.slow_per_s:.0f}",
            FAST=f"{_FAST_BY_SLOW * self.slow_per_s:.0f}",
            REPEAT=self.repeat,
            LATENCY=f"{_LATENCY_S:g} s",
            MEMORY=f"{_MEMORY_BYTES // 2**20} MB",
        )


_CALIBRATIONS = (Drive(800.0, 1), Drive(1700.0, 1), Drive(800.0, 6000))


@dataclass(frozen=True)
class OverloadRun:
    """A run under overload; rates are those after the drop boxes have closed."""

    status: RunStatus

    @property
    def _steady(self) -> list[int]:
        """Ticks after the first decision of the model, once the run has settled."""
        decided = [c.batch_id for c in self.status.changes if c.statistics.get("load", 0.0) > 1]
        since = decided[0] if decided else len(self.status.history)
        history = self.status.history
        return [i for i, t in enumerate(history) if i > since and t.at_s - t.seconds >= _SETTLING_S]

    @property
    def results_per_s(self) -> float:
        if not self._steady:
            return 0.0
        ticks = [self.status.history[i] for i in self._steady]
        since_s = self.status.history[self._steady[0] - 1].at_s
        return sum(tick.rows_out for tick in ticks) / (ticks[-1].at_s - since_s)

    @property
    def promised_per_s(self) -> float:
        """Results per second that the model has predicted for the same ticks."""
        total, seconds = 0.0, 0.0
        for i in self._steady:
            length_s = self.status.history[i].at_s - self.status.history[i - 1].at_s
            before = [c for c in self.status.changes if c.batch_id < i and "output_per_s" in c.statistics]
            if before:
                total += before[-1].statistics["output_per_s"] * length_s
                seconds += length_s
        return total / seconds if seconds else float("inf")

    @property
    def max_latency_s(self) -> float:
        """Latency of the slowest result, including the wait for the previous tick."""
        lengths = [0.0, *(tick.seconds for tick in self.status.history)]
        return max(a + b for a, b in pairwise(lengths))

    @property
    def peak_bytes(self) -> float:
        """Largest size of queues and windows together."""
        return float(max(tick.backlog_bytes + tick.window_bytes for tick in self.status.history))


class OverloadBench:
    """Runs on one Spark application."""

    def __init__(self, spark: Any, progress: Progress) -> None:
        self._spark = spark
        self._progress = progress
        self.known: Profiles = {}

    def calibrate(self) -> tuple[Drive, float, float]:
        """A drive of three times the capacity; the capacity, and what a handled tuple costs.

        Runs that differ in what they select and in what they join separate the two.
        """
        self._progress("warming up")
        self._run(_CALIBRATIONS[-1], _WARM_UP_S)
        self._progress("measuring what tuples cost")
        histories = [self._warm_ticks(drive) for drive in _CALIBRATIONS]
        handled_s, per_repeat_s = self._costs(histories)
        costs = tick_costs(histories)
        if costs is None:
            raise SetupError("ticks of the calibration did too little work to measure; try again")
        free = 1 - costs.overhead_s / (TICK_OF_BOUND * _LATENCY_S)
        capacity = 0.9 * free / max(costs.work_s, 1 / processors(self._spark))
        # a and b meet within 1.5 s on either side, one pair in four
        slow_per_s = sqrt(_JOINING * capacity / handled_s / (2 * 1.5 / 4))
        repeat = _SELECTING * capacity / (_FAST_BY_SLOW * slow_per_s * per_repeat_s)
        drive = Drive(slow_per_s, max(1, round(repeat)))
        select = Profile(per_repeat_s * drive.repeat, 1.0, samples=1)
        self.known = {f"{_QUERY}.select_c": select, f"{_QUERY}.project": Profile(1e-7, 1.0, samples=1)}
        self._progress(
            f"capacity {capacity:.2f} processors, a handled tuple costs {handled_s * 1e6:.2f} us, "
            f"a selected one {select.seconds_per_tuple * 1e6:.0f} us"
        )
        return drive, capacity, handled_s

    def _warm_ticks(self, drive: Drive) -> Sequence[TickRecord]:
        """Ticks under a load that the machine can bear; on a busy one, it takes longer to see enough."""
        run = self._start(drive)
        run.wait(_CALIBRATION_S)
        deadline_s = time.monotonic() + _MOST_CALIBRATION_S
        while len(run.status().history) < _COLD_TICKS + _LEAST_TICKS:
            if time.monotonic() > deadline_s or run.wait(0.5):
                run.stop()
                raise SetupError("the machine is too busy: the calibration had too few ticks; try again")
        run.stop()
        return run.status().history[_COLD_TICKS:]

    def _costs(self, histories: Sequence[Sequence[TickRecord]]) -> tuple[float, float]:
        """Seconds per tuple that the join handles and per repetition, by least squares over ticks."""
        profiles = {f"{_QUERY}.{name}": Profile(0.0) for name in ("select_c", "project")}
        rows, seconds = [], []
        for drive, history in zip(_CALIBRATIONS, histories, strict=True):
            plan = optimize(Session(self._spark).execute(drive.script).plans()[0])
            statistics = LiveStatistics(Measured(profiles, drive.rates), _SELECTIVITIES, 1.0)
            [posed] = problems_of(plan, statistics, Missing())
            handled = work_of(posed.problem, _CHEAP_ORDER, {}).handled_per_s / sum(drive.rates.values())
            repeats = drive.rates["c"] * drive.repeat / sum(drive.rates.values())
            rows += [[1.0, t.rows_in * handled, t.rows_in * repeats] for t in history]
            seconds += [tick.busy_s for tick in history]
        _, handled_s, per_repeat_s = fit(rows, seconds, [Term()] * 3).coefficients
        return max(1e-8, handled_s), max(1e-10, per_repeat_s)

    def run(self, drive: Drive, order: Sequence[str] | None) -> OverloadRun:
        """Run under this load, in the given join order or in the one that the model chooses."""
        by = "by its own plan" if order is None else f"in the order {', '.join(order)}"
        self._progress(f"driving it {by}")
        return self._run(drive, _RUN_S, order)

    def count(self, drive: Drive, keep: Mapping[str, float]) -> tuple[int, int, int]:
        """Tuples of all streams: received, kept, shed."""
        self._progress("counting what comes through")
        session = Session(self._spark).execute(drive.script)
        session.catalog.drop_query(_QUERY)
        reads = " UNION ALL ".join(f"SELECT value FROM {stream}" for stream in drive.rates)
        session.execute(f"CREATE QUERY seen WITH (overload = 'shed') AS {reads} INTO noop")
        run = session.start(keep=keep)
        run.run_for(_COUNTING_S)
        status = run.status()
        counts = status.streams.values()
        return sum(c.rows_in for c in counts), status.queries["seen"].rows_out, sum(c.shed for c in counts)

    def _run(self, drive: Drive, seconds: float, order: Sequence[str] | None = None) -> OverloadRun:
        run = self._start(drive, order)
        run.run_for(seconds)
        return OverloadRun(run.status())

    def _start(self, drive: Drive, order: Sequence[str] | None = None) -> Run:
        orders = None if order is None else {_QUERY: order}
        return Session(self._spark).execute(drive.script).start(profiles=self.known, orders=orders)


def overload_study(spark: Any, out: Path, progress: Progress) -> Study:
    study = Study("overload", out, progress)
    bench = OverloadBench(spark, progress)
    drive, capacity, handled_s = bench.calibrate()
    progress(f"driving a and b with {drive.slow_per_s:,.0f} tuples per second, c with four times that")
    own, cheap = bench.run(drive, None), bench.run(drive, _CHEAP_ORDER)
    numbers = {"repeat": drive.repeat, "capacity": capacity, "handled_s": handled_s}
    study.tables["drive"] = {**drive.rates, **numbers}
    runs = {"own plan": own, "lowest utilisation": cheap}
    for name, run in runs.items():
        memory = run.peak_bytes / _MEMORY_BYTES
        study.at_most(f"{name}: latency, of its bound", 1.0, run.max_latency_s / _LATENCY_S)
        study.at_most(f"{name}: queues and windows, of the memory budget", 1.0, memory)
    study.at_least("own plan: results, of those promised", 0.9, own.results_per_s / own.promised_per_s)
    lead = own.results_per_s / cheap.results_per_s
    study.at_least("own plan: results, of those on the plan of lowest utilisation", 1.2, lead)
    rows_in, kept, shed = bench.count(drive, own.status.changes[-1].after.keep)
    study.equal("in = kept + shed, exactly", rows_in, kept + shed)
    study.tables["results per second"] = {
        "own plan": own.results_per_s,
        "promised": own.promised_per_s,
        "lowest utilisation": cheap.results_per_s,
    }
    title = "three times what the machine can do: results and shed tuples per second"
    with study.drawing("overload", title, "time since the start (s)", "tuples per second") as axes:
        for number, (name, run) in enumerate(runs.items()):
            ticks = run.status.history
            at_s = [tick.at_s for tick in ticks]
            results = [tick.rows_out / tick.seconds for tick in ticks]
            shed_rows = [tick.shed / tick.seconds for tick in ticks]
            axes.step(at_s, results, where="pre", color=f"C{number}", label=f"{name}: results")
            axes.step(at_s, shed_rows, where="pre", color=f"C{number}", linestyle=":", label=f"{name}: shed")
    return study
