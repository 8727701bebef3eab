"""How the engine sizes its ticks, over a runner that is made up: a tuple costs what it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from tests.runtime.networks import chains

from headgate.model.event import Event, StreamCounts, TickCommitted, TickStarted, TuplesArrived
from headgate.model.profile import Profile, Profiles
from headgate.runtime.drive import drive
from headgate.runtime.forecast import ForecastQueue
from headgate.scheduling.baselines import Fifo
from headgate.spark.arrival.intake import Arrival
from headgate.spark.engine import SparkEngine, TickLimits, _Handover
from headgate.spark.manifest import Manifest, StreamState
from headgate.spark.rows import Rows
from headgate.spark.tick import TickOutcome
from headgate.spark.tick_plan import Chosen, OpenTick
from headgate.statistics.estimators import TickWork
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

LIMITS = TickLimits(budget_s=1.0, processors=2, target_s=1.0)
WIDTH_BYTES = 100.0


@dataclass
class MadeUpRunner:
    """One operator, before which tuples wait; ``arriving`` are those of each tick."""

    arriving: list[int]
    seconds_per_tuple: float
    power: float = 1.0
    fixed_s: float = 0.0
    known: Profiles = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.network = chains(1)
        self.statistics = StatisticsStore(self.network, Measured(self.known))
        self.manifest = Manifest()
        self.taken: list[float] = []
        self.backlog = 0.0

    def widths_bytes(self) -> dict[str, float]:
        return {"0.0": WIDTH_BYTES}

    def is_committed(self, batch_id: int) -> bool:
        return False

    def paused_operators(self) -> frozenset[str]:
        return frozenset()

    def open(self, batch: Any, batch_id: int, now_s: float) -> OpenTick:
        count = self.arriving[batch_id]
        self.backlog += count
        rows = Rows(None, count, count, 0, 1, 2, False, ())
        return OpenTick(batch, batch_id, now_s, {"s0": Arrival(StreamState(), (), rows, StreamCounts(count))})

    def forecast_queues(self, tick: OpenTick, profiles: Profiles) -> dict[str, ForecastQueue]:
        return {"0.0": ForecastQueue(self.backlog, 0.0, tick.started_s)}

    def execute(self, tick: OpenTick, chosen: Chosen, count: bool, profiles: Profiles) -> TickOutcome:
        taken = chosen.taken["0.0"]
        self.taken.append(taken)
        self.backlog -= taken
        busy_s = self.fixed_s + (taken * self.seconds_per_tuple) ** self.power
        event = TickCommitted(
            now_s=tick.started_s,
            batch_id=tick.batch_id,
            seconds=busy_s / LIMITS.processors,
            streams={"s0": tick.arrivals["s0"].counts},
            queries={},
            backlog_tuples=round(self.backlog),
            backlog_bytes=round(WIDTH_BYTES * self.backlog),
            window_bytes=0,
            busy_s=busy_s,
        )
        works = [TickWork({"0.0": taken}, 0.0, busy_s - self.fixed_s)] if taken >= 200 else []
        return TickOutcome(event, None, works, {}, {})


def driven(runner: MadeUpRunner, limits: TickLimits = LIMITS) -> list[Event]:
    """The events of all ticks."""
    engine = SparkEngine(runner, limits)  # type: ignore[arg-type]
    events: list[Event] = []

    def note(event: Event) -> None:
        events.append(event)
        done = sum(isinstance(e, TickCommitted) for e in events)
        if isinstance(event, TickCommitted) and done < len(runner.arriving):
            hand_over(engine, done)
        elif isinstance(event, TickCommitted):
            engine.stop()

    hand_over(engine, 0)
    drive(engine, Fifo(), [note])
    return events


def hand_over(engine: SparkEngine, batch_id: int) -> None:
    """What Spark's thread does, without waiting for the tick."""
    engine._inbox.put(_Handover(None, batch_id))  # type: ignore[arg-type]


def test_a_tick_says_that_it_has_begun_before_it_takes_anything_in() -> None:
    kinds = [type(event) for event in driven(MadeUpRunner([5, 0], 1e-6))]
    assert kinds == [TickStarted, TuplesArrived, TickCommitted] * 2


@pytest.mark.parametrize("seconds_per_tuple", [2e-4, 1e-5, 1e-6])
def test_a_flood_at_the_start_is_taken_in_growing_parts_until_costs_are_known(
    seconds_per_tuple: float,
) -> None:
    runner = MadeUpRunner([2_000_000] + [0] * 11, seconds_per_tuple)
    driven(runner)
    assert runner.taken[0] == pytest.approx(10_000)
    seconds = [taken * seconds_per_tuple / LIMITS.processors for taken in runner.taken]
    assert all(later <= max(1.05, 8 * before) for before, later in pairwise(seconds))
    assert max(seconds[2:]) < 1.6 * LIMITS.target_s
    # by then, ticks are as long as they may be, or there is nothing left
    assert runner.backlog == 0 or min(seconds[4:]) > 0.8 * LIMITS.target_s


def test_costs_that_grow_with_the_tuples_make_no_tick_far_too_long() -> None:
    # as of a join, of which a small tick shows next to nothing
    runner = MadeUpRunner([500_000] + [0] * 20, seconds_per_tuple=1e-5, power=3.0)
    driven(runner)
    busy_s = [(taken * 1e-5) ** 3 for taken in runner.taken]
    assert max(busy_s) < 8 * LIMITS.target_s * LIMITS.processors
    assert sum(runner.taken) > 450_000


def test_ticks_that_are_long_whatever_they_take_soon_take_all_that_arrives() -> None:
    # as of a thousand queries, each of which has jobs of its own
    runner = MadeUpRunner([30_000] * 30, seconds_per_tuple=1e-6, fixed_s=20.0)
    driven(runner)
    assert runner.taken[0] == 10_000
    assert runner.taken[8:] == [30_000] * 22


def test_where_costs_are_known_the_first_tick_has_all_that_fits() -> None:
    runner = MadeUpRunner([2_000_000], 1e-5, known={"0.0": Profile(1e-5, samples=3)})
    driven(runner)
    assert runner.taken == [pytest.approx(200_000, rel=1e-4)]


def test_without_a_budget_a_tick_takes_everything() -> None:
    runner = MadeUpRunner([2_000_000], 1e-4)
    driven(runner, TickLimits(processors=2))
    assert runner.taken == [2_000_000]


def test_a_backlog_above_the_memory_limit_makes_a_tick_longer_but_not_without_end() -> None:
    known = {"0.0": Profile(1e-5, bytes_per_tuple=WIDTH_BYTES, samples=3)}
    runner = MadeUpRunner([10_000_000], 1e-5, known=known)
    driven(runner, replace(LIMITS, memory_bytes=1_000_000))
    assert 200_000 < runner.taken[0] <= 4.5 * 200_000
