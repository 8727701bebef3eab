"""The controller on a run made up of figures: orders and boxes follow what it measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from tests.planning.support import bound, catalog_of

from headgate.control.controller import AdaptiveController
from headgate.control.work_model import ControlledRun
from headgate.model.event import QueryCounts, StreamCounts, TickCommitted
from headgate.model.join_order import JoinOrder
from headgate.model.profile import Profile
from headgate.model.shedding import TickSettings
from headgate.model.status import Recorder
from headgate.planning.join_order.choose import work_of
from headgate.planning.lower import Stages
from headgate.planning.rules import optimize
from headgate.scheduling.capacity import Threshold
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import PairCounts, StatisticsStore

STREAMS = "".join(
    f"CREATE STREAM {n} (ts TIMESTAMP, k INT, j INT) FROM kafka OPTIONS (timestamp 'ts');" for n in "abc"
)
THREE = """CREATE QUERY q WITH (overload = '{overload}', latency = '5 s') AS
  SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND] WHERE a.k = b.k AND b.j = c.j"""
HANDLED_S, OVERHEAD_S = 1e-5, 0.2


class MadeUp:
    """A machine that takes what the model says, and makes ticks of it."""

    def __init__(
        self, overload: str, is_live: bool, others: str = "", room: Callable[[float], float] | None = None
    ) -> None:
        catalog = catalog_of(f"{THREE.format(overload=overload)};{others}", STREAMS)
        plans = [optimize(plan) for plan in bound("", catalog)]
        self.network = Stages.of(catalog).lowered
        self.recorder = Recorder(self.network)
        profiles = {name: Profile(1e-9) for name in self.network.operators}
        self.statistics = StatisticsStore(self.network, Measured(profiles))
        self.statistics.follow(self.recorder.recent)
        self.controller = AdaptiveController(
            ControlledRun(self.network, plans, self.statistics, float("inf"), is_live, room_bytes=room)
        )
        self.settings = TickSettings()
        self.backlog_bytes = 0
        self.changes: list[tuple[int, str]] = []
        self.history: list[TickSettings] = []
        self.lengths: list[float] = [1.0]
        self._now_s, self._ticks = 0.0, 0

    def run(self, ticks: int, rates: dict[str, float], selectivities: tuple[float, float]) -> None:
        for _ in range(ticks):
            self._tick(rates, selectivities)

    def _tick(self, rates: dict[str, float], selectivities: tuple[float, float]) -> None:
        arrived_s = self.lengths[-1]
        if self.controller.wants_samples():
            pairs = 4e6
            links = zip(((0,), (1,)), selectivities, strict=True)
            self.statistics.joins.add({("q.join", p): PairCounts(pairs, f * pairs) for p, f in links})
        problem = self._problem(rates, selectivities)
        order = self.settings.orders.get("q.join", JoinOrder("abc"))
        work = work_of(problem, order, self.settings.keep) if problem else None
        busy_s = work.handled_per_s * HANDLED_S * arrived_s if work else 0.1
        seconds = OVERHEAD_S + busy_s
        self._now_s += max(arrived_s, seconds) if self._ticks == 0 else seconds + max(0.0, 0.5 - seconds)
        counts = {
            s: StreamCounts(
                round(rate * arrived_s), shed=round(rate * arrived_s * (1 - self.settings.keep_ratio(s)))
            )
            for s, rate in rates.items()
        }
        tick = TickCommitted(
            now_s=self._now_s,
            batch_id=self._ticks,
            seconds=seconds,
            streams=counts,
            queries={
                name: QueryCounts(round(work.results_per_s * arrived_s) if work else 0)
                for name in self.network.queries
            },
            backlog_tuples=0,
            backlog_bytes=self.backlog_bytes,
            window_bytes=0,
            until_s=dict.fromkeys(rates, self._now_s - seconds),
        )
        self.statistics.arrivals.add(tick)
        decided = self.controller.decide(tick, self.settings)
        committed = replace(tick, busy_s=busy_s)
        self.recorder(committed)
        self.controller(committed)
        if not decided.settings.chooses_like(self.settings):
            self.changes.append((self._ticks, decided.reason))
        self.settings = decided.settings
        self.history.append(self.settings)
        self.lengths.append(max(seconds, 0.5))
        self._ticks += 1

    def _problem(self, rates: dict[str, float], selectivities: tuple[float, float]):  # type: ignore[no-untyped-def]
        found = self.controller._model.problems(rates)
        if found is None:
            return None
        problem, *others = found
        assert all(other.shares_with == problem.query for other in others)
        predicates = tuple(
            replace(p, selectivity=f) for p, f in zip(problem.predicates, (*selectivities, 1.0), strict=True)
        )
        return replace(problem, predicates=predicates)


RATES = {"a": 500.0, "b": 500.0, "c": 500.0}


def test_selectivities_that_swap_change_the_order_within_five_ticks() -> None:
    run = MadeUp("backpressure", is_live=False)
    run.run(12, RATES, (0.001, 0.1))
    assert run.settings.orders["q.join"][:2] == ("a", "b")
    run.changes.clear()
    run.run(12, RATES, (0.1, 0.001))
    assert set(run.settings.orders["q.join"][:2]) == {"b", "c"}
    [(tick, reason)] = run.changes
    assert tick < 12 + 5 and "went from" in reason
    assert not run.settings.keep


def test_a_join_that_is_shared_counts_once_and_has_one_order() -> None:
    again = "CREATE QUERY r AS SELECT b.j" + THREE.partition("SELECT a.k")[2]
    alone, run = MadeUp("backpressure", False), MadeUp("backpressure", False, again)
    for machine in (alone, run):
        machine.run(12, RATES, (0.1, 0.001))
    assert run.settings == alone.settings
    assert set(run.settings.orders) == {"q.join"} and set(run.settings.orders["q.join"][:2]) == {"b", "c"}


@pytest.mark.slow
@pytest.mark.parametrize("times", [3, 6])
def test_a_load_beyond_capacity_is_shed_and_comes_back_when_it_falls(times: float) -> None:
    run = MadeUp("shed", is_live=True)
    run.run(10, RATES, (0.02, 0.05))
    assert set(run.settings.keep.values()) <= {1.0}
    # intermediate results grow with the square of the rates
    busy = {s: rate * 2.5 * times**0.5 for s, rate in RATES.items()}
    run.run(40, busy, (0.02, 0.05))
    assert min(run.settings.keep.values()) < 1
    assert max(run.lengths[10:]) < 5 and max(run.lengths[-15:]) < 2.5
    run.run(30, RATES, (0.02, 0.05))
    assert set(run.settings.keep.values()) == {1.0}


OVERLOAD = {s: 3 * rate for s, rate in RATES.items()}


def test_drop_boxes_do_not_open_in_the_tick_that_brings_another_join_order() -> None:
    run = MadeUp("shed", is_live=True)
    for selectivities in ((0.02, 0.05), (0.05, 0.02)) * 3:
        run.run(10, OVERLOAD, selectivities)
    changes = [(before, after) for before, after in pairwise(run.history) if before.orders != after.orders]
    assert len(changes) > 2
    for before, after in changes:
        assert all(after.keep_ratio(stream) <= before.keep_ratio(stream) for stream in RATES)


def test_a_cost_that_a_few_ticks_suggest_does_not_shed_work_that_they_have_done() -> None:
    run = MadeUp("shed", is_live=True)
    run.run(15, OVERLOAD, (0.02, 0.05))
    before = min(run.settings.keep_ratio(stream) for stream in RATES)
    for _ in range(4):
        run.statistics.join_costs.fixed_s = 100.0
        run.run(1, OVERLOAD, (0.02, 0.05))
        assert min(run.settings.keep_ratio(stream) for stream in RATES) > 0.6 * before


def test_nothing_is_shed_of_what_can_wait() -> None:
    run = MadeUp("shed", is_live=False)
    run.run(30, {s: 5000.0 for s in RATES}, (0.02, 0.05))
    assert set(run.settings.keep.values()) <= {1.0}


def one_tick(rows: int, busy_s: float, held_bytes: int = 0) -> TickCommitted:
    streams = {"a": StreamCounts(rows, shed=rows // 2), "b": StreamCounts(), "c": StreamCounts()}
    return TickCommitted(1.0, 0, 1.0, streams, {}, 0, 0, held_bytes, busy_s=busy_s)


def controller_of(is_live: bool = True, memory_bytes: float = float("inf")) -> AdaptiveController:
    """A controller that knows no costs, for ticks of 1.5 s."""
    catalog = catalog_of(THREE.format(overload="shed"), STREAMS)
    network = Stages.of(catalog).lowered
    run = ControlledRun(network, [], StatisticsStore(network), memory_bytes, is_live, processors=2)
    return AdaptiveController(run)


def test_drop_boxes_let_few_rows_into_a_first_tick_and_more_once_these_have_shown_their_cost() -> None:
    controller = controller_of()
    settings = controller.first()
    assert settings.most_rows == 15_000
    assert controller.decide(one_tick(30_000, 0), settings).settings.most_rows == 15_000
    # half of them were kept, and took a hundredth of the time that there was
    controller(one_tick(30_000, 0.03))
    assert controller.decide(one_tick(0, 0), settings).settings.most_rows == 8 * 15_000
    controller(one_tick(240_000, 30.0))
    assert controller.decide(one_tick(0, 0), settings).settings.most_rows == 15_000


def test_drop_boxes_let_no_more_in_than_memory_has_room_for() -> None:
    controller = controller_of(memory_bytes=1_000_000)
    width = max(p.bytes_per_tuple for p in controller._statistics.profiles.values())
    fits = controller.decide(one_tick(10, 0, held_bytes=400_000), controller.first()).settings.most_rows
    assert fits == round(400_000 / width)
    assert controller.decide(one_tick(10, 0, held_bytes=10**9), controller.first()).settings.most_rows == 100


def test_what_can_wait_has_no_limit_of_rows() -> None:
    controller = controller_of(is_live=False)
    assert controller.first().most_rows is None
    assert controller.decide(one_tick(10, 0), controller.first()).settings.most_rows is None


@dataclass(frozen=True)
class FloodTick:
    """A tick of a flood: rows that arrived, those that were kept, and whether that took a second pass."""

    rows: int
    kept: int
    seconds: float
    is_closed: bool
    reason: str


def flooded(rows_per_s: float, seconds_per_row: float, ticks: int = 40) -> list[FloodTick]:
    """A flood over a query of which nothing is known, with ticks that should take 0.6 s."""
    query = "CREATE QUERY q WITH (overload = 'shed', latency = '2 s') AS SELECT v + 1 AS v FROM r"
    network = Stages.of(catalog_of(query, "CREATE STREAM r (v BIGINT) FROM rate;")).lowered
    statistics, recorder = StatisticsStore(network), Recorder(network)
    statistics.follow(recorder.recent)
    controller = AdaptiveController(ControlledRun(network, [], statistics, float("inf"), True, processors=2))
    settings, now_s, arrived_s = controller.first(), 0.0, 1.0
    found = []
    for number in range(ticks):
        rows = round(rows_per_s * arrived_s)
        in_force = settings.closed_to({"r": rows})
        kept = round(rows * in_force.keep_ratio("r"))
        busy_s = kept * seconds_per_row
        seconds = OVERHEAD_S + busy_s / 2
        now_s += seconds
        counts = StreamCounts(rows, shed=rows - kept)
        tick = TickCommitted(now_s, number, seconds, {"r": counts}, {"q": QueryCounts(kept)}, 0, 0, 0)
        statistics.arrivals.add(tick)
        decided = controller.decide(tick, settings)
        for observer in (recorder, controller):
            observer(replace(tick, busy_s=busy_s))
        changed = not decided.settings.chooses_like(settings)
        reason = decided.reason if changed else ""
        found.append(FloodTick(rows, kept, seconds, in_force is not settings, reason))
        settings, arrived_s = decided.settings, seconds
    return found


@pytest.mark.parametrize("seconds_per_row", [1e-6, 2e-5, 3e-4])
def test_a_flood_of_unknown_cost_is_shed_at_once_and_later_without_counting_it_twice(
    seconds_per_row: float,
) -> None:
    ticks = flooded(300_000, seconds_per_row)
    assert ticks[0].kept == 6_000
    # boxes close for rows that nobody expected; after that, what is to come is known
    assert [tick.is_closed for tick in ticks[:2]] == [True, True]
    assert not any(tick.is_closed for tick in ticks[2:])
    assert "rows are expected where" in ticks[1].reason
    assert max(tick.seconds for tick in ticks[5:]) < 2 * 0.6
    assert max(tick.seconds for tick in ticks[20:]) < 1.1 * 0.6


def test_what_fits_is_not_shed_for_longer_than_it_takes_to_learn_that() -> None:
    ticks = flooded(300_000, 1e-6)
    assert [tick.kept == tick.rows for tick in ticks].index(True) <= 5
    assert all(tick.kept == tick.rows for tick in ticks[5:])


def test_under_a_memory_limit_boxes_close_only_where_the_strategy_has_no_room() -> None:
    strategy = Threshold(memory_bytes=1e9)
    run = MadeUp("shed", is_live=True, room=strategy.room_bytes)
    # more work than there is time for: what waits is the strategy's to choose
    rates = dict.fromkeys(RATES, 3000.0)
    run.run(8, rates, (0.01, 0.01))
    alone = MadeUp("shed", is_live=True)
    alone.run(8, rates, (0.01, 0.01))
    assert min(alone.settings.keep.values()) < 0.9
    assert all(ratio == 1 for settings in run.history[1:] for ratio in settings.keep.values())
    strategy.memory_bytes = 1e6
    width = max(profile.bytes_per_tuple for profile in run.statistics.profiles.values())
    for queued_bytes in (0, 400_000, 900_000):
        run.backlog_bytes = queued_bytes
        run.run(1, RATES, (0.01, 0.01))
        assert run.settings.most_rows == pytest.approx(0.8 * (1e6 - queued_bytes) / width, abs=1)
    run.backlog_bytes = 2_000_000
    run.run(1, RATES, (0.01, 0.01))
    assert run.settings.most_rows == 100, "a tick that takes nothing in would never end"
