"""Profiles come out of ticks that are cut at different places."""

from __future__ import annotations

import random

import pytest
from tests.planning.support import catalog_of
from tests.runtime.networks import chains

from headgate.model.profile import Profile, Profiles
from headgate.planning.stages import Stages
from headgate.spark.costs import Work
from headgate.spark.learn import Learner, Passed
from headgate.spark.measuring import groups_of

NETWORK = chains(2)
SELECT, PROJECT = NETWORK.operators


def learnt(works: list[Work]) -> Learner:
    learner = Learner(NETWORK, {SELECT: 40.0, PROJECT: 20.0}, {})
    for work in works:
        learner.learn([work], {}, {})
    return learner


def work(taken: float, passed: float, stored: float = 0.0, noise: float = 1.0) -> Work:
    seconds = (2e-5 * taken + 1e-4 * passed + 3e-6 * stored + 0.05) * noise
    return Work({SELECT: taken, PROJECT: passed}, stored, seconds)


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
    slow = [Work({SELECT: 1e4, PROJECT: 2e3}, 0.0, 2.0)] * 20
    fast = [Work({SELECT: 1e4, PROJECT: 2e3}, 0.0, 0.5)] * 40
    found = learnt(slow + fast).profiles
    total = 1e4 * found[SELECT].seconds_per_tuple + 2e3 * found[PROJECT].seconds_per_tuple
    assert total < 0.6


def test_small_ticks_say_nothing_about_tuples() -> None:
    assert learnt([Work({SELECT: 3.0, PROJECT: 1.0}, 0.0, 0.2)] * 5).profiles[SELECT].samples == 0


def test_selectivity_and_width_are_those_of_the_tuples() -> None:
    learner = Learner(NETWORK, {}, {})
    assert learner.wants_counts(100) and not learner.wants_counts(1e6)
    learner.learn([], {SELECT: Passed(1000, 250)}, {PROJECT: 33.0})
    learner.learn([], {SELECT: Passed(0, 0)}, {})
    assert learner.profiles[SELECT].selectivity == 0.25
    assert learner.profiles[PROJECT].bytes_per_tuple == 33.0


def test_what_is_known_from_before_is_where_learning_begins() -> None:
    known = {SELECT: Profile(1e-3, 0.1, 9.0, 5)}
    learner = Learner(NETWORK, {SELECT: 40.0}, known)
    assert learner.profiles[SELECT] == known[SELECT]
    assert not learner.learn([], {}, {})


def test_proportions_stay_where_ticks_do_not_tell() -> None:
    learner = Learner(NETWORK, {}, {SELECT: Profile(1e-5), PROJECT: Profile(1e-4)})
    rng = random.Random(5)
    for tick in range(60):
        taken = rng.uniform(5e3, 5e4)
        # the machine gets twice as fast meanwhile
        seconds = taken * 4e-5 * (1 - tick / 120) * rng.uniform(0.9, 1.1)
        learner.learn([Work({SELECT: taken, PROJECT: 0.2 * taken}, 0.0, seconds)], {}, {})
    found = learner.profiles
    ratio = found[PROJECT].seconds_per_tuple / found[SELECT].seconds_per_tuple
    assert 7 < ratio < 14


def test_a_run_as_a_whole_is_explained_by_all_of_its_ticks() -> None:
    slow = [Work({SELECT: 1e4, PROJECT: 2e3}, 0.0, 2.0)] * 22
    fast = [Work({SELECT: 1e4, PROJECT: 2e3}, 0.0, 1.0)] * 20
    learner = learnt(slow + fast)
    profiles = learner.over_all().profiles

    def seconds(known: Profiles) -> float:
        return 1e4 * known[SELECT].seconds_per_tuple + 2e3 * known[PROJECT].seconds_per_tuple

    assert seconds(learner.profiles) < 1.2 < 1.3 < seconds(profiles)


def test_a_few_tuples_do_not_undo_a_known_selectivity() -> None:
    learner = Learner(NETWORK, {}, {SELECT: Profile(1e-5, 0.125)})
    learner.learn([], {SELECT: Passed(2, 1), PROJECT: Passed(2, 1)}, {})
    assert learner.profiles[SELECT].selectivity == pytest.approx(0.125, rel=0.02)
    assert learner.profiles[PROJECT].selectivity == 0.5
    for _ in range(10):
        learner.learn([], {SELECT: Passed(10_000, 4_000)}, {})
    assert learner.profiles[SELECT].selectivity == pytest.approx(0.4, rel=0.01)


def test_queries_that_share_operators_are_told_together() -> None:
    by_query = {"a": "1", "b": "2", "c": "1", "d": "2", "e": "3"}
    text = "".join(
        f"CREATE QUERY {query} AS SELECT src AS {query} FROM packets WHERE bytes > {least};"
        for query, least in by_query.items()
    )
    catalog = catalog_of(text)
    network = Stages.of(catalog).lowered
    assert groups_of(network) == {"a": "a", "b": "b", "c": "a", "d": "b", "e": "e"}
