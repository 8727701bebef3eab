"""The overload study without Spark: its query, the controller, and ticks that take what the costs say."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from headgate.control.controller import AdaptiveController
from headgate.control.work_model import ControlledRun
from headgate.errors import SetupError
from headgate.experiments.overload import Calibration, problem_of
from headgate.model.event import QueryCounts, StreamCounts, TickCommitted
from headgate.model.join_order import JoinOrder
from headgate.model.profile import TickCosts
from headgate.model.status import Recorder
from headgate.planning.join_order.choose import work_of
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import PairCounts, StatisticsStore

LATENCY_S, RUN_S, SETTLING_S = 20.0, 70.0, 20.0
# as measured on two cores; the first ticks, and the first one of a join order, take Java's compiler longer
TRUE = Calibration(0.34e-6, 3e-8, TickCosts(0.8, 0.0, 0.75, fixed_busy_s=0.3), processors=2)
WIDTH_BYTES = 64.0
COLD, COMPILING_S = (6.0, 2.5, 1.5), 3.0


@dataclass
class Machine:
    """Ticks by the true costs, with noise; ``known`` is what the controller knows before the run."""

    known: Measured
    seed: int
    memory_bytes: float = 16 * 2**20
    drive = TRUE.drive()
    ticks: list[TickCommitted] = field(default_factory=list)

    def __post_init__(self) -> None:
        stages = self.drive.stages
        self._statistics = StatisticsStore(stages.lowered, self.known)
        recorder = Recorder(stages.lowered)
        self._statistics.follow(recorder.recent)
        self._controller = AdaptiveController(
            ControlledRun(
                stages.lowered, stages.optimized, self._statistics, self.memory_bytes, True, processors=2
            )
        )
        self._observers = [recorder, self._controller]
        self._problem = problem_of(self.drive, TRUE.measured(self.drive).profiles, TRUE.handled_s)
        self._random = random.Random(self.seed)
        self._compiled: set[tuple[str, ...]] = set()
        self.settings = self._controller.first()

    def run(self) -> Machine:
        arrived_s, now_s = 1.0, 0.0
        while now_s < RUN_S:
            tick = self._tick(arrived_s, now_s)
            self._statistics.arrivals.add(tick)
            self.settings = self._controller.decide(tick, self.settings).settings
            for observe in self._observers:
                observe(tick)
            self.ticks.append(tick)
            arrived_s, now_s = tick.seconds, tick.now_s
        return self

    def _tick(self, arrived_s: float, now_s: float) -> TickCommitted:
        if self._controller.wants_samples():
            pairs = {(0,): 1 / 4, (1,): 1 / 13}
            self._statistics.joins.add({("abc.join", p): PairCounts(2e6, 2e6 * f) for p, f in pairs.items()})
        rows = {stream: round(rate * arrived_s) for stream, rate in self.drive.rates.items()}
        settings = self.settings.closed_to(rows)
        order = settings.orders.get("abc.join", JoinOrder("abc"))
        work = work_of(self._problem, order, settings.keep)
        busy_s = TRUE.ticks.fixed_busy_s + arrived_s * (
            work.handled_per_s * TRUE.handled_s + work.other_s_per_s
        )
        busy_s *= self._random.gauss(1, 0.1)
        if order not in self._compiled:
            self._compiled.add(order)
            busy_s += COMPILING_S
        cold = COLD[len(self.ticks)] if len(self.ticks) < len(COLD) else 1.0
        seconds = (cold * TRUE.ticks.overhead_s + TRUE.ticks.work_s * busy_s) * self._random.gauss(1, 0.05)
        counts = {s: StreamCounts(n, shed=n - round(n * settings.keep_ratio(s))) for s, n in rows.items()}
        return TickCommitted(
            now_s=now_s + seconds,
            batch_id=len(self.ticks),
            seconds=seconds,
            streams=counts,
            queries={"abc": QueryCounts(round(work.results_per_s * arrived_s))},
            backlog_tuples=0,
            backlog_bytes=0,
            window_bytes=round(self._window_bytes(counts, arrived_s)),
            busy_s=busy_s,
            until_s=dict.fromkeys(rows, now_s),
        )

    def _window_bytes(self, counts: dict[str, StreamCounts], arrived_s: float) -> float:
        """What windows of 1.5 s hold at the end of a tick."""
        kept = sum(c.rows_in - c.shed for c in counts.values())
        return kept * WIDTH_BYTES * min(1.0, 1.5 / arrived_s)

    @property
    def bytes_held(self) -> list[float]:
        """By tick: its tuples, and the windows that the tick before has left."""
        arrived = [(t.totals.rows_in - t.totals.shed) * WIDTH_BYTES for t in self.ticks]
        return [before.window_bytes + own for before, own in zip(self.ticks, arrived[1:], strict=False)]

    @property
    def results_of_promise(self) -> float:
        steady = [tick for tick in self.ticks if tick.now_s - tick.seconds >= SETTLING_S]
        results, seconds = (
            sum(tick.queries["abc"].rows_out for tick in steady),
            sum(t.seconds for t in steady),
        )
        return results / seconds / TRUE.promise(self.drive).output_per_s

    @property
    def max_latency_s(self) -> float:
        return max(a.seconds + b.seconds for a, b in pairwise(self.ticks))


def off_by(factor: float) -> Measured:
    """A profile in which all tuples cost so many times what they do."""
    handled_s, per_repeat_s = factor * TRUE.handled_s, factor * TRUE.per_repeat_s
    return replace(TRUE, handled_s=handled_s, per_repeat_s=per_repeat_s).measured(Machine.drive)


def slow(case: float) -> Any:
    """A case like another one, with a run of its own: plans are chosen anew for each of its ticks."""
    return pytest.param(case, marks=pytest.mark.slow)


@pytest.mark.parametrize("seed", [0, slow(1)])
def test_boxes_of_a_measured_query_settle_within_three_ticks_and_keep_the_promise(seed: int) -> None:
    machine = Machine(off_by(1.0), seed).run()
    assert machine.results_of_promise > 0.9
    assert machine.max_latency_s < LATENCY_S
    kept = [{s: c.shed / c.rows_in for s, c in t.streams.items()} for t in machine.ticks[3:]]
    assert all(abs(share - kept[0][s]) < 0.05 for shares in kept for s, share in shares.items())


@pytest.mark.slow
@pytest.mark.parametrize("factor", [slow(0.7), 1.3])
def test_a_profile_that_is_off_by_a_third_costs_a_quarter_of_the_promise_at_most(factor: float) -> None:
    machine = Machine(off_by(factor), seed=2).run()
    assert machine.results_of_promise > 0.75
    assert machine.max_latency_s < LATENCY_S


@pytest.mark.slow
def test_boxes_of_a_query_known_in_part_do_not_flap_once_they_are_set() -> None:
    known = off_by(1.0)
    select = {name: p for name, p in known.profiles.items() if name != "abc.join"}
    machine = Machine(Measured(select), seed=0).run()
    assert machine.max_latency_s < LATENCY_S
    late = [tick for tick in machine.ticks if tick.now_s > 35]
    assert all(tick.streams["a"].shed == 0 == tick.streams["b"].shed for tick in late)
    assert all(0.6 < tick.streams["c"].shed / tick.streams["c"].rows_in < 0.85 for tick in late)


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [slow(0.5), 1.0, slow(2.0)])
def test_a_memory_budget_that_binds_is_used_and_never_exceeded(megabytes: float) -> None:
    machine = Machine(off_by(1.0), seed=0, memory_bytes=megabytes * 2**20).run()
    used = [held / machine.memory_bytes for held in machine.bytes_held]
    assert max(used) < 1.0
    # of every tick: boxes do not close and open by turns
    assert min(used[5:]) > 0.5
    assert machine.max_latency_s < LATENCY_S


def test_a_machine_without_time_for_ticks_is_named() -> None:
    busy = replace(TRUE, ticks=TickCosts(2 * LATENCY_S, 0.0, 0.75))
    with pytest.raises(SetupError, match=r"take 40\.00 s before their first row"):
        busy.drive()
