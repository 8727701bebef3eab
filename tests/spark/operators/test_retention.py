"""How far operators go, and which blocks they keep: nothing here needs a JVM."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.operators.alone import Tables, side_struct, stream_input
from tests.spark.operators.budget import untimed

from headgate.model.expression import Expression
from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow, UntilWindow, Window
from headgate.spark.manifest import BlockRef, OperatorState
from headgate.spark.operators.base import Stretch
from headgate.spark.operators.inputs import LogInput, QueueInput
from headgate.spark.operators.window_tuples import retain_window
from headgate.spark.operators.windowed import due_boundaries
from headgate.spark.rows import NOTHING, Rows, Spread, progress_of
from headgate.spark.sql import BEGINNING_US, END_US
from headgate.statistics.store import PredicateEstimates, PredicateOrder

TIMES = st.lists(st.integers(-20, 20), min_size=1, max_size=12).map(sorted)


def blocks_of(data: st.DataObject, times: Sequence[int]) -> list[BlockRef]:
    """A log cut into blocks at any places, numbered without gaps."""
    places = data.draw(st.sets(st.integers(1, max(1, len(times) - 1))))
    edges = [0, *sorted(p for p in places if p < len(times)), len(times)]
    return [
        BlockRef(f"b{a}", b - a, 8 * (b - a), times[a], times[b - 1], first_seq=a)
        for a, b in itertools.pairwise(edges)
    ]


def log_of(blocks: Sequence[BlockRef], window: Window | None, **settings: Any) -> LogInput:
    """The last block has just come."""
    fresh = blocks[-1:]
    return LogInput(
        Tables(),  # type: ignore[arg-type]
        stream_input("a"),
        window,
        (),
        PredicateOrder({}, {}, PredicateEstimates({})),
        tuple(blocks[:-1]),
        tuple(fresh),
        NOTHING,
        **settings,
    )


def stretch(since_ts: int) -> Stretch:
    return Stretch(BEGINNING_US, since_ts, since_ts, OperatorState())


@untimed
@given(data=st.data(), times=TIMES, since=st.integers(-25, 25), rows=st.integers(1, 5))
def test_row_windows_keep_every_tuple_that_none_has_pushed_out_yet(
    data: st.DataObject, times: list[int], since: int, rows: int
) -> None:
    blocks = blocks_of(data, times)
    retained = retain_window(log_of(blocks, RowWindow(rows)), RowWindow(rows), stretch(since))
    kept = {seq for b in retained.blocks for seq in range(b.first_seq or 0, (b.first_seq or 0) + b.rows)}
    # pushed out by a tuple below the progress: no later one can meet it
    gone = {seq for seq in range(len(times) - rows) if times[seq + rows] < since}
    assert set(range(len(times))) - gone <= kept
    assert retained.query is None


@untimed
@given(times=TIMES, since=st.integers(-25, 25), rows=st.integers(1, 5))
def test_row_windows_keep_no_tuple_longer_than_needed_where_blocks_are_single_tuples(
    times: list[int], since: int, rows: int
) -> None:
    blocks = [BlockRef(f"b{i}", 1, 8, ts, ts, first_seq=i) for i, ts in enumerate(times)]
    retained = retain_window(log_of(blocks, RowWindow(rows)), RowWindow(rows), stretch(since))
    inside = [i for i in range(len(times)) if i + rows >= len(times) or times[i + rows] >= since]
    assert [block.first_seq for block in retained.blocks] == inside


@untimed
@given(
    data=st.data(),
    times=TIMES,
    since=st.integers(-25, 25),
    range_us=st.integers(0, 10),
    slide_us=st.sampled_from((None, 3)),
    is_queue=st.booleans(),
)
def test_time_windows_keep_what_later_tuples_can_reach_and_no_block_beyond(
    data: st.DataObject,
    times: list[int],
    since: int,
    range_us: int,
    slide_us: int | None,
    is_queue: bool,
) -> None:
    window = TimeWindow(range_us, slide_us)
    blocks = blocks_of(data, times)
    one: Any = log_of(blocks, window)
    if is_queue:
        one = QueueInput(Tables(), "q", side_struct("a", window), tuple(blocks), NOTHING)  # type: ignore[arg-type]
    kept = retain_window(one, window, stretch(since)).blocks
    assert list(kept) == [block for block in blocks if block.max_ts >= since - window.reach_us]


@untimed
@given(data=st.data(), times=TIMES, since=st.integers(-25, 25))
def test_without_a_window_only_what_waits_is_kept_and_all_of_an_unbounded_one(
    data: st.DataObject, times: list[int], since: int
) -> None:
    blocks = blocks_of(data, times)
    kept = retain_window(log_of(blocks, None), None, stretch(since)).blocks
    assert list(kept) == [block for block in blocks if block.max_ts >= since]
    everything = retain_window(log_of(blocks, UnboundedWindow()), UnboundedWindow(), stretch(since)).blocks
    assert list(everything) == blocks


@pytest.mark.parametrize("window", [RowWindow(1, ("k",)), UntilWindow(Expression.parse("v"))])
def test_windows_of_any_lifetimes_keep_all_blocks_until_a_copy_pays(window: Window) -> None:
    few = [BlockRef("b0", 100, 800, 0, 9, first_seq=0), BlockRef("b1", 100, 800, 10, 19, first_seq=100)]
    retained = retain_window(log_of(few, window), window, stretch(20))
    assert list(retained.blocks) == few and retained.query is None


@untimed
@given(
    range_us=st.integers(1, 20),
    slide_us=st.integers(1, 20),
    ends=st.tuples(st.integers(-60, 60), st.integers(-60, 60)),
)
def test_boundaries_that_are_due_are_the_multiples_of_the_slide_between_two_progresses(
    range_us: int, slide_us: int, ends: tuple[int, int]
) -> None:
    old, new = sorted(ends)
    first, last = due_boundaries(TimeWindow(range_us, slide_us), old, new)
    assert list(range(first, last + 1, slide_us)) == [at for at in range(old, new) if at % slide_us == 0]


@untimed
@given(slide_us=st.integers(1, 20), cuts=st.lists(st.integers(-60, 60), min_size=2, max_size=5))
def test_every_boundary_is_due_in_one_stretch(slide_us: int, cuts: list[int]) -> None:
    cuts = sorted(cuts)
    window = TimeWindow(5, slide_us)

    def due(old: int, new: int) -> list[int]:
        first, last = due_boundaries(window, old, new)
        return list(range(first, last + 1, slide_us))

    in_parts = [at for old, new in itertools.pairwise(cuts) for at in due(old, new)]
    assert in_parts == due(cuts[0], cuts[-1])


def test_boundaries_before_the_first_progress_lie_before_every_tuple() -> None:
    first, last = due_boundaries(TimeWindow(10, 4), BEGINNING_US, 9)
    assert first % 4 == 0 and first < -(10**17) and last == 8


def source(progress_ts: int, idle: bool = False) -> Rows:
    return Rows(None, 0.0, 0.0, END_US, BEGINNING_US, progress_ts, idle)


@untimed
@given(sources=st.lists(st.tuples(st.integers(-9, 9), st.booleans()), min_size=1, max_size=4))
def test_the_slowest_input_that_is_not_idle_holds_an_ordered_operator_back(
    sources: list[tuple[int, bool]],
) -> None:
    found = progress_of([source(*one) for one in sources])
    active = [progress for progress, idle in sources if not idle]
    assert found == (min(active) if active else max(progress for progress, _ in sources))


@untimed
@given(data=st.data(), times=TIMES, ends=st.tuples(st.integers(-25, 25), st.integers(-25, 25)))
def test_tuples_wait_behind_a_selection_only_if_it_has_passed_them_on(
    data: st.DataObject, times: list[int], ends: tuple[int, int]
) -> None:
    old, passed = sorted(ends)
    blocks = blocks_of(data, times)
    plain = log_of([*blocks, blocks[-1]], None)
    held = log_of([*blocks, blocks[-1]], None, passed_ts=passed, selectivity=0.5)
    assert held.waiting_rows(old) == pytest.approx(0.5 * plain.waiting_rows(old, passed))
    assert held.waiting_rows(passed) == 0
    # a spread is to a step as exact as a count
    waiting = sum(spread.rows for spread in plain.spreads(old, old, END_US))
    assert abs(waiting - plain.waiting_rows(old)) <= len(blocks)


def test_a_queue_counts_what_flows_in_by_its_share() -> None:
    come = Rows("flow", 40.0, 100.0, 0, 99, END_US, spreads=(Spread.over(10, (0, 99)),))
    block = BlockRef("b0", 10, 80, 0, 9)
    queue = QueueInput(Tables(), "q", side_struct("a", None), (block,), come)  # type: ignore[arg-type]
    spreads = queue.spreads(0, 0, END_US)
    assert sum(spread.rows for spread in spreads) == pytest.approx(10 + 40)
    assert queue.content_rows == 110
    retained = queue.retain(50)
    assert retained.blocks == () and retained.query is not None
    # what a selection lets pass is not known: none of the tuples below it may be lost for want of room
    assert retained.expected_rows == pytest.approx(50, abs=2)
    assert queue.retain(100).query is None
