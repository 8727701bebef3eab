"""Aggregate operators against the brute force, alone: any random_ticks, keys and values with nulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.oracle import brute_force as oracle
from tests.oracle.brute_force import SECOND, Results, Tuple
from tests.spark.operators.alone import (
    Alone,
    Feed,
    Tables,
    Tick,
    at_once,
    random_ticks,
    random_tuples,
    stream_input,
    values,
)
from tests.spark.operators.budget import few

from headgate.model.expression import AggregateExpression, Expression, NamedExpression
from headgate.model.operator import Aggregate
from headgate.model.window import (
    HopWindow,
    LandmarkWindow,
    RowWindow,
    SlidingRowWindow,
    TimeWindow,
    UnboundedWindow,
    UntilWindow,
    Window,
)
from headgate.spark.operators import panes, window_tuples, windowed
from headgate.spark.operators.boundaries import (
    LandmarkAggregateOperator,
    SlidingRowAggregateOperator,
    UntilAggregateOperator,
)
from headgate.spark.operators.panes import PaneAggregateOperator
from headgate.spark.operators.windowed import (
    AggregateOperator,
    RunningAggregateOperator,
    SlidingAggregateOperator,
    TupleAggregateOperator,
)

pytestmark = pytest.mark.spark

VALUE = Expression.parse("a__v")
CALLS = (
    AggregateExpression("n", "COUNT", None),
    AggregateExpression("known", "COUNT", VALUE),
    AggregateExpression("total", "SUM", VALUE),
    AggregateExpression("mean", "AVG", VALUE),
    AggregateExpression("least", "MIN", VALUE),
    AggregateExpression("most", "MAX", VALUE),
)
DIFFERENT = AggregateExpression("different", "COUNT", VALUE, distinct=True)
TYPES = {"n": "bigint", "known": "bigint", "total": "bigint", "mean": "double", "least": "int", "most": "int"}
LEAST = -1


def aggregate_of(window: Window, by_key: bool, calls: Sequence[AggregateExpression] = CALLS) -> Aggregate:
    keys = (NamedExpression("k", Expression.parse("a__k")),) if by_key else ()
    return Aggregate("agg", stream_input("a"), "s", "a", window, keys, tuple(calls))


def expected(settings: Aggregate, window: oracle.Window, feed: Feed) -> Results:
    """What the definition says; a selection applies to what the window holds."""
    value = oracle.Value("", lambda rows: rows["a"]["v"])
    calls = [
        oracle.Call(call.function, value if call.argument else None, call.distinct)
        for call in settings.aggregates
    ]
    keys = [oracle.Value("", lambda rows: rows["a"]["k"])] if settings.keys else []
    where = [oracle.Predicate("", frozenset("a"), lambda rows: feed.passes(Tuple(0, rows["a"])))]
    side = oracle.Side(oracle.Stream("s", 0, feed.tuples), "a", window)
    return oracle.evaluate(oracle.Query("q", [oracle.Aggregation(side, keys, calls, where)]))


def rounded(found: Results) -> Results:
    """Means differ in their last bits, by the order of additions."""
    return Results(
        {tuple(round(v, 9) if isinstance(v, float) else v for v in row): n for row, n in found.items()}
    )


def feeds_of(rng: Random, rows: Sequence[Tuple], window: Window, is_numbered: bool = True) -> Feed:
    """From the log or from a queue, with or without a selection below."""
    least = rng.choice((None, LEAST))
    return Feed("a", rows, window, least, rng.random() < 0.5, is_numbered)


TUPLE_WINDOWS: list[tuple[Window, oracle.Window]] = [
    (TimeWindow(2 * SECOND), oracle.last(2 * SECOND)),
    (TimeWindow(0), oracle.now()),
    (RowWindow(3), oracle.rows(3)),
    (RowWindow(2, ("k",)), oracle.partitioned("k", 2)),
]


@few(6)
def test_every_tuple_emits_its_group_over_the_window_at_that_instant(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    window, held = rng.choice(TUPLE_WINDOWS)
    calls = (*CALLS, DIFFERENT) if rng.random() < 0.5 else CALLS
    settings = aggregate_of(window, rng.random() < 0.5, calls)
    feed = feeds_of(rng, random_tuples(rng), window)
    operator = TupleAggregateOperator(settings)
    found = Alone(tiny, operator, [feed], Tables()).run(random_ticks(rng, [feed.tuples]))
    assert rounded(found) == rounded(expected(settings, held, feed))


@few(6)
def test_sliding_windows_emit_every_group_at_each_boundary(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    range_s, slide_s = rng.choice(((2, 1), (3, 2), (2, 5), (4, 4)))
    kind, held = rng.choice(((TimeWindow, oracle.sliding), (HopWindow, oracle.hopping)))
    window = kind(range_s * SECOND, slide_s * SECOND)
    calls = (*CALLS, DIFFERENT) if rng.random() < 0.5 else CALLS
    settings = aggregate_of(window, rng.random() < 0.5, calls)
    feed = feeds_of(rng, random_tuples(rng), window, is_numbered=False)
    operator = SlidingAggregateOperator(settings)
    operator.types = TYPES
    alone = Alone(tiny, operator, [feed], Tables(is_numbered=False))
    found = alone.run(random_ticks(rng, [feed.tuples], end_us=1 + operator.reach_us))
    assert rounded(found) == rounded(expected(settings, held(window.range_us, slide_s * SECOND), feed))


@few(6)
def test_running_aggregates_go_on_from_what_groups_had_come_to(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    settings = aggregate_of(UnboundedWindow(), rng.random() < 0.5)
    feed = feeds_of(rng, random_tuples(rng), UnboundedWindow())
    tables = Tables()
    operator = RunningAggregateOperator(settings, tables)  # type: ignore[arg-type]
    operator.groups = carried_struct(tiny, settings)
    alone = Alone(tiny, operator, [feed], tables)
    found = alone.run(random_ticks(rng, [feed.tuples]))
    assert rounded(found) == rounded(expected(settings, oracle.unbounded(), feed))
    # tuples that are part of a group are not needed any more
    assert not any(alone.state.blocks)


def carried_struct(spark: SparkSession, settings: Aggregate) -> StructType:
    nothing = values(Feed("a", (), UnboundedWindow()).struct, [])
    return spark.sql(windowed.aggregate.carry(settings, nothing, None)).schema


@few(4)
def test_rows_that_slide_emit_every_group_with_each_tuple_of_a_multiple(
    tiny: SparkSession, seed: int
) -> None:
    rng = Random(seed)
    number, slide = rng.choice(((4, 2), (3, 2), (2, 5), (3, 1)))
    window = SlidingRowWindow(number, slide=slide)
    calls = (*CALLS, DIFFERENT) if rng.random() < 0.5 else CALLS
    settings = aggregate_of(window, rng.random() < 0.5, calls)
    feed, tables = feeds_of(rng, random_tuples(rng), window), Tables()
    operator = SlidingRowAggregateOperator(settings, tables)  # type: ignore[arg-type]
    operator.types = TYPES
    found = Alone(tiny, operator, [feed], tables).run(random_ticks(rng, [feed.tuples]))
    assert rounded(found) == rounded(expected(settings, oracle.rows_every(number, slide), feed))


@few(4)
def test_totals_at_times_are_carried_as_one_row_per_group(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    window = LandmarkWindow(rng.choice((1, 3, 5)) * SECOND)
    settings = aggregate_of(window, rng.random() < 0.5)
    feed, tables = feeds_of(rng, random_tuples(rng), window, is_numbered=False), Tables(is_numbered=False)
    operator = LandmarkAggregateOperator(settings, tables)  # type: ignore[arg-type]
    operator.types, operator.groups = TYPES, carried_struct(tiny, settings)
    alone = Alone(tiny, operator, [feed], tables)
    found = alone.run(random_ticks(rng, [feed.tuples], end_us=1 + operator.reach_us))
    assert rounded(found) == rounded(expected(settings, oracle.landmark(window.slide_us), feed))
    assert not any(alone.state.blocks)
    assert sum(block.rows for block in alone.state.groups) <= 3


def until_value() -> oracle.Window:
    """Tuples until the second that is their value."""

    def lives(tuple_: Tuple, now: int) -> bool:
        return tuple_.row["v"] is not None and tuple_.row["v"] * SECOND >= now

    return oracle.Window(
        "", lambda came, now: [t for t in came if lives(t, now)], admits=lambda t: lives(t, t.ts)
    )


@few(4)
def test_tuples_count_until_a_time_of_their_own(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    slide_us = rng.choice((None, 2 * SECOND))
    window = UntilWindow(Expression.parse("v"), slide_us)
    settings = aggregate_of(window, rng.random() < 0.5, (*CALLS, DIFFERENT))
    feed = feeds_of(rng, random_tuples(rng), window)
    operator: AggregateOperator = TupleAggregateOperator(settings)
    if slide_us is not None:
        operator = UntilAggregateOperator(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_tuples, "_LEAST_TO_COPY", 2)
        ticks = random_ticks(rng, [feed.tuples], end_us=1 + operator.reach_us)
        found = Alone(tiny, operator, [feed], Tables()).run(ticks)
    assert rounded(found) == rounded(expected(settings, replace(until_value(), step=slide_us), feed))


@pytest.mark.parametrize("is_queue", [False, True])
def test_only_tuples_that_are_alive_are_kept(
    tiny: SparkSession, monkeypatch: pytest.MonkeyPatch, is_queue: bool
) -> None:
    monkeypatch.setattr(window_tuples, "_LEAST_TO_COPY", 4)
    # one in ten lives to the end, the others for a second
    ends = [1000 if ts % 10 == 0 else ts + 1 for ts in range(60)]
    rows = [Tuple(ts * SECOND, {"k": 1, "v": end}) for ts, end in enumerate(ends)]
    window = UntilWindow(Expression.parse("v"))
    settings = aggregate_of(window, by_key=True)
    feed = Feed("a", rows, window, is_queue=is_queue)
    alone = Alone(tiny, TupleAggregateOperator(settings), [feed], Tables())
    found = alone.run([tick for n in range(5, 61, 5) for tick in at_once([rows[:n]])])
    assert rounded(found) == rounded(expected(settings, until_value(), feed))
    # no more than twice what is alive, and what has come since
    assert alone.most_kept_tuples <= 2 * (60 // 10 + 1) + 5


# panes of 4 us in three levels: one, eight, sixty-four of them
LONG = TimeWindow(280, 4)
SPARSE = [*range(-150, 150, 7), -128, -64, -32, 0, 28, 32, 36, 256, 288]


def pane_operator(spark: SparkSession, settings: Aggregate, tables: Tables) -> PaneAggregateOperator:
    operator = PaneAggregateOperator(settings, tables)  # type: ignore[arg-type]
    operator.types = TYPES
    nothing = values(Feed("a", (), settings.window, is_numbered=False).struct, [])
    operator.panes = spark.sql(operator.fresh(nothing)).schema
    return operator


# long windows, and short ones with and without runs of panes
PANES = ((280, 4), (72, 8), (300, 40), (16, 4), (40, 40), (12, 30))


@few(8)
def test_panes_hold_every_tuple_once_at_every_boundary(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        # short windows change from tuples to panes at once, after a while, or never
        patch.setattr(panes, "LEAST_READ_AGAIN", rng.choice((0, 6, 1_000)))
        patch.setattr(panes, "_MOST_OPEN", rng.choice((2, 8)))
        check_panes(tiny, rng)


def check_panes(tiny: SparkSession, rng: Random) -> None:
    kind, held = rng.choice(((TimeWindow, oracle.sliding), (HopWindow, oracle.hopping)))
    window = kind(*rng.choice(PANES))
    settings = aggregate_of(window, rng.random() < 0.5)
    feed = feeds_of(rng, random_tuples(rng, times=SPARSE, unit_us=1), window, is_numbered=False)
    tables = Tables(is_numbered=False)
    operator = pane_operator(tiny, settings, tables)
    found = Alone(tiny, operator, [feed], tables).run(
        random_ticks(rng, [feed.tuples], end_us=1 + operator.reach_us)
    )
    assert rounded(found) == rounded(expected(settings, held(window.range_us, window.slide_us or 0), feed))


def test_panes_are_kept_in_place_of_tuples_and_dropped_behind_the_window(tiny: SparkSession) -> None:
    rows = [Tuple(ts, {"k": 1, "v": 1}) for ts in range(0, 1200, 8)]
    settings = aggregate_of(LONG, by_key=True)
    tables = Tables(is_numbered=False)
    feed = Feed("a", rows, LONG, is_numbered=False)
    alone = Alone(tiny, pane_operator(tiny, settings, tables), [feed], tables)
    found = alone.run([tick for n in (40, 90, 150) for tick in at_once([rows[:n]])])
    assert rounded(found) == rounded(expected_until(settings, feed, rows[-1].ts))
    assert alone.most_kept_tuples == 0
    # one tuple a pane: each stands in its pane, and in a run of every level that is complete
    in_reach = LONG.reach_us // 8
    blocks_begun = 50
    assert sum(block.rows for block in alone.state.groups) <= (1 + 1 / 4) * (in_reach + blocks_begun) + 8
    assert all(block.max_ts >= rows[-1].ts - LONG.reach_us for block in alone.state.groups)


def test_tuples_of_a_short_window_are_read_again_until_they_are_many(
    tiny: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panes, "LEAST_READ_AGAIN", 30)
    monkeypatch.setattr(panes, "_MOST_OPEN", 2)
    window = HopWindow(80, 80)
    # few tuples in the first windows, many in the later ones
    rows = [Tuple(ts, {"k": 1, "v": 1}) for ts in (*range(0, 160, 10), *range(160, 640))]
    settings, tables = aggregate_of(window, by_key=True), Tables(is_numbered=False)
    feed = Feed("a", rows, window, is_numbered=False)
    few = Alone(tiny, pane_operator(tiny, settings, tables), [feed], tables)
    few.run([tick for n in (4, 8, 12) for tick in at_once([rows[:n]])])
    assert not few.state.groups and few.most_kept_tuples > 0
    alone = Alone(tiny, pane_operator(tiny, settings, tables), [feed], tables)
    found = alone.run([tick for n in range(8, 489, 60) for tick in at_once([rows[:n]])])
    everything = expected(settings, oracle.hopping(80, 80), feed)
    assert rounded(found) == rounded(
        Results({row: n for row, n in everything.items() if row[0] < rows[488].ts})
    )
    # one group, at most three blocks of the pane that is open
    assert alone.state.groups and sum(block.rows for block in alone.state.groups) <= 4


def test_a_tick_that_brings_nothing_does_not_change_tuples_to_panes(
    tiny: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panes, "LEAST_READ_AGAIN", 10)
    window = HopWindow(80, 40)
    rows = [Tuple(ts, {"k": 1, "v": 1}) for ts in range(0, 160, 4)]
    settings, tables = aggregate_of(window, by_key=True), Tables(is_numbered=False)
    feed = Feed("a", rows, window, is_numbered=False)
    alone = Alone(tiny, pane_operator(tiny, settings, tables), [feed], tables)
    # the first tick leaves many to read again, and the second makes no progress
    found = alone.run([tick for n in (15, 15, 15, 40) for tick in at_once([rows[:n]])])
    everything = expected(settings, oracle.hopping(80, 40), feed)
    assert rounded(found) == rounded(
        Results({row: n for row, n in everything.items() if row[0] <= rows[-1].ts})
    )


def expected_until(settings: Aggregate, feed: Feed, last_us: int) -> Results:
    everything = expected(settings, oracle.sliding(LONG.range_us, LONG.slide_us or 0), feed)
    return Results({row: n for row, n in everything.items() if row[0] <= last_us})


@few(4)
def test_copies_of_what_is_live_by_key_are_enough(tiny: SparkSession, seed: int) -> None:
    """The latest tuples of a rare key are copied out of the log, and push on from there."""
    rng = Random(seed)
    window, held = RowWindow(2, ("k",)), oracle.partitioned("k", 2)
    settings = aggregate_of(window, by_key=True)
    feed = feeds_of(rng, random_tuples(rng), window)
    plan = random_ticks(rng, [feed.tuples])
    with pytest.MonkeyPatch.context() as patch:
        # a copy is made after every few tuples
        patch.setattr(window_tuples, "_LEAST_TO_COPY", 2)
        operator: AggregateOperator = TupleAggregateOperator(settings)
        found = Alone(tiny, operator, [feed], Tables()).run(plan)
    assert rounded(found) == rounded(expected(settings, held, feed))


@pytest.mark.parametrize("is_queue", [False, True])
def test_a_copy_holds_tuples_that_are_pushed_out_beyond_the_progress(
    tiny: SparkSession, monkeypatch: pytest.MonkeyPatch, is_queue: bool
) -> None:
    monkeypatch.setattr(window_tuples, "_LEAST_TO_COPY", 2)
    window, held = RowWindow(2, ("k",)), oracle.partitioned("k", 2)
    settings = aggregate_of(window, by_key=True)
    rows = [Tuple(ts * SECOND, {"k": 1, "v": ts}) for ts in (1, 2, 3, 4)]
    feed = Feed("a", rows, window, is_queue=is_queue)
    # all have arrived, two are processed: the third one still meets the second, which the fourth pushes out
    plan = [Tick((4,), 2 * SECOND + 1), *at_once([rows])]
    found = Alone(tiny, TupleAggregateOperator(settings), [feed], Tables()).run(plan)
    assert rounded(found) == rounded(expected(settings, held, feed))
