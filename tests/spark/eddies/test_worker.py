"""The eddy worker without Spark: results, time, slots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.model.expression import Expression
from headgate.model.network import PoolDefinition
from headgate.model.operator import ByTruth, Eddy, PlacedPredicate
from headgate.model.operator_inputs import StreamInput
from headgate.placed import router_for_run
from headgate.routing import router_names
from headgate.spark.eddies.pools import Pools
from headgate.spark.eddies.worker import DROPPED, Assignment, EddyWorker, Step

Holds = Callable[[int], bool]
PREDICATES: list[Holds] = [lambda row: row % 2 == 0, lambda row: row % 3 > 0, lambda row: row % 5 > 1]
FULL = 0b111


def eddy_of(predicates: int, pool_of: Callable[[int], str]) -> Eddy:
    truth = Expression.parse("true")
    placed = [
        PlacedPredicate(f"f{n}()", f"f{n}", (), ByTruth(truth, truth, truth), pool_of(n))
        for n in range(predicates)
    ]
    return Eddy("q.eddy", StreamInput("s", "s", ()), tuple(placed))


def assignment(
    policy: str,
    slots: dict[str, int],
    lock_folder: Path | None = None,
    budget_s: float = 60.0,
    waiting: int = 0,
) -> Assignment:
    names = list(slots)
    eddy = eddy_of(3, lambda n: names[n % len(names)])
    pools = Pools([PoolDefinition(n, s) for n, s in slots.items()], [eddy], router_for_run(policy))
    steps = tuple(Step(predicate.function, b"", (), "", ()) for predicate in eddy.predicates)
    folder = None if lock_folder is None else str(lock_folder)
    return pools.assignment("q.eddy", steps, budget_s, folder, {"q.eddy": waiting}, {})


@pytest.mark.parametrize("policy", router_names())
@pytest.mark.parametrize("slots", [{"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 2}])
def test_every_policy_settles_the_same_tuples(policy: str, slots: dict[str, int]) -> None:
    done = [0] * 300
    report = EddyWorker(assignment(policy, slots), PREDICATES, done, range(300)).run()
    passed = [row for row, bits in enumerate(done) if bits == FULL]
    assert passed == [row for row in range(300) if all(p(row) for p in PREDICATES)]
    assert all(bits in (FULL, DROPPED) for bits in done)
    assert report.settled == 300


def test_unfinished_tuples_are_handed_back_with_their_histories() -> None:
    def slowly(row: int) -> bool:
        time.sleep(0.002)
        return True

    done = [0] * 400
    given = assignment("wscq", {"a": 1, "b": 1, "c": 1}, budget_s=0.15)
    report = EddyWorker(given, [slowly] * 3, done, range(400)).run()
    assert 0 < report.settled < 400
    assert any(bits not in (0, FULL) for bits in done)
    calls = sum(count.done for count in report.counts.values())
    assert sum(bits.bit_count() for bits in done) == calls
    # the next job calls only what is left
    left = [bits for bits in done if bits != FULL]
    again = assignment("wscq", {"a": 4, "b": 4, "c": 4})
    more = EddyWorker(again, [lambda row: True] * 3, left, range(len(left))).run()
    assert sum(count.done for count in more.counts.values()) == 3 * 400 - calls


def test_while_others_wait_a_job_hands_its_last_tuples_back() -> None:
    done = [0] * 200
    given = assignment("wscq", {"a": 1, "b": 1, "c": 1}, waiting=100)
    report = EddyWorker(given, [lambda row: True] * 3, done, range(200)).run()
    assert 150 <= report.settled < 200


def test_two_jobs_never_use_more_slots_than_a_pool_has(tmp_path: Path) -> None:
    guard, now, most = threading.Lock(), [0], [0]

    def watched(row: int) -> bool:
        with guard:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.001)
        with guard:
            now[0] -= 1
        return True

    def job() -> None:
        given = assignment("wscq", {"a": 2}, lock_folder=tmp_path)
        EddyWorker(given, [watched] * 3, [0] * 60, range(60)).run()

    jobs = [threading.Thread(target=job) for _ in range(2)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join()
    assert most[0] == 2


def test_an_error_of_a_function_ends_the_job() -> None:
    def fails(row: int) -> bool:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        EddyWorker(assignment("wscq", {"a": 1}), [fails] * 3, [0] * 10, range(10)).run()
