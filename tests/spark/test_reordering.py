"""The order of a join follows its selectivities; whatever it is, results are those of the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import SECOND, Query, Select, Side, Stream, Tuple, last
from tests.oracle.files import stream_sql, write_stream
from tests.oracle.random_queries import WORDS, column, compare
from tests.oracle.runs import PATIENT, difference, found_rows

from headgate import Session
from headgate.model.join_order import JoinOrder
from headgate.session.handle import Run

pytestmark = pytest.mark.spark

TICKS, ROWS_A_TICK = 15, 24
SWAP = 7


def drifting(name: str, place: int) -> Stream:
    """Keys of a and b meet often, values of b and c seldom; half-way it is the other way round."""
    rng = Random(place)
    tuples = []
    for number in range(TICKS * ROWS_A_TICK):
        keys, values = (2, 20) if number < SWAP * ROWS_A_TICK else (20, 2)
        ts = 1000 * SECOND + number * SECOND // 4 + place
        row = {"ts": ts, "k": rng.randrange(keys), "v": rng.randrange(values), "s": rng.choice(WORDS)}
        tuples.append(Tuple(ts, row))
    return Stream(name, place, tuples)


def run_over(
    spark: SparkSession,
    folder: Path,
    streams: Sequence[Stream],
    query: Query,
    ticks: int,
    orders: Mapping[str, Sequence[object]] | None = None,
) -> Run:
    """Run a query over files of these streams, one of each per tick."""
    session = Session(spark)
    for stream in streams:
        rows = len(stream.arrivals)
        cuts = range(rows // ticks, rows, rows // ticks)
        write_stream(folder / stream.name, stream, cuts, "parquet", "TIMESTAMP")
        options = {"idle_after": PATIENT, "maxFilesPerTrigger": 1}
        session.execute(stream_sql(stream, folder / stream.name, "parquet", "TIMESTAMP", **options))
    session.execute(f"CREATE QUERY {query.name} AS {query.sql};")
    run = session.start(until_done=True, orders=orders)
    assert run.wait(180)
    return run


def test_the_plan_changes_within_five_ticks_and_the_results_are_the_oracles(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b, c = (drifting(name, place) for place, name in enumerate("abc"))
    sides = [Side(stream, stream.name, last(3 * SECOND)) for stream in (a, b, c)]
    joined = Select(
        sides,
        [column(side.alias, "v") for side in sides],
        [compare("a", "k", "=", "b", "k"), compare("b", "v", "=", "c", "v")],
    )
    query = Query("abc", [joined])
    run = run_over(spark, tmp_path, (a, b, c), query, TICKS)
    orders = [(change.batch_id, change.after.orders["abc.join"]) for change in run.status().changes]
    before = [order for tick, order in orders if tick < SWAP]
    after = [(tick, order) for tick, order in orders if tick >= SWAP]
    assert set(before[-1][:2]) == {"b", "c"}, orders
    assert set(after[-1][1][:2]) == {"a", "b"}, orders
    assert after[-1][0] <= SWAP + 5, orders
    assert any("selectivity" in change.reason for change in run.status().changes)
    wrong = difference(query, found_rows(run.results("abc")))
    assert not wrong, wrong


def chained(name: str, place: int, keys: int, values: int, ticks: int, per_s: int = 4) -> Stream:
    rng = Random(place)
    tuples = []
    for number in range(ticks * ROWS_A_TICK * per_s // 4):
        ts = 1000 * SECOND + number * SECOND // per_s + place
        row = {"ts": ts, "k": rng.randrange(keys), "v": rng.randrange(values), "s": rng.choice(WORDS)}
        tuples.append(Tuple(ts, row))
    return Stream(name, place, tuples)


def chain_of_four() -> tuple[list[Stream], Query]:
    """Few tuples of a and b match, and of c and d, but every other one of b and c."""
    streams = [chained(name, place, keys=12, values=2, ticks=7) for place, name in enumerate("abcd")]
    sides = [Side(stream, stream.name, last(3 * SECOND)) for stream in streams]
    links = (("a", "k", "b", "k"), ("b", "v", "c", "v"), ("c", "k", "d", "k"))
    joined = Select(
        sides,
        [column(side.alias, "v") for side in sides],
        [compare(one, key, "=", other, other_key) for one, key, other, other_key in links],
    )
    return streams, Query("four", [joined])


def test_a_bushy_plan_is_chosen_where_it_is_cheaper_and_gives_the_oracles_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams, query = chain_of_four()
    run = run_over(spark, tmp_path, streams, query, ticks=7)
    orders = [change.after.orders["four.join"] for change in run.status().changes]
    assert orders and orders[-1] == ("a", "b", ("c", "d")), orders
    wrong = difference(query, found_rows(run.results("four")))
    assert not wrong, wrong


@pytest.mark.parametrize(
    "order", [["a", "c", "b", "d"], ["d", "a", ["c", "b"]], ["b", ["d", ["a", "c"]]]], ids=str
)
def test_cross_products_at_any_step_give_the_oracles_results(
    spark: SparkSession, tmp_path: Path, order: Sequence[object]
) -> None:
    streams, query = chain_of_four()
    run = run_over(spark, tmp_path, streams, query, 7, {"four": order})
    # once there are statistics
    assert {change.after.orders["four.join"] for change in run.status().changes} == {JoinOrder.of(order)}
    wrong = difference(query, found_rows(run.results("four")))
    assert not wrong, wrong


def test_a_cross_product_of_small_windows_is_chosen_where_it_is_cheaper(
    spark: SparkSession, tmp_path: Path
) -> None:
    # b has forty times the tuples of a and c, and matches half of what their windows hold
    streams = [chained("a", 0, 2, 2, 8, 1), chained("b", 1, 2, 2, 8, 40), chained("c", 2, 2, 2, 8, 1)]
    sides = [Side(stream, stream.name, last(2 * SECOND)) for stream in streams]
    joined = Select(
        sides,
        [column(side.alias, "v") for side in sides],
        [compare("a", "k", "=", "b", "k"), compare("b", "v", "=", "c", "v")],
    )
    query = Query("abc", [joined])
    run = run_over(spark, tmp_path, streams, query, ticks=8)
    orders = [change.after.orders["abc.join"] for change in run.status().changes]
    assert orders and set(orders[-1][:2]) == {"a", "c"}, orders
    wrong = difference(query, found_rows(run.results("abc")))
    assert not wrong, wrong
