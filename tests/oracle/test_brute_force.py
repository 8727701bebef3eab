"""The brute force itself, against DuckDB and against what can be seen by eye."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import duckdb
import pytest
from tests.oracle.brute_force import (
    SECOND,
    Aggregation,
    Call,
    Current,
    Emitted,
    Query,
    Results,
    Select,
    Side,
    Stream,
    Tuple,
    Window,
    evaluate,
    landmark,
    last,
    now,
    partitioned,
    rows,
    rows_every,
    sliding,
    tumbling,
    until,
)
from tests.oracle.random_queries import WORDS, all_of, column, compare, constant, random_world

SEEDS = range(20)


def random_stream(name: str, declared: int, rng: Random) -> Stream:
    tuples = []
    for ts in sorted(rng.sample(range(100), 30)):
        row = {"ts": ts, "k": rng.choice((0, 1, None)), "v": rng.randint(0, 9), "s": rng.choice(WORDS)}
        tuples.append(Tuple(ts * SECOND, row))
    return Stream(name, declared, tuples)


# one for all tests, and one thread: starting a database takes longer than any of these queries
DATABASE = duckdb.connect(config={"threads": 1})


def in_duckdb(sql: str, *streams: Stream) -> Results:
    """``ts`` comes back in seconds."""
    for stream in streams:
        DATABASE.execute(f"CREATE OR REPLACE TABLE {stream.name} (ts BIGINT, k INT, v INT, s TEXT)")
        values = [t.row[c] for t in stream.arrivals for c in ("ts", "k", "v", "s")]
        places = ", ".join(["(?, ?, ?, ?)"] * len(stream.arrivals))
        DATABASE.execute(f"INSERT INTO {stream.name} VALUES {places}", values)
    return Counter((ts * SECOND, *rest) for ts, *rest in DATABASE.execute(sql).fetchall())


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_of_time_windows_agree_with_duckdb(seed: int) -> None:
    rng = Random(seed)
    one, two = random_stream("one", 0, rng), random_stream("two", 1, rng)
    a, b = rng.randint(0, 9), rng.randint(0, 9)
    joined = Select(
        [Side(one, "a", last(a * SECOND)), Side(two, "b", last(b * SECOND))],
        [column("a", "v"), column("b", "v")],
        [compare("a", "k", "=", "b", "k"), compare("a", "v", "<", "b", "v")],
    )
    expected = in_duckdb(
        "SELECT greatest(a.ts, b.ts), a.v, b.v FROM one a, two b WHERE a.k = b.k AND a.v < b.v "
        f"AND (b.ts >= a.ts AND b.ts - a.ts <= {a} OR a.ts >= b.ts AND a.ts - b.ts <= {b} AND a.ts <> b.ts)",
        one,
        two,
    )
    assert evaluate(Query("q", [joined])) == expected


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
@pytest.mark.parametrize("seed", SEEDS)
def test_outer_joins_of_time_windows_agree_with_duckdb(seed: int, kind: str) -> None:
    rng = Random(seed)
    one, two = random_stream("one", 0, rng), random_stream("two", 1, rng)
    a, b = rng.randint(0, 9), rng.randint(0, 9)
    on = all_of([compare("a", "k", "=", "b", "k"), compare("a", "v", "<", "b", "v")])
    sides = [Side(one, "a", last(a * SECOND)), Side(two, "b", last(b * SECOND), join=kind, on=on)]
    shown = "a" if kind in ("SEMI", "ANTI") else "ab"
    joined = Select(
        sides, [column(alias, "v") for alias in shown], [constant("a", "v", ">", 2)] if kind == "LEFT" else []
    )
    kept = "a.v > 2" if kind == "LEFT" else "TRUE"
    match = f"a.k = b.k AND a.v < b.v AND b.ts <= a.ts + {a} AND a.ts <= b.ts + {b}"
    if kind == "SEMI":
        sql = f"""SELECT min(greatest(a.ts, b.ts)), any_value(a.v) FROM one a JOIN two b ON {match}
            WHERE {kept} GROUP BY a.ts"""
    elif kind == "ANTI":
        sql = f"SELECT a.ts + {a}, a.v FROM one a ANTI JOIN two b ON {match} WHERE {kept}"
    else:
        lonely = f"WHEN b.ts IS NULL THEN a.ts + {a} WHEN a.ts IS NULL THEN b.ts + {b}"
        ts = f"CASE {lonely} ELSE greatest(a.ts, b.ts) END"
        sql = f"SELECT {ts}, a.v, b.v FROM one a {kind} JOIN two b ON {match} WHERE {kept}"
    assert evaluate(Query("q", [joined])) == in_duckdb(sql, one, two)


CHAINS = [
    "LEFT LEFT",
    "RIGHT SEMI",
    "FULL ANTI",
    "SEMI FULL",
    "ANTI LEFT",
    "INNER ANTI",
    "FULL INNER",
    "LEFT RIGHT",
]


@pytest.mark.parametrize("kinds", CHAINS)
@pytest.mark.parametrize("seed", range(5))
def test_chains_of_joins_in_windows_that_tumble_alike_agree_with_duckdb(seed: int, kinds: str) -> None:
    rng, window = Random(seed), tumbling(7 * SECOND)
    streams = [random_stream(name, place, rng) for place, name in enumerate(("one", "two", "six"))]
    hidden = [alias for alias, kind in zip("bc", kinds.split(), strict=True) if kind in ("SEMI", "ANTI")]
    shown = [alias for alias in "abc" if alias not in hidden]
    before = "a" if "b" in hidden else "b"
    ons = [
        all_of([compare("a", "k", "=", "b", "k"), compare("a", "v", "<", "b", "v")]),
        all_of([compare(before, "k", "=", "c", "k"), constant("c", "v", ">", 2)]),
    ]
    sides = [Side(streams[0], "a", window)]
    text = "one a"
    for alias, stream, kind, on in zip("bc", streams[1:], kinds.split(), ons, strict=True):
        sides.append(Side(stream, alias, window, kind, on))
        earlier = [f"{one}.ts // 7" for one in shown if one < alias]
        same = f"{alias}.ts // 7 = coalesce({', '.join(earlier)})"
        text += f" {kind} JOIN {stream.name} {alias} ON {on.sql} AND {same}"
    found = evaluate(Query("q", [Select(sides, [column(alias, "v") for alias in shown])]))
    without_time = Counter[tuple[object, ...]]()
    for row, times in found.items():
        without_time[(0, *row[1:])] += times
    assert without_time == in_duckdb(
        f"SELECT 0, {', '.join(f'{one}.v' for one in shown)} FROM {text}", *streams
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_window_by_rows_holds_in_the_end_agrees_with_duckdb(seed: int) -> None:
    stream = random_stream("one", 0, Random(seed))
    query = Current(
        Side(stream, "a", partitioned("s", 3)), [column("a", "k")], [Call("SUM", column("a", "v"))]
    )
    held = "SELECT * FROM one QUALIFY row_number() OVER (PARTITION BY s ORDER BY ts DESC) <= 3"
    expected = in_duckdb(f"SELECT max(ts), k, sum(v) FROM ({held}) GROUP BY k", stream)
    assert evaluate(Query("q", [query])) == expected


@pytest.mark.parametrize(
    ("window", "frame"),
    [
        (last(7 * SECOND), "ORDER BY ts RANGE BETWEEN 7 PRECEDING AND CURRENT ROW"),
        (now(), "ORDER BY ts RANGE BETWEEN 0 PRECEDING AND CURRENT ROW"),
        (rows(4), "ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
        (None, "ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_aggregates_at_every_tuple_agree_with_duckdb(seed: int, window: Window | None, frame: str) -> None:
    stream = random_stream("one", 0, Random(seed))
    v = column("a", "v")
    calls = [Call(name, v) for name in ("SUM", "MIN", "MAX", "AVG", "COUNT")]
    items = ", ".join(f"{name}(v) OVER w" for name in ("SUM", "MIN", "MAX", "AVG", "COUNT"))
    expected = in_duckdb(f"SELECT ts, {items} FROM one WINDOW w AS ({frame})", stream)
    assert evaluate(Query("q", [Aggregation(Side(stream, "a", window), [], calls)])) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_latest_tuples_of_every_key_agree_with_duckdb(seed: int) -> None:
    stream = random_stream("one", 0, Random(seed))
    query = Aggregation(
        Side(stream, "a", partitioned("k", 3)), [column("a", "k")], [Call("SUM", column("a", "v"))]
    )
    frame = "PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
    expected = in_duckdb(f"SELECT ts, k, sum(v) OVER ({frame}) FROM one", stream)
    assert evaluate(Query("q", [query])) == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("length", "step"), [(10, 5), (7, 3), (2, 6)])
def test_sliding_aggregates_agree_with_duckdb(seed: int, length: int, step: int) -> None:
    stream = random_stream("one", 0, Random(seed))
    v = column("a", "v")
    calls = [Call("COUNT"), Call("SUM", v), Call("COUNT", column("a", "s"), distinct=True)]
    side = Side(stream, "a", sliding(length * SECOND, step * SECOND))
    expected = in_duckdb(
        "SELECT b.at, k, count(*), sum(v), count(DISTINCT s) "
        f"FROM (SELECT unnest(range(0, 200, {step})) AS at) b, one "
        f"WHERE ts <= b.at AND b.at - ts <= {length} GROUP BY b.at, k",
        stream,
    )
    assert evaluate(Query("q", [Aggregation(side, [column("a", "k")], calls)])) == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("number", "slide"), [(10, 5), (7, 3), (2, 6)])
def test_row_windows_that_slide_agree_with_duckdb(seed: int, number: int, slide: int) -> None:
    stream = random_stream("one", 0, Random(seed))
    calls = [Call("COUNT"), Call("SUM", column("a", "v"))]
    expected = in_duckdb(
        "WITH numbered AS (SELECT *, row_number() OVER (ORDER BY ts) AS n FROM one) "
        "SELECT b.ts, a.k, count(*), sum(a.v) FROM numbered a, numbered b "
        f"WHERE b.n % {slide} = 0 AND a.n <= b.n AND a.n > b.n - {number} GROUP BY b.ts, a.k",
        stream,
    )
    side = Side(stream, "a", rows_every(number, slide))
    assert evaluate(Query("q", [Aggregation(side, [column("a", "k")], calls)])) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_totals_at_times_agree_with_duckdb(seed: int) -> None:
    stream = random_stream("one", 0, Random(seed))
    calls = [Call("COUNT"), Call("SUM", column("a", "v"))]
    times = "SELECT unnest(range(0, (SELECT max(ts) FROM one) + 7, 7)) AS b"
    for window, condition in ((landmark(7 * SECOND), "TRUE"), (until("v", 7 * SECOND), "b <= ts + v")):
        expected = in_duckdb(
            f"SELECT b, k, count(*), sum(v) FROM ({times}), one WHERE ts <= b AND {condition} GROUP BY b, k",
            stream,
        )
        query = Aggregation(Side(stream, "a", window), [column("a", "k")], calls)
        assert evaluate(Query("q", [query])) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_of_tuples_with_ends_of_their_own_agree_with_duckdb(seed: int) -> None:
    rng = Random(seed)
    one, two = random_stream("one", 0, rng), random_stream("two", 1, rng)
    joined = Select(
        [Side(one, "a", until("v")), Side(two, "b", last(3 * SECOND))],
        [column("a", "v"), column("b", "v")],
        [compare("a", "k", "=", "b", "k")],
    )
    expected = in_duckdb(
        "SELECT greatest(a.ts, b.ts), a.v, b.v FROM one a, two b "
        "WHERE a.k = b.k AND b.ts <= a.ts + a.v AND a.ts <= b.ts + 3",
        one,
        two,
    )
    assert evaluate(Query("q", [joined])) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_what_leaves_a_window_and_what_is_in_it_agree_with_duckdb(seed: int) -> None:
    stream = random_stream("one", 0, Random(seed))
    side, values = Side(stream, "a", last(7 * SECOND)), [column("a", "v")]
    leaving = Emitted([side], values)
    assert evaluate(Query("q", [leaving])) == in_duckdb("SELECT ts + 7, v FROM one", stream)
    inside = Emitted([side], values, word="RSTREAM", step=3 * SECOND)
    times = "SELECT unnest(range(0, 200, 3)) AS b"
    expected = in_duckdb(f"SELECT b, v FROM ({times}), one WHERE ts BETWEEN b - 7 AND b", stream)
    assert evaluate(Query("q", [inside])) == expected


def streams_at(*times: Sequence[int]) -> list[Stream]:
    return [
        Stream(f"s{place}", place, [Tuple(ts * SECOND, {"ts": ts}) for ts in listed])
        for place, listed in enumerate(times)
    ]


def test_a_tuple_meets_itself_in_a_self_join() -> None:
    [stream] = streams_at([1, 2])
    pairs = Select(
        [Side(stream, "a", rows(1)), Side(stream, "b", rows(1))], [column("a", "ts"), column("b", "ts")]
    )
    # as a, 2 meets the 1 that b still holds; as b it meets itself
    assert evaluate(Query("q", [pairs])) == Counter(
        [(1 * SECOND, 1, 1), (2 * SECOND, 2, 1), (2 * SECOND, 2, 2)]
    )


def test_at_one_instant_the_stream_declared_first_comes_first() -> None:
    one, two = streams_at([5, 6], [6])
    # the order in FROM is of no consequence
    pairs = Select([Side(two, "b", now()), Side(one, "a", rows(1))], [column("a", "ts"), column("b", "ts")])
    assert evaluate(Query("q", [pairs])) == Counter([(6 * SECOND, 6, 6)])


def test_a_late_tuple_is_no_part_of_the_stream() -> None:
    tuples = [Tuple(ts * SECOND, {"ts": ts}) for ts in (5, 9, 7, 6, 10)]
    stream = Stream("s", 0, tuples, watermark=2 * SECOND)
    assert [t.ts // SECOND for t in stream.late()] == [6]
    counted = Aggregation(Side(stream, "a", rows(2)), [], [Call("MIN", column("a", "ts"))])
    assert evaluate(Query("q", [counted])) == Counter(
        [(5 * SECOND, 5), (7 * SECOND, 5), (9 * SECOND, 7), (10 * SECOND, 9)]
    )


def test_most_random_queries_have_results() -> None:
    queries = [q for seed in range(5) for q in random_world(Random(seed), 19).queries]
    assert sum(1 for q in queries if evaluate(q)) > 0.8 * len(queries)
