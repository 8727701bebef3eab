"""The store of statistics: rates by two clocks, and a snapshot that outlives the run."""

from __future__ import annotations

import pytest
from tests.planning.support import catalog_of
from tests.runtime.networks import chains

from headgate.model.event import StreamCounts, TickCommitted
from headgate.model.profile import Profile
from headgate.model.status import TickRecord
from headgate.planning.lower import Stages
from headgate.statistics.estimators import TickWork
from headgate.statistics.operators import Passed
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import ArrivalRates, StatisticsStore

CHAIN = chains(2)


def tick(started_s: float, seconds: float, rows: int, until_s: float | None = None) -> TickCommitted:
    until = {} if until_s is None else {"s": until_s}
    counts = {"s": StreamCounts(rows)}
    return TickCommitted(started_s + seconds, 0, seconds, counts, {}, 0, 0, 0, until_s=until)


def test_rates_are_known_from_the_second_tick_on() -> None:
    rates = ArrivalRates()
    rates.add(tick(10.0, 1.0, 500))
    assert rates.latest is None and rates.tuples_per_own_s == {} and rates.speed.value == 1.0
    # 500 tuples since the first tick began, 2 s before
    rates.add(tick(12.0, 1.0, 500))
    assert rates.latest is not None and rates.latest.arrived_s == 2.0
    assert rates.tuples_per_own_s == {"s": 250.0} and rates.tuples_per_s.value == 250.0


def test_a_stream_that_is_replayed_faster_than_it_was_recorded_has_two_rates() -> None:
    rates = ArrivalRates()
    for number in range(5):
        rates.add(tick(2.0 * number, 1.0, 1000, until_s=10.0 * number))
    assert rates.tuples_per_own_s == {"s": pytest.approx(100.0)}
    assert rates.tuples_per_s.value == pytest.approx(500.0)
    assert rates.speed.value == pytest.approx(5.0)


def test_a_snapshot_has_the_statistics_of_shared_operators_under_all_their_names() -> None:
    text = "".join(
        f"CREATE QUERY {query} AS SELECT src AS {query} FROM packets WHERE bytes > 1 AND src > 'a';"
        for query in "ab"
    )
    catalog = catalog_of(text)
    network = Stages.of(catalog).lowered
    [(second, first)] = [(name, own) for name, own in network.shared.items() if "select" in name]
    known = {first: {"`bytes` > 1": Profile(1e-6, 0.5)}, "gone.select": {"x": Profile()}}
    snapshot = StatisticsStore(network, Measured({}, predicates=known)).snapshot({"packets": 7.0})
    assert snapshot.predicates == {first: known[first], second: known[first]}
    assert snapshot.tuples_per_s == {"packets": 7.0} and snapshot.tick is None


def test_forgotten_ticks_leave_the_profiles_as_what_is_known() -> None:
    network = CHAIN
    store, history = StatisticsStore(network), list[TickRecord]()
    store.follow(lambda: history)
    add_ticks(store, history, 8)
    before = store.profiles
    assert store.tick_costs() is not None and before != StatisticsStore(network).profiles
    store.forget_ticks()
    assert store.tick_costs() is None and store.unmeasured().keys() == {"ticks"}
    for name, profile in store.profiles.items():
        assert profile.seconds_per_tuple == pytest.approx(before[name].seconds_per_tuple)


def add_ticks(store: StatisticsStore, history: list[TickRecord], number: int) -> None:
    for _ in range(number):
        work = TickWork(dict.fromkeys(CHAIN.operators, 1e4), 0.0, 0.5)
        passed = dict.fromkeys(CHAIN.operators, Passed(1e4, 1e4))
        store.operators.add([work], passed, {})
        history.append(TickRecord(float(len(history)), 0.0, 10_000, 0, 0, 0, 0, {}, {}, 0.5))


def test_a_snapshot_has_no_numbers_of_what_was_not_measured() -> None:
    store, history = StatisticsStore(CHAIN), list[TickRecord]()
    store.follow(lambda: history)
    nothing = store.snapshot({})
    assert nothing.profiles == {} and nothing.tick is None
    assert nothing.not_measured == {
        **dict.fromkeys(CHAIN.operators, "only 0 of 4 ticks had 200 tuples or more for its query"),
        "ticks": "too few of them did any work",
    }
    # two ticks are cold, and the first one of a run has no beginning
    add_ticks(store, history, 6)
    some = store.snapshot({}, processors=2)
    assert some.profiles.keys() == CHAIN.operators.keys() and some.processors == 2
    assert some.tick is None and some.not_measured == {"ticks": "only 5 of 6 did any work"}
    observed = store.observations()
    add_ticks(store, history, 1)
    assert store.observations() > observed
    assert store.snapshot({}).tick is not None and store.snapshot({}).not_measured == {}
