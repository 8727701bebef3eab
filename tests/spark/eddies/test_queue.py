"""The queue of an eddy and its pools, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.eddies.test_worker import eddy_of

from headgate.errors import SetupError
from headgate.model.network import PoolDefinition
from headgate.session.placed import router_for_run
from headgate.spark.eddies.pools import Balance, Pools, PoolStatus
from headgate.spark.eddies.queue import EddyQueue
from headgate.spark.manifest import BlockRef


def block(name: str, rows: int) -> BlockRef:
    return BlockRef(name, rows, 10 * rows, 0, 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 50), st.randoms())
def test_a_queue_loses_and_duplicates_nothing(sizes: list[int], most: int, rng) -> None:  # type: ignore[no-untyped-def]
    queue, seen, working = EddyQueue(), [], []
    for number, size in enumerate(sizes):
        queue.enter(block(str(number), size))
    while (taken := queue.take(most)) is not None or working:
        if taken is not None:
            assert taken.rows <= most
            first, end = taken.numbers
            assert end - first == sum(b.rows for b in taken.blocks if b.number is not None)
            working.append(taken)
            if rng.random() < 0.5:
                # a restart finds what was inside
                snapshot = queue.snapshot()
                assert sum(b.rows for b in EddyQueue(snapshot.inside).snapshot().inside) == sum(
                    b.rows for b in snapshot.inside
                )
                continue
        ended = working.pop(rng.randrange(len(working)))
        left = ended.rows // 3 if rng.random() < 0.5 else 0
        handed_back = [block("left", left)] if left else []
        queue.finish_job(ended, block("through", ended.rows - left), handed_back)
        seen.append(ended.rows - left)
    assert sum(seen) == sum(sizes)
    finished = queue.snapshot().finished
    assert sum(b.rows for b in finished) == sum(sizes)


def test_tuples_routed_to_a_probe_wait_in_a_lane_of_its_own() -> None:
    queue = EddyQueue([replace(block("left", 3), step=1)])
    queue.enter_routed([replace(block("new", 5), step=1), replace(block("new", 2), step=0)])
    queue.enter(block("called", 7))
    assert [queue.rows_in_lane(step) for step in (None, 0, 1)] == [7, 2, 8]
    assert queue.rows == 17
    taken = queue.take(4, step=1)
    assert taken is not None
    # the input of a probe is not split: its tuples are selected by where they go
    assert [(b.path, b.rows) for b in taken.blocks] == [("left", 3), ("new", 5)]
    queue.finish_job(taken, None, [block("back", 4), replace(block("on", 6), step=0)])
    assert [queue.rows_in_lane(step) for step in (None, 0, 1)] == [11, 8, 0]
    assert sum(b.rows for b in queue.snapshot().inside) == 19


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
    with pytest.raises(SetupError, match=r"unknown pool tpu; did you mean gpu\? known: gpu"):
        pools.alter("tpu", 1)
    with pytest.raises(SetupError, match="1 or more"):
        pools.alter("gpu", 0)
