"""The order of a join of three streams follows selectivities that drift; its results do not change."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import SECOND, Query, Select, Side, Stream, Tuple, last
from tests.oracle.files import stream_sql, write_stream
from tests.oracle.random_queries import WORDS, column, compare
from tests.oracle.runs import PATIENT, difference, found_rows

from headgate import Session

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
    session = Session(spark)
    cuts = range(ROWS_A_TICK, TICKS * ROWS_A_TICK, ROWS_A_TICK)
    for stream in (a, b, c):
        write_stream(tmp_path / stream.name, stream, cuts, "parquet", "TIMESTAMP")
        options = {"idle_after": PATIENT, "maxFilesPerTrigger": 1}
        session.execute(stream_sql(stream, tmp_path / stream.name, "parquet", "TIMESTAMP", **options))
    session.execute(f"CREATE QUERY abc AS {query.sql};")
    run = session.start(until_done=True)
    assert run.wait(180)
    orders = [(change.batch_id, change.after.orders["abc.join"]) for change in run.status().changes]
    before = [order for tick, order in orders if tick < SWAP]
    after = [(tick, order) for tick, order in orders if tick >= SWAP]
    assert set(before[-1][:2]) == {"b", "c"}, orders
    assert set(after[-1][1][:2]) == {"a", "b"}, orders
    assert after[-1][0] <= SWAP + 5, orders
    assert any("selectivity" in change.reason for change in run.status().changes)
    wrong = difference(query, found_rows(run.results("abc")))
    assert not wrong, wrong
