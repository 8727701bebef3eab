"""Inputs that fall silent hold nothing back for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import (
    SECOND,
    Aggregation,
    Call,
    Query,
    Select,
    Side,
    Stream,
    Tuple,
    evaluate,
    last,
    rows,
)
from tests.oracle.files import stream_sql, write_stream
from tests.oracle.random_queries import WORDS, column, compare, constant
from tests.oracle.runs import difference, found_rows, query_sql

from headgate import Session

pytestmark = pytest.mark.spark

Eventually = Callable[[Callable[[], bool], float], None]
TIMEOUT_S = 180


def stream(name: str, declared: int, times: range) -> Stream:
    rng = Random(declared)
    tuples = [
        Tuple(ts * SECOND, {"ts": ts, "k": rng.randint(0, 3), "v": rng.randint(0, 9), "s": rng.choice(WORDS)})
        for ts in times
    ]
    return Stream(name, declared, tuples)


def session_on(
    spark: SparkSession, folder: Path, streams: list[Stream], queries: list[Query], idle_after: str
) -> Session:
    session = Session(spark)
    for each in streams:
        write_stream(folder / each.name, each, [], "json", "BIGINT")
        session.execute(stream_sql(each, folder / each.name, "json", "BIGINT", idle_after=idle_after))
    return session.execute("\n".join(query_sql(query) for query in queries))


def test_a_backlog_drains_after_its_input_has_stopped(
    spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    ticks = stream("ticks", 0, range(1000, 1060))
    big = Query("big", [Select([Side(ticks, "a")], [column("a", "v")], [constant("a", "v", ">", 3)])])
    by_key = Aggregation(Side(ticks, "a", rows(5)), [column("a", "k")], [Call("SUM", column("a", "v"))])
    sums = Query("sums", [by_key])
    session = session_on(spark, tmp_path, [ticks], [big, sums], idle_after="1 s")
    # at the microsecond that a tuple is at first thought to cost, a part of them
    run = session.start(tick_budget=5e-5, checkpoint=tmp_path / "checkpoint")
    try:
        eventually(lambda: run.status().backlog_tuples > 0, TIMEOUT_S)
        eventually(lambda: run.status().ticks > 1 and run.status().backlog_tuples == 0, TIMEOUT_S)
        assert run.is_running
    finally:
        run.stop()
    assert run.status().peak_backlog_tuples > 0
    for query in (big, sums):
        assert not difference(query, found_rows(run.results(query.name)))


def test_a_silent_stream_releases_the_one_it_joins(
    spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    talking, silent = stream("talking", 0, range(1000, 1040)), stream("silent", 1, range(1000, 1010))
    joined = Select(
        [Side(talking, "a", last(8 * SECOND)), Side(silent, "b", rows(6))],
        [column("a", "ts"), column("b", "ts")],
        [compare("a", "k", "=", "b", "k")],
    )
    query = Query("joined", [joined])
    session = session_on(spark, tmp_path, [talking, silent], [query], idle_after="1 s")
    run = session.start(checkpoint=tmp_path / "checkpoint")
    try:
        expected = evaluate(query).total()
        eventually(lambda: run.status().queries["joined"].rows_out >= expected, TIMEOUT_S)
        assert run.is_running
    finally:
        run.stop()
    assert not difference(query, found_rows(run.results("joined")))
