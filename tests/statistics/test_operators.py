"""Estimates of operators, from ticks cut at different places, and of join predicates, from samples."""

from __future__ import annotations

import random

import pytest
from tests.planning.support import catalog_of
from tests.runtime.networks import chains

from headgate.control.overrides import FixedController, has_orders
from headgate.model.profile import Profile, Profiles
from headgate.planning.lower import Stages
from headgate.spark.measuring import groups_of
from headgate.statistics.estimators import TickWork
from headgate.statistics.operators import UNREACHED, OperatorEstimates, Passed
from headgate.statistics.store import (
    JoinSelectivities,
    PairCounts,
    PredicateEstimates,
    StatisticsStore,
)

NETWORK = chains(2)
SELECT, PROJECT = NETWORK.operators


def learnt(works: list[TickWork]) -> OperatorEstimates:
    estimates = OperatorEstimates(NETWORK, {})
    estimates.assume_widths({SELECT: 40.0, PROJECT: 20.0})
    for work in works:
        estimates.add([work], {}, {})
    return estimates


def work(taken: float, passed: float, stored: float = 0.0, noise: float = 1.0) -> TickWork:
    seconds = (2e-5 * taken + 1e-4 * passed + 3e-6 * stored + 0.05) * noise
    return TickWork({SELECT: taken, PROJECT: passed}, stored, seconds)


def test_ticks_that_are_cut_tell_operators_apart() -> None:
    rng = random.Random(3)
    sizes = [(rng.uniform(5e3, 5e4), rng.uniform(0, 1e4), rng.uniform(0, 3e4)) for _ in range(40)]
    found = learnt([work(*size, noise=rng.uniform(0.95, 1.05)) for size in sizes]).profiles
    assert found[SELECT].seconds_per_tuple == pytest.approx(2e-5, rel=0.15)
    assert found[PROJECT].seconds_per_tuple == pytest.approx(1e-4, rel=0.15)


def test_ticks_that_are_never_cut_tell_what_a_tuple_costs_in_all() -> None:
    rng = random.Random(4)
    works = []
    for _ in range(40):
        taken = rng.uniform(5e3, 5e4)
        works.append(work(taken, taken * rng.uniform(0.19, 0.21), noise=rng.uniform(0.97, 1.03)))
    found = learnt(works).profiles
    total = found[SELECT].seconds_per_tuple + 0.2 * found[PROJECT].seconds_per_tuple
    assert total == pytest.approx(2e-5 + 0.2 * 1e-4, rel=0.1)


def test_costs_follow_when_a_machine_gets_faster() -> None:
    slow = [TickWork({SELECT: 1e4, PROJECT: 2e3}, 0.0, 2.0)] * 20
    fast = [TickWork({SELECT: 1e4, PROJECT: 2e3}, 0.0, 0.5)] * 40
    found = learnt(slow + fast).profiles
    total = 1e4 * found[SELECT].seconds_per_tuple + 2e3 * found[PROJECT].seconds_per_tuple
    assert total < 0.6


def test_small_ticks_say_nothing_about_tuples() -> None:
    estimates = learnt([TickWork({SELECT: 3.0, PROJECT: 1.0}, 0.0, 0.2)] * 5)
    assert estimates.profiles[SELECT].samples == 0
    assert missing(estimates)[SELECT] == "only 0 of 4 ticks had 200 tuples or more for its query"


def missing(estimates: OperatorEstimates) -> dict[str, str]:
    return estimates.unmeasured(estimates.overall().profiles)


def test_an_operator_counts_as_measured_once_cost_and_selectivity_are() -> None:
    estimates, rng = OperatorEstimates(NETWORK, {}), random.Random(1)
    assert missing(estimates).keys() == set(NETWORK.operators) == estimates.assumed
    reasons = []
    for number in range(12):
        taken = rng.uniform(5e3, 5e4)
        passed = {SELECT: Passed(taken, 0.2 * taken)} if number in (8, 9) else {}
        estimates.add([work(taken, 0.2 * taken, noise=rng.uniform(0.95, 1.05))], passed, {})
        reasons.append(missing(estimates).get(SELECT, ""))
    # two ticks are cold, and four more are few
    assert reasons[4] == "only 3 of 4 ticks had 200 tuples or more for its query"
    assert reasons[7] == "its results were counted in only 0 of 2 ticks"
    assert reasons[8] == "its results were counted in only 1 of 2 ticks" and reasons[9] == ""
    # a select list has as many results as tuples, and needs no counting
    assert missing(estimates) == {} and estimates.assumed == frozenset()


def test_an_operator_that_no_tuple_reached_is_named_as_such() -> None:
    estimates, rng = OperatorEstimates(NETWORK, {}), random.Random(1)
    for _ in range(12):
        taken = rng.uniform(5e3, 5e4)
        estimates.add([work(taken, 0.0)], {SELECT: Passed(taken, 0.0)}, {})
    assert missing(estimates) == {PROJECT: UNREACHED}
    assert estimates.profiles[SELECT].selectivity == 0 < estimates.profiles[SELECT].selectivity_error


def test_what_was_known_before_needs_no_ticks() -> None:
    known = {SELECT: Profile(1e-5, 0.5), PROJECT: Profile(1e-5)}
    estimates = OperatorEstimates(NETWORK, known)
    assert missing(estimates) == {}
    estimates.add([], {}, {})
    estimates.add([], {}, {})
    estimates.add([work(1e4, 2e3)], {}, {})
    # one tick cannot tell its noise, but how far it is from what was known
    found = estimates.overall().profiles[SELECT]
    assert 0 < found.seconds_per_tuple_error < 1e-3 and missing(estimates) == {}


def profiled(rng: random.Random, ticks: int, noise: float) -> OperatorEstimates:
    """As a profile does it: ticks in which operators rest, then whole ones."""
    estimates, waiting = OperatorEstimates(NETWORK, {}), 0.0

    def add(taken: float, passed: float, stored: float) -> None:
        found = {SELECT: Passed(taken, 0.2 * taken), PROJECT: Passed(passed, passed)}
        estimates.add([work(taken, passed, stored, rng.lognormvariate(0, noise))], found, {})

    for number in range(ticks):
        rests = [number % 4 != 3 and rng.random() < 0.4 for _ in range(2)]
        taken = 0.0 if rests[0] else rng.uniform(5e3, 2e4)
        waiting += 0.2 * taken
        passed = 0.0 if rests[1] else waiting
        waiting -= passed
        add(taken, passed, waiting)
    estimates = estimates.continued()
    for _ in range(ticks):
        taken = rng.uniform(5e3, 3e4)
        add(taken, 0.2 * taken, 0.0)
    return estimates


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_the_truth_is_within_twice_the_standard_error_nine_times_in_ten(noise: float) -> None:
    rng, hits, sums, relative = random.Random(8), [], [], []
    for _ in range(60):
        overall = profiled(rng, 15, noise).overall()
        found = [overall.profiles[name] for name in (SELECT, PROJECT)]
        for own, true in zip(found, (2e-5, 1e-4), strict=True):
            hits.append(abs(own.seconds_per_tuple - true) < 2 * own.seconds_per_tuple_error)
            relative.append(own.seconds_per_tuple_error / true)
        in_all = found[0].seconds_per_tuple + 0.2 * found[1].seconds_per_tuple
        sums.append(abs(in_all / 4e-5 - 1) < 2 * overall.work_error)
    assert sum(hits) >= 0.9 * len(hits)
    # nor are errors so large that they say nothing
    assert sorted(relative)[len(relative) // 2] < (0.5 if noise < 0.1 else 1.0)
    # what tuples cost in all is known better than what each operator does
    assert sum(sums) >= 0.85 * len(sums)
    assert overall.work_error < sorted(relative)[len(relative) // 2]


def test_selectivity_and_width_are_those_of_the_tuples() -> None:
    estimates = OperatorEstimates(NETWORK, {})
    assert estimates.wants_counts(100) and not estimates.wants_counts(1e6)
    estimates.add([], {SELECT: Passed(1000, 250)}, {PROJECT: 33.0})
    estimates.add([], {SELECT: Passed(0, 0)}, {})
    assert estimates.profiles[SELECT].selectivity == 0.25
    assert estimates.profiles[PROJECT].bytes_per_tuple == 33.0


def test_what_is_known_from_before_is_where_learning_begins() -> None:
    known = {SELECT: Profile(1e-3, 0.1, 9.0, 5)}
    estimates = OperatorEstimates(NETWORK, known)
    estimates.assume_widths({SELECT: 40.0})
    assert estimates.profiles[SELECT] == known[SELECT]
    assert not estimates.add([], {}, {})


def test_proportions_stay_where_ticks_do_not_tell() -> None:
    estimates = OperatorEstimates(NETWORK, {SELECT: Profile(1e-5), PROJECT: Profile(1e-4)})
    rng = random.Random(5)
    for tick in range(60):
        taken = rng.uniform(5e3, 5e4)
        # the machine gets twice as fast meanwhile
        seconds = taken * 4e-5 * (1 - tick / 120) * rng.uniform(0.9, 1.1)
        estimates.add([TickWork({SELECT: taken, PROJECT: 0.2 * taken}, 0.0, seconds)], {}, {})
    found = estimates.profiles
    ratio = found[PROJECT].seconds_per_tuple / found[SELECT].seconds_per_tuple
    assert 7 < ratio < 14


def test_a_run_as_a_whole_is_explained_by_all_of_its_ticks() -> None:
    slow = [TickWork({SELECT: 1e4, PROJECT: 2e3}, 0.0, 2.0)] * 22
    fast = [TickWork({SELECT: 1e4, PROJECT: 2e3}, 0.0, 1.0)] * 20
    estimates = learnt(slow + fast)
    profiles = estimates.overall().profiles

    def seconds(known: Profiles) -> float:
        return 1e4 * known[SELECT].seconds_per_tuple + 2e3 * known[PROJECT].seconds_per_tuple

    assert seconds(estimates.profiles) < 1.2 < 1.3 < seconds(profiles)


def test_a_few_tuples_do_not_undo_a_known_selectivity() -> None:
    estimates = OperatorEstimates(NETWORK, {SELECT: Profile(1e-5, 0.125)})
    estimates.add([], {SELECT: Passed(2, 1), PROJECT: Passed(2, 1)}, {})
    assert estimates.profiles[SELECT].selectivity == pytest.approx(0.125, rel=0.02)
    assert estimates.profiles[PROJECT].selectivity == 0.5
    for _ in range(10):
        estimates.add([], {SELECT: Passed(10_000, 4_000)}, {})
    assert estimates.profiles[SELECT].selectivity == pytest.approx(0.4, rel=0.01)


def test_queries_that_share_operators_are_told_together() -> None:
    by_query = {"a": "1", "b": "2", "c": "1", "d": "2", "e": "3"}
    text = "".join(
        f"CREATE QUERY {query} AS SELECT src AS {query} FROM packets WHERE bytes > {least};"
        for query, least in by_query.items()
    )
    catalog = catalog_of(text)
    network = Stages.of(catalog).lowered
    assert groups_of(network) == {"a": "a", "b": "b", "c": "a", "d": "b", "e": "e"}


LINK = ("q.join", (0, 2))


def selectivity(*samples: tuple[float, float]) -> float:
    joins = JoinSelectivities()
    for pairs, found in samples:
        joins.add({LINK: PairCounts(pairs, found)})
    assert joins.by_position()["q.join"][2] == 1.0
    return joins.by_position()["q.join"][0]


def test_samples_that_agree_are_averaged() -> None:
    assert selectivity((144, 70), (144, 76)) == pytest.approx(111 / 216)


def test_a_sample_that_chance_does_not_explain_replaces_what_was() -> None:
    assert selectivity((144, 70), (144, 72), (144, 7)) == pytest.approx(7 / 144)


def test_no_match_is_not_no_chance() -> None:
    assert selectivity((1000, 0)) == pytest.approx(0.0005)


def test_profiles_have_selectivities_by_what_predicates_say() -> None:
    text = """CREATE QUERY q AS SELECT p.src FROM packets [ROWS 9] p, flows [ROWS 5] f, packets [ROWS 5] o
      WHERE p.src = f.src AND f.src = o.src AND p.dst <> f.src;"""
    catalog = catalog_of(text)
    network = Stages.of(catalog).lowered
    assert FixedController(has_orders(network)).wants_samples()
    store = StatisticsStore(network)
    store.joins.add({("q.join", (0, 2)): PairCounts(100, 10), ("q.join", (1,)): PairCounts(100, 50)})
    found = store.snapshot({}).predicates["q.join"]
    assert {text: profile.selectivity for text, profile in found.items()} == {
        "`p__src` = `f__src`": 0.1,
        "`f__src` = `o__src`": 0.5,
        "`p__dst` <> `f__src`": 1.0,
    }
    two = "CREATE QUERY q AS SELECT p.src FROM packets [ROWS 9] p, flows [ROWS 5] f WHERE p.src = f.src;"
    catalog = catalog_of(two)
    # of two streams, the join itself tells
    assert not FixedController(has_orders(Stages.of(catalog).lowered)).wants_samples()


def test_trials_of_predicates_are_smoothed() -> None:
    predicates = PredicateEstimates({"q.select": {"a": Profile(4e-6, 0.5, samples=10)}})
    predicates.add("q.select", {"a": Profile(2e-6, 0.25, samples=10), "b": Profile(1e-6, 1.0)})
    found = predicates.profiles["q.select"]
    assert found["a"] == Profile(3e-6, 0.375, samples=20)
    assert found["b"] == Profile(1e-6, 1.0)
