"""The eddy inside of a task, the line before it, and slots that move: all without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import SetupError
from headgate.model.expression import Expression
from headgate.model.operator import ByTruth, Eddy, PlacedPredicate, StreamInput
from headgate.model.pool import PoolDefinition
from headgate.placed import router_for_run
from headgate.routing.registry import router_names
from headgate.spark.eddies.assignment import DROPPED, Assignment, Step
from headgate.spark.eddies.balance import Balance
from headgate.spark.eddies.line import Line
from headgate.spark.eddies.pools import Pools, PoolStatus
from headgate.spark.eddies.whirl import Whirl
from headgate.spark.manifest import BlockRef

Holds = Callable[[int], bool]
PREDICATES: list[Holds] = [lambda row: row % 2 == 0, lambda row: row % 3 > 0, lambda row: row % 5 > 1]
FULL = 0b111


def eddy_of(predicates: int, pool_of: Callable[[int], str]) -> Eddy:
    truth = Expression("true", ())
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
    steps = tuple(
        Step(f"q.eddy.{n}", p.pool, p.function, b"", (), "", ()) for n, p in enumerate(eddy.predicates)
    )
    folder = None if lock_folder is None else str(lock_folder)
    return pools.assigned("q.eddy", steps, budget_s, folder, 0, {"q.eddy": waiting})


@pytest.mark.parametrize("policy", router_names())
@pytest.mark.parametrize("slots", [{"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 2}])
def test_every_policy_settles_the_same_tuples(policy: str, slots: dict[str, int]) -> None:
    done = [0] * 300
    told = Whirl(assignment(policy, slots), PREDICATES, done, range(300)).run()
    passed = [row for row, bits in enumerate(done) if bits == FULL]
    assert passed == [row for row in range(300) if all(p(row) for p in PREDICATES)]
    assert all(bits in (FULL, DROPPED) for bits in done)
    assert told.settled == 300


def test_what_is_not_finished_comes_back_with_what_it_has_done() -> None:
    def slowly(row: int) -> bool:
        time.sleep(0.002)
        return True

    done = [0] * 400
    given = assignment("wscq", {"a": 1, "b": 1, "c": 1}, budget_s=0.15)
    told = Whirl(given, [slowly] * 3, done, range(400)).run()
    assert 0 < told.settled < 400
    assert any(bits not in (0, FULL) for bits in done)
    calls = sum(count.done for count in told.counts.values())
    assert sum(bits.bit_count() for bits in done) == calls
    # the next job asks only what is left
    left = [bits for bits in done if bits != FULL]
    again = assignment("wscq", {"a": 4, "b": 4, "c": 4})
    more = Whirl(again, [lambda row: True] * 3, left, range(len(left))).run()
    assert sum(count.done for count in more.counts.values()) == 3 * 400 - calls


def test_with_others_in_line_a_job_hands_its_last_tuples_back() -> None:
    done = [0] * 200
    given = assignment("wscq", {"a": 1, "b": 1, "c": 1}, waiting=100)
    told = Whirl(given, [lambda row: True] * 3, done, range(200)).run()
    assert 150 <= told.settled < 200


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
        Whirl(given, [watched] * 3, [0] * 60, range(60)).run()

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
        Whirl(assignment("wscq", {"a": 1}), [fails] * 3, [0] * 10, range(10)).run()


def block(name: str, rows: int) -> BlockRef:
    return BlockRef(name, rows, 10 * rows, 0, 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 50), st.randoms())
def test_a_line_loses_and_doubles_nothing(sizes: list[int], most: int, rng) -> None:  # type: ignore[no-untyped-def]
    line, seen, working = Line(), [], []
    for number, size in enumerate(sizes):
        line.enter(block(str(number), size))
    while (share := line.take(most)) is not None or working:
        if share is not None:
            assert share.rows <= most
            first, end = share.numbers
            assert end - first == sum(b.rows for b in share.blocks if b.number is not None)
            working.append(share)
            if rng.random() < 0.5:
                # a restart finds what was inside
                standing = line.standing()
                assert sum(b.rows for b in Line(standing.inside).standing().inside) == sum(
                    b.rows for b in standing.inside
                )
                continue
        ended = working.pop(rng.randrange(len(working)))
        left = ended.rows // 3 if rng.random() < 0.5 else 0
        handed_back = [block("left", left)] if left else []
        line.harvest(ended, block("through", ended.rows - left), handed_back)
        seen.append(ended.rows - left)
    assert sum(seen) == sum(sizes)
    finished = line.standing().finished
    assert sum(b.rows for b in finished) == sum(sizes)


def test_tuples_on_their_way_to_a_probe_stand_in_a_lane_of_its_own() -> None:
    line = Line([replace(block("left", 3), step=1)])
    line.enter_decided([replace(block("new", 5), step=1), replace(block("new", 2), step=0)])
    line.enter(block("called", 7))
    assert [line.rows_before(step) for step in (None, 0, 1)] == [7, 2, 8]
    assert line.rows == 17
    share = line.take(4, step=1)
    assert share is not None
    # what a probe takes is not cut: whole blocks are told by where they go
    assert [(b.path, b.rows) for b in share.blocks] == [("left", 3), ("new", 5)]
    line.harvest(share, None, [block("back", 4), replace(block("on", 6), step=0)])
    assert [line.rows_before(step) for step in (None, 0, 1)] == [11, 8, 0]
    assert sum(b.rows for b in line.standing().inside) == 19


def test_a_slot_moves_from_an_idle_pool_to_a_full_one() -> None:
    balance = Balance()
    idle, full = PoolStatus(3, 0, 0, 0.0), PoolStatus(1, 0, 0, 0.0)
    assert balance.move({"idle": idle, "full": full}, 0.0) == {}
    later = {"idle": PoolStatus(3, 9, 9, 4.0), "full": PoolStatus(1, 9, 9, 9.8)}
    assert balance.move(later, 10.0) == {"full": 2, "idle": 2}


def test_no_slot_moves_where_the_giver_would_be_short() -> None:
    balance = Balance()
    balance.move({"a": PoolStatus(2, 0, 0, 0.0), "b": PoolStatus(1, 0, 0, 0.0)}, 0.0)
    assert balance.move({"a": PoolStatus(2, 9, 9, 9.0), "b": PoolStatus(1, 9, 9, 9.9)}, 10.0) == {}


def test_altering_a_pool_is_checked() -> None:
    eddy = eddy_of(1, lambda n: "gpu")
    pools = Pools([PoolDefinition("gpu", 1)], [eddy], router_for_run("wscq"))
    pools.alter("GPU", 3)
    assert pools.slots() == {"gpu": 3}
    with pytest.raises(SetupError, match="unknown pool tpu; known: gpu"):
        pools.alter("tpu", 1)
    with pytest.raises(SetupError, match="1 or more"):
        pools.alter("gpu", 0)
