"""Rows that a tick computes once, for jobs of several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from headgate.spark.application.java_classes import new_object
from headgate.spark.held_rows import HeldRows, LogMemory

pytestmark = pytest.mark.spark
ROWS = 40


@pytest.fixture
def memory(spark: SparkSession) -> LogMemory:
    return LogMemory(new_object(spark, "headgate.DeferredCheckpoints"))


def held(memory: LogMemory, spark: SparkSession, path: str) -> HeldRows:
    rows = memory.hold(spark.range(0, ROWS, 1, 2).selectExpr("id", "uuid() AS chance"))
    memory.put(path, rows, ROWS)
    return rows


def test_no_job_checkpoints_rows_that_others_may_read(memory: LogMemory, spark: SparkSession) -> None:
    rows = held(memory, spark, "block")
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: rows.frame.coalesce(1).collect(), range(2))
    # a job that is planned while another one ends would wait for it, and that one for the first
    assert rows.rdd().checkpointData().isEmpty() and not rows.blocks
    # what is computed once is the same for all
    assert first == second and len(first) == ROWS
    memory.keep_only(["block"])
    assert rows.rdd().isCheckpointed() and len(rows.blocks) == 2
    assert rows.frame.collect() == first


def test_rows_of_which_some_are_read_are_computed_whole(memory: LogMemory, spark: SparkSession) -> None:
    rows = held(memory, spark, "block")
    [one] = rows.frame.take(1)
    memory.keep_only(["block"])
    assert len(rows.blocks) == 2
    kept = rows.frame.collect()
    assert len(kept) == ROWS and one in kept


def test_what_no_job_has_read_is_not_computed(memory: LogMemory, spark: SparkSession) -> None:
    unread, dropped = held(memory, spark, "unread"), held(memory, spark, "dropped")
    dropped.frame.collect()
    memory.keep_only(["unread"])
    assert not unread.blocks and not unread.rdd().isCheckpointed()
    assert "dropped" not in memory and not dropped.blocks
    assert memory.get("unread").rows is unread
    memory.keep_only([])
    assert "unread" not in memory
