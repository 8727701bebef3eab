"""Overload by a factor of three on Spark: what is shed, what is produced, and by which plan."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

from headgate.control.work_model import TICK_OF_BOUND, capacity_of
from headgate.cql.parser import parse
from headgate.cql.statement import CreateQuery, CreateStream
from headgate.errors import SetupError
from headgate.experiments.study import Progress, Study, script
from headgate.model.join_order import JoinOrder
from headgate.model.joins import WindowJoin
from headgate.model.profile import Profile, Profiles, TickCosts
from headgate.model.status import RunStatus, TickRecord
from headgate.planning.catalog import Catalog
from headgate.planning.join_order.choose import choose, plans_on_spark, work_of
from headgate.planning.join_order.pose import problems_of
from headgate.planning.join_order.problem import JoinProblem
from headgate.planning.join_order.search import Candidate
from headgate.planning.lower import Stages
from headgate.planning.plan_statistics import LiveStatistics, Missing
from headgate.session.handle import Run
from headgate.session.session import Session
from headgate.spark.application.cluster import processors
from headgate.statistics.estimators import Term, fit, tick_costs
from headgate.statistics.profile_file import Measured

_QUERY = "abc"
_LATENCY_S = 20.0
_MEMORY_BYTES = 16 * 2**20
# of what the run by its own plan holds: a budget that binds
_TIGHT = 0.5
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
_CHEAP_ORDER = JoinOrder("abc")
_JOIN = f"{_QUERY}.join"
# of the predicates of overload.sql; the sum of two numbers below 50,000 is another one half of the time
_SELECTIVITIES = (1 / 4, 1 / 13, 0.5 / 50_000, 1.0)
# of what the first calibration predicts to fit: costs as they are in ticks as long as they are to be
_REHEARSED = 0.8


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

    @cached_property
    def stages(self) -> Stages:
        """The way of the query from its text to operators; needs no Spark."""
        catalog = Catalog(known_sinks=("noop",))
        for statement in parse(self.script, "overload.sql"):
            assert isinstance(statement, (CreateStream, CreateQuery))
            catalog.declare(statement)
        return Stages.of(catalog)


_CALIBRATIONS = (Drive(800.0, 1), Drive(1700.0, 1), Drive(800.0, 6000))


@dataclass(frozen=True)
class OverloadRun:
    """A run under overload; rates are those after the drop boxes have closed."""

    status: RunStatus
    bytes_per_tuple: float

    @property
    def _steady(self) -> list[int]:
        """Ticks that begin once the run has had time to settle."""
        history = self.status.history
        return [i for i, t in enumerate(history) if i > 0 and t.at_s - t.seconds >= _SETTLING_S]

    @property
    def results_per_s(self) -> float:
        if not self._steady:
            return 0.0
        ticks = [self.status.history[i] for i in self._steady]
        since_s = self.status.history[self._steady[0] - 1].at_s
        return sum(tick.rows_out for tick in ticks) / (ticks[-1].at_s - since_s)

    @property
    def max_latency_s(self) -> float:
        """Latency of the slowest result, including the wait for the previous tick."""
        lengths = [0.0, *(tick.seconds for tick in self.status.history)]
        return max(a + b for a, b in pairwise(lengths))

    @property
    def peak_bytes(self) -> float:
        """Largest size of queues and windows together, with the tuples of the tick that found them."""
        history = self.status.history
        held = [0, *(tick.backlog_bytes + tick.window_bytes for tick in history)]
        taken = [(tick.rows_in - tick.shed) * self.bytes_per_tuple for tick in history]
        return max(own + rows for own, rows in zip(held, taken, strict=False))


@dataclass(frozen=True)
class Rehearsal:
    """Ticks of a load with fixed drop boxes, joined in a fixed order."""

    drive: Drive
    history: Sequence[TickRecord]
    keep: Mapping[str, float]
    order: JoinOrder


@dataclass(frozen=True)
class Calibration:
    """Costs as measured before the runs: of tuples that joins handle, of repetitions in c, and of ticks."""

    handled_s: float
    per_repeat_s: float
    ticks: TickCosts
    processors: int

    def capacity(self, tuples_per_s: float = 0.0) -> float:
        return capacity_of(self.ticks, TICK_OF_BOUND * _LATENCY_S, self.processors, tuples_per_s)

    def drive(self) -> Drive:
        """A load of three times the capacity."""
        capacity = self.capacity()
        if capacity <= 0:
            raise SetupError(
                f"ticks of the calibration take {self.ticks.empty_s:.2f} s before their first row, too long "
                f"for a bound of {_LATENCY_S:g} s; try again when the machine does nothing else"
            )
        # a and b meet within 1.5 s on either side, one pair in four
        slow_per_s = sqrt(_JOINING * capacity / self.handled_s / (2 * 1.5 / 4))
        repeat = _SELECTING * capacity / (_FAST_BY_SLOW * slow_per_s * self.per_repeat_s)
        return Drive(slow_per_s, max(1, round(repeat)))

    def measured(self, drive: Drive) -> Measured:
        """The costs as a profile of that load."""
        select = Profile(self.per_repeat_s * drive.repeat, samples=1)
        profiles = {f"{_QUERY}.select_c": select, f"{_QUERY}.project": Profile(1e-7, samples=1)}
        handled = work_of(problem_of(drive, profiles), _CHEAP_ORDER, {}).handled_per_s
        join = Profile(self.handled_s * handled / sum(drive.rates.values()), samples=1)
        operator = drive.stages.lowered.operators[_JOIN]
        assert isinstance(operator, WindowJoin)
        pairs = zip(operator.predicates, _SELECTIVITIES, strict=True)
        known = {predicate.text: Profile(0.0, share) for predicate, share in pairs}
        return Measured({**profiles, _JOIN: join}, drive.rates, self.ticks, {_JOIN: known})

    def promise(self, drive: Drive) -> Candidate:
        """The plan and the drop boxes that the model finds for that load, and their results."""
        problem = problem_of(drive, self.measured(drive).profiles, self.handled_s)
        capacity = self.capacity(sum(drive.rates.values()))
        return choose([problem], capacity, plans_on_spark).queries[_QUERY].chosen


def problem_of(drive: Drive, profiles: Profiles, handled_s: float = 1.0) -> JoinProblem:
    selectivities = {_JOIN: dict(enumerate(_SELECTIVITIES))}
    statistics = LiveStatistics(Measured(profiles, drive.rates), selectivities, handled_s)
    [posed] = problems_of(drive.stages.optimized[0], statistics, Missing())
    return posed.problem


def calibrate(rehearsals: Sequence[Rehearsal], processors: int) -> Calibration:
    """Costs by least squares over ticks that differ in what they select and in what they join."""
    free = {f"{_QUERY}.{name}": Profile(0.0) for name in ("select_c", "project")}
    rows, seconds = [], []
    for one in rehearsals:
        rates = one.drive.rates
        work = work_of(problem_of(one.drive, free), one.order, one.keep)
        arriving = sum(rates.values())
        repeats = rates["c"] * one.keep.get("c", 1.0) * one.drive.repeat / arriving
        rows += [[1.0, t.rows_in * work.handled_per_s / arriving, t.rows_in * repeats] for t in one.history]
        seconds += [tick.busy_s for tick in one.history]
    fixed_s, handled_s, per_repeat_s = fit(rows, seconds, [Term()] * 3).coefficients
    ticks = tick_costs([one.history for one in rehearsals], processors=processors)
    if ticks is None:
        raise SetupError("ticks of the calibration did too little work to measure; try again")
    ticks = replace(ticks, fixed_busy_s=fixed_s)
    return Calibration(max(1e-8, handled_s), max(1e-10, per_repeat_s), ticks, processors)


class OverloadBench:
    """Runs on one Spark application."""

    def __init__(self, spark: Any, progress: Progress) -> None:
        self._spark = spark
        self._progress = progress
        self.known = Measured({})

    def calibrate(self) -> tuple[Drive, Calibration]:
        """A drive of three times the capacity, and what it costs.

        Runs that differ in what they select and in what they join separate the two. Those of the drive
        itself, with less than fits, have ticks as long as they will be.
        """
        self._progress("warming up")
        self._run(_CALIBRATIONS[-1], _WARM_UP_S)
        self._progress("measuring what tuples cost")
        first = [Rehearsal(d, self._warm_ticks(d), {}, _CHEAP_ORDER) for d in _CALIBRATIONS]
        known = calibrate(first, processors(self._spark))
        drive = known.drive()
        self._progress("measuring what they cost in long ticks")
        planned = known.promise(drive)
        boxes = {s: _REHEARSED * share for s, share in planned.keep.items()}
        ticks = self._warm_ticks(drive, boxes, planned.order)
        rehearsed = Rehearsal(drive, ticks, boxes, planned.order)
        found = calibrate([*first, rehearsed], processors(self._spark))
        self.known = found.measured(drive)
        self._progress(
            f"capacity {found.capacity():.2f} processors, a handled tuple costs "
            f"{found.handled_s * 1e6:.2f} us, a selected one {found.per_repeat_s * drive.repeat * 1e6:.0f} us"
        )
        return drive, found

    def _warm_ticks(
        self, drive: Drive, keep: Mapping[str, float] | None = None, order: JoinOrder = _CHEAP_ORDER
    ) -> Sequence[TickRecord]:
        """Ticks under a load that the machine can bear; on a busy one, it takes longer to see enough."""
        run = self._start(drive, order, keep)
        run.wait(_CALIBRATION_S)
        deadline_s = time.monotonic() + _MOST_CALIBRATION_S
        while len(run.status().history) < _COLD_TICKS + _LEAST_TICKS:
            if time.monotonic() > deadline_s or run.wait(0.5):
                run.stop()
                raise SetupError("the machine is too busy: the calibration had too few ticks; try again")
        run.stop()
        return run.status().history[_COLD_TICKS:]

    def run(self, drive: Drive, order: JoinOrder | None, memory_bytes: float = _MEMORY_BYTES) -> OverloadRun:
        """Run under this load, in the given join order or in the one that the model chooses."""
        by = "by its own plan" if order is None else f"in the order {order}"
        self._progress(f"driving it {by}, with {memory_bytes / 2**20:.3g} MB")
        return self._run(drive, _RUN_S, order, memory_bytes)

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

    def _run(
        self,
        drive: Drive,
        seconds: float,
        order: JoinOrder | None = None,
        memory_bytes: float = _MEMORY_BYTES,
    ) -> OverloadRun:
        run = self._start(drive, order, memory_bytes=memory_bytes)
        run.run_for(seconds)
        return OverloadRun(run.status(), max(p.bytes_per_tuple for p in run.profiles().values()))

    def _start(
        self,
        drive: Drive,
        order: JoinOrder | None = None,
        keep: Mapping[str, float] | None = None,
        memory_bytes: float = _MEMORY_BYTES,
    ) -> Run:
        orders = None if order is None else {_QUERY: order}
        session = Session(self._spark)
        session.measured = self.known
        return session.execute(drive.script).start(
            profiles=self.known.profiles, orders=orders, keep=keep, memory=memory_bytes
        )


def overload_study(spark: Any, out: Path, progress: Progress) -> Study:
    study = Study("overload", out, progress)
    bench = OverloadBench(spark, progress)
    drive, known = bench.calibrate()
    # fixed before the runs: what they measure does not change it
    promised_per_s = known.promise(drive).output_per_s
    progress(f"driving a and b with {drive.slow_per_s:,.0f} tuples per second, c with four times that")
    own, cheap = bench.run(drive, None), bench.run(drive, _CHEAP_ORDER)
    numbers = {"repeat": drive.repeat, "capacity": known.capacity(), "handled_s": known.handled_s}
    study.tables["drive"] = {**drive.rates, **numbers}
    tight_bytes = _TIGHT * own.peak_bytes
    tight = bench.run(drive, None, tight_bytes)
    runs = {"own plan": own, "lowest utilisation": cheap, "little memory": tight}
    for name, run in runs.items():
        memory_bytes = tight_bytes if run is tight else _MEMORY_BYTES
        study.at_most(f"{name}: latency, of its bound", 1.0, run.max_latency_s / _LATENCY_S)
        study.at_most(f"{name}: peak of the memory budget", 1.0, run.peak_bytes / memory_bytes)
    study.at_least("little memory: peak of the memory budget", 0.5, tight.peak_bytes / tight_bytes)
    study.at_least("own plan: results, of those promised", 0.9, own.results_per_s / promised_per_s)
    lead = own.results_per_s / cheap.results_per_s
    study.at_least("own plan: results, of those on the plan of lowest utilisation", 1.2, lead)
    rows_in, kept, shed = bench.count(drive, own.status.changes[-1].after.keep)
    study.equal("in = kept + shed, exactly", rows_in, kept + shed)
    study.tables["results per second"] = {
        "own plan": own.results_per_s,
        "promised": promised_per_s,
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
