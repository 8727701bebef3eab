"""Window joins against the brute force, alone: any windows, any random_ticks, any way to run them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle import brute_force as oracle
from tests.oracle.brute_force import SECOND, Results, Tuple
from tests.spark.operators.alone import (
    COLUMNS,
    Alone,
    Feed,
    Tables,
    at_once,
    random_ticks,
    random_tuples,
    side_struct,
    stream_input,
    values,
)
from tests.spark.operators.budget import few

from headgate.model.expression import Expression, column_of
from headgate.model.join_order import JoinOrder
from headgate.model.joins import JoinSide, WindowJoin, WindowUpdate
from headgate.model.window import HopWindow, RowWindow, TimeWindow, Window
from headgate.planning.join_order.plans import bushy_plans
from headgate.planning.join_order.problem import JoinInput as PlannedInput
from headgate.planning.join_order.problem import JoinProblem
from headgate.planning.join_order.search import Choice
from headgate.spark import sql
from headgate.spark.operators.row_window import with_expiry
from headgate.spark.operators.window_join import BROADCAST_ROWS, SideQuery, Tasks, bucket_us, window_join
from headgate.spark.operators.windowed import WindowJoinOperator, WindowUpdateOperator

pytestmark = pytest.mark.spark

WINDOWS: list[tuple[Window, oracle.Window]] = [
    (TimeWindow(2 * SECOND), oracle.last(2 * SECOND)),
    (TimeWindow(0), oracle.now()),
    (TimeWindow(3 * SECOND, 2 * SECOND), oracle.sliding(3 * SECOND, 2 * SECOND)),
    (RowWindow(2), oracle.rows(2)),
    (RowWindow(1, ("k",)), oracle.partitioned("k", 1)),
    (HopWindow(3 * SECOND, 3 * SECOND), oracle.tumbling(3 * SECOND)),
]
TIME_WINDOWS = WINDOWS[:3]
# buckets are ten windows wide: tuples on both sides of their edges, below zero too
NEAR_EDGES = [edge + step for edge in (-20, 20) for step in (-2, -1, 0, 1, 2)]

Pairs = Sequence[tuple[Window, oracle.Window]]


def join_of(windows: Pairs, streams: Sequence[str]) -> WindowJoin:
    """Sides a, b, ... with equal keys in a chain."""
    aliases = "abcd"[: len(windows)]
    sides = [
        JoinSide(stream_input(alias, stream), alias, stream, window, (streams.index(stream), place))
        for place, (alias, stream, (window, _)) in enumerate(zip(aliases, streams, windows, strict=True))
    ]
    matches = []
    for one, other in itertools.pairwise(aliases):
        left, right = column_of(one, "k"), column_of(other, "k")
        matches.append(Expression.parse(f"{left} = {right}"))
    return WindowJoin("join", tuple(sides), tuple(matches))


def expected(windows: Pairs, streams: Sequence[str], sides: Sequence[Sequence[Tuple]]) -> Results:
    aliases = "abcd"[: len(windows)]
    declared = [
        oracle.Side(oracle.Stream(stream, streams.index(stream), rows), alias, window)
        for alias, stream, rows, (_, window) in zip(aliases, streams, sides, windows, strict=True)
    ]
    matches = [
        oracle.Predicate("", frozenset((one, other)), _equal(one, other))
        for one, other in itertools.pairwise(aliases)
    ]
    items = [oracle.Value("", _column(alias, c)) for alias in aliases for c in COLUMNS]
    return oracle.evaluate(oracle.Query("q", [oracle.Select(declared, items, matches)]))


def _equal(one: str, other: str) -> Callable[[oracle.Combination], bool | None]:
    def holds(rows: oracle.Combination) -> bool | None:
        left, right = rows[one]["k"], rows[other]["k"]
        return None if left is None or right is None else left == right

    return holds


def _column(alias: str, name: str) -> Callable[[oracle.Combination], Any]:
    return lambda rows: rows[alias][name]


def passing(feed: Feed) -> list[Tuple]:
    """The tuples behind the selection of a feed."""
    return [tuple_ for tuple_ in feed.tuples if feed.passes(tuple_)]


@few(8)
def test_any_ticks_give_what_the_windows_hold_at_every_instant(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    windows = rng.choices(WINDOWS, k=2)
    streams = rng.choice((["s", "t"], ["s", "s"]))
    one = random_tuples(rng)
    sides = [one, one if streams[0] == streams[1] else random_tuples(rng)]
    feeds = [
        Feed(alias, rows, window, stream=stream)
        for alias, rows, stream, (window, _) in zip("ab", sides, streams, windows, strict=True)
    ]
    alone = Alone(tiny, WindowJoinOperator(join_of(windows, streams)), feeds, Tables({*streams}))
    assert alone.run(random_ticks(rng, sides)) == expected(windows, streams, sides)


@few(6)
def test_selections_below_a_window_do_not_make_it_reach_further_back(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    windows = rng.choices(WINDOWS, k=2)
    sides = [random_tuples(rng), random_tuples(rng)]
    feeds = [
        Feed("a", sides[0], windows[0][0], least=0, is_queue=rng.random() < 0.5),
        Feed("b", sides[1], windows[1][0], stream="t"),
    ]
    join = WindowJoinOperator(join_of(windows, ["s", "t"]))
    found = Alone(tiny, join, feeds, Tables(("s", "t"))).run(random_ticks(rng, sides))
    # a.k, a.v, b.k, b.v: the selection applies to what the window over the declared stream holds
    wanted = expected(windows, ["s", "t"], sides)
    passed = {row: n for row, n in wanted.items() if row[2] is not None and row[2] >= 0}
    assert found == Counter(passed)


WAYS = {
    "everything at once": {"old_rows": 0.0, "new_rows": 1e6},
    "few new tuples broadcast to the old ones": {"old_rows": 1e6, "new_rows": 10.0},
    "new tuples shuffled to the old ones": {"old_rows": 1e9, "new_rows": 1e6},
}


@few(4)
def test_every_way_to_run_a_join_gives_the_same_rows(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    number = rng.choice((2, 3))
    windows = rng.choices(TIME_WINDOWS, k=number)
    streams = ["s", "t", "u"][:number]
    sides = [random_tuples(rng, times=NEAR_EDGES) for _ in streams]
    old = rng.choice([t.ts for side in sides for t in side])
    operator = join_of(windows, streams)
    wanted = Counter({row: n for row, n in expected(windows, streams, sides).items() if row[0] >= old})
    texts = [
        values(side_struct(alias, None), [(t.ts, t.row["k"], t.row["v"]) for t in side])
        for alias, side in zip("abc", sides, strict=False)
    ]
    users = [tuple(column_of(alias, c) for c in COLUMNS) for alias in "abc"[:number]]
    order = rng.choice((None, JoinOrder(rng.sample("abc"[:number], number))))
    for way, counts in WAYS.items():
        inputs = [SideQuery(text, user, **counts) for text, user in zip(texts, users, strict=True)]
        for tasks in Tasks:
            text = window_join(operator, inputs, sql.Bound(old), order, tasks)
            found = Counter(tuple(row) for row in tiny.sql(text).collect())
            assert found == wanted, f"{way}, {tasks=}"


@few(2)
def test_every_plan_of_four_streams_gives_the_same_rows(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    windows, streams, aliases = rng.choices(TIME_WINDOWS, k=4), list("stuv"), "abcd"
    sides = [random_tuples(rng, times=NEAR_EDGES) for _ in streams]
    old = rng.choice([t.ts for side in sides for t in side])
    operator = join_of(windows, streams)
    wanted = Counter({row: n for row, n in expected(windows, streams, sides).items() if row[0] >= old})
    texts = [
        values(side_struct(alias, None), [(t.ts, t.row["k"], t.row["v"]) for t in side])
        for alias, side in zip(aliases, sides, strict=True)
    ]
    users = [tuple(column_of(alias, c) for c in COLUMNS) for alias in aliases]
    problem = JoinProblem(
        "q", tuple(PlannedInput(a, s, 1.0, RowWindow(1)) for a, s in zip(aliases, streams, strict=True))
    )
    plans = Choice(problem, bushy_plans(4))
    orders = [candidate.order for candidate in plans.candidates(plans.whole, 1.0)]
    assert len(orders) == 15
    for order in orders:
        counts = {"old_rows": rng.choice((0.0, 10.0, 1e6)), "new_rows": rng.choice((10.0, 1e6))}
        inputs = [SideQuery(text, user, **counts) for text, user in zip(texts, users, strict=True)]
        tasks = rng.choice((Tasks.MANY, Tasks.MANY, Tasks.ONE))
        text = window_join(operator, inputs, sql.Bound(old), order, tasks)
        found = Counter(tuple(row) for row in tiny.sql(text).collect())
        assert found == wanted, f"{order}, {counts}, {tasks}"


@pytest.mark.parametrize("rows", [10.0, 1e6])
def test_a_cross_product_sends_a_small_window_to_every_task_and_no_large_one(
    tiny: SparkSession, rows: float
) -> None:
    windows = [TIME_WINDOWS[0]] * 3
    operator = join_of(windows, ["s", "t", "u"])
    inputs = [
        SideQuery(
            values(side_struct(alias, None), [(0, 1, 1)]),
            tuple(column_of(alias, c) for c in COLUMNS),
            old_rows=0.0,
            new_rows=rows if alias == "c" else 1e6,
        )
        for alias in "abc"
    ]
    plan = tiny.sql(window_join(operator, inputs, sql.Bound(0), JoinOrder("acb")))._jdf.queryExecution()
    physical = plan.executedPlan().toString()
    assert ("BroadcastNestedLoopJoin" in physical) == (rows <= BROADCAST_ROWS)
    assert "SortMergeJoin" not in physical and "Cartesian" not in physical


@few(4)
def test_parts_of_row_windows_give_the_same_rows_as_the_whole(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    windows = [WINDOWS[3], rng.choice(WINDOWS[2:])]
    sides = [random_tuples(rng), random_tuples(rng)]
    old = rng.choice([t.ts for side in sides for t in side])
    operator = join_of(windows, ["s", "t"])
    wanted = Counter({row: n for row, n in expected(windows, ["s", "t"], sides).items() if row[0] >= old})
    texts = []
    for alias, side, (window, _) in zip("ab", sides, windows, strict=True):
        keys = window.keys if isinstance(window, RowWindow) else ()
        rows = [
            (t.ts, i, *(t.row[key] for key in keys), *(t.row[c] for c in COLUMNS)) for i, t in enumerate(side)
        ]
        text = values(side_struct(alias, window), rows)
        texts.append(with_expiry(text, window, text) if isinstance(window, RowWindow) else text)
    for way, counts in WAYS.items():
        inputs = [
            SideQuery(text, tuple(column_of(alias, c) for c in COLUMNS), **counts)
            for alias, text in zip("ab", texts, strict=True)
        ]
        text = window_join(operator, inputs, sql.Bound(old))
        assert Counter(tuple(row) for row in tiny.sql(text).collect()) == wanted, way


def test_time_buckets_are_wide_enough_for_every_window_and_absent_beside_row_windows() -> None:
    widest = TimeWindow(3 * SECOND, 2 * SECOND)
    timed = join_of([(widest, oracle.now()), TIME_WINDOWS[1]], ["s", "t"])
    assert (bucket_us(timed) or 0) >= 2 * widest.reach_us
    short = join_of([TIME_WINDOWS[1], TIME_WINDOWS[1]], ["s", "t"])
    assert bucket_us(short) is not None
    assert bucket_us(join_of([WINDOWS[3], TIME_WINDOWS[0]], ["s", "t"])) is None


@pytest.mark.parametrize("is_first_late", [False, True])
def test_tuples_meet_across_the_edges_of_time_buckets(tiny: SparkSession, is_first_late: bool) -> None:
    windows = [TIME_WINDOWS[0]] * 2
    operator = join_of(windows, ["s", "t"])
    width = bucket_us(operator) or 0
    edges = [n * width for n in (-2, -1, 0, 1, 2)]
    around = [[edge - 1 for edge in edges], edges]
    sides = [[Tuple(ts, {"k": 1, "v": 0}) for ts in times] for times in around]
    if is_first_late:
        sides.reverse()
    inputs = [
        SideQuery(
            values(side_struct(alias, None), [(t.ts, t.row["k"], t.row["v"]) for t in side]),
            tuple(column_of(alias, c) for c in COLUMNS),
            old_rows=0,
            new_rows=1e6,
        )
        for alias, side in zip("ab", sides, strict=True)
    ]
    text = window_join(operator, inputs, sql.Bound(edges[0] - 1))
    found = Counter(tuple(row) for row in tiny.sql(text).collect())
    assert found == expected(windows, ["s", "t"], sides) and found.total() == len(edges)


@pytest.mark.parametrize("is_queue", [False, True])
def test_tuples_that_do_not_pass_a_selection_push_others_out_all_the_same(
    tiny: SparkSession, is_queue: bool
) -> None:
    windows = [WINDOWS[3], TIME_WINDOWS[1]]
    # the window over s holds two tuples: one of those that pass is pushed out by one that does not
    sides = [
        [Tuple(ts * SECOND, {"k": 1, "v": v}) for ts, v in ((1, 1), (2, 2), (3, -1))],
        [Tuple(4 * SECOND, {"k": 1, "v": 0})],
    ]
    feeds = [
        Feed("a", sides[0], windows[0][0], least=0, is_queue=is_queue),
        Feed("b", sides[1], windows[1][0], stream="t"),
    ]
    join = WindowJoinOperator(join_of(windows, ["s", "t"]))
    found = Alone(tiny, join, feeds, Tables(("s", "t"))).run(at_once(sides))
    assert found == {(4 * SECOND, 1, 2, 1, 0): 1}


def test_a_tuple_of_the_earlier_declared_stream_comes_first_at_one_instant(
    tiny: SparkSession,
) -> None:
    windows = [(RowWindow(1), oracle.rows(1))] * 2
    # at 5 s, t's tuple meets the new tuple of s and not the one that it has pushed out
    sides = [
        [Tuple(1 * SECOND, {"k": 1, "v": 1}), Tuple(5 * SECOND, {"k": 1, "v": 2})],
        [Tuple(5 * SECOND, {"k": 1, "v": 3})],
    ]
    feeds = [Feed("a", sides[0], windows[0][0]), Feed("b", sides[1], windows[1][0], stream="t")]
    join = WindowJoinOperator(join_of(windows, ["s", "t"]))
    found = Alone(tiny, join, feeds, Tables(("s", "t"))).run(at_once(sides))
    assert found == {(5 * SECOND, 1, 2, 1, 3): 1}


@few(4)
def test_a_window_update_passes_every_tuple_on_once_with_nulls_for_the_other_sides(
    tiny: SparkSession, seed: int
) -> None:
    rng = Random(seed)
    sides = [random_tuples(rng), random_tuples(rng)]
    window = TimeWindow(2 * SECOND)
    feeds = [
        Feed("a", sides[0], window, least=0, is_queue=True, is_numbered=False),
        Feed("b", sides[1], window, is_queue=True, is_numbered=False, stream="t"),
    ]
    joined = join_of([WINDOWS[0], WINDOWS[0]], ["s", "t"])
    alone = Alone(
        tiny,
        WindowUpdateOperator(WindowUpdate("update", joined.sides)),
        feeds,
        Tables(("s", "t"), is_numbered=False),
    )
    found = alone.run(random_ticks(rng, sides))
    wanted = Counter((t.ts, 0, t.row["k"], t.row["v"], None, None) for t in passing(feeds[0]))
    wanted.update((t.ts, 1, None, None, t.row["k"], t.row["v"]) for t in sides[1])
    assert found == wanted


def test_windows_of_time_keep_no_more_than_they_hold(tiny: SparkSession) -> None:
    side = [Tuple(i * SECOND, {"k": 1, "v": i}) for i in range(30)]
    window, held = WINDOWS[0]
    feeds = [Feed("a", side, window), Feed("b", side, window, stream="t")]
    join = WindowJoinOperator(join_of([(window, held)] * 2, ["s", "t"]))
    alone = Alone(tiny, join, feeds, Tables(("s", "t")))
    plan = [t for n in range(6, 31, 6) for t in at_once([side[:n], side[:n]])]
    assert alone.run(plan).total() > 0
    # blocks of six tuples: what is inside two seconds may reach into the block before
    assert alone.most_kept_tuples <= 2 * 12
