"""Row windows: every tuple leaves with the tuple that pushes it out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import Tuple
from tests.spark.operators.alone import random_tuples, side_struct, values
from tests.spark.operators.budget import few

from headgate.model.window import RowWindow
from headgate.spark import sql
from headgate.spark.application.java_classes import register_functions
from headgate.spark.operators.row_window import (
    EXPIRY,
    EXPIRY_SEQ,
    with_expiry,
    with_expiry_in_one_task,
    with_expiry_in_order,
)
from headgate.spark.sql import SEQ, TS

pytestmark = pytest.mark.spark


def leaving(rows: Sequence[Tuple], window: RowWindow) -> dict[int, tuple[int | None, int | None]]:
    """By place: when, and with which other place, each tuple leaves."""
    found: dict[int, tuple[int | None, int | None]] = {}
    for place, one in enumerate(rows):
        same = [p for p in range(place, len(rows)) if all(rows[p].row[k] == one.row[k] for k in window.keys)]
        pushed_by = same[window.rows] if len(same) > window.rows else None
        found[place] = (None, None) if pushed_by is None else (rows[pushed_by].ts, pushed_by)
    return found


def numbered(rows: Sequence[Tuple], window: RowWindow) -> str:
    listed = [
        (t.ts, place, *(t.row[key] for key in window.keys), t.row["k"], t.row["v"])
        for place, t in enumerate(rows)
    ]
    return values(side_struct("a", window), listed)


def found_in(spark: SparkSession, text: str) -> dict[int, tuple[int | None, int | None]]:
    wanted = sql.select(sql.names([SEQ, EXPIRY, EXPIRY_SEQ]), text)
    return {seq: (ts, by) for seq, ts, by in spark.sql(wanted).collect()}


@few(6)
def test_a_tuple_leaves_when_so_many_others_have_come(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    rows = random_tuples(rng)
    window = RowWindow(rng.randint(1, 4), rng.choice(((), ("k",))))
    text = numbered(rows, window)
    assert found_in(tiny, with_expiry(text, window, text)) == leaving(rows, window)
    assert found_in(tiny, with_expiry_in_order(text, window)) == leaving(rows, window)
    if not window.keys:
        register_functions(tiny)
        shuffled = sql.select(["*"], text) + f"\nDISTRIBUTE BY {sql.name(SEQ)} % 3"
        assert found_in(tiny, with_expiry_in_one_task(shuffled, window)) == leaving(rows, window)


@pytest.mark.parametrize("hint", ["BROADCAST", "SHUFFLE_HASH"])
def test_only_tuples_that_push_have_to_be_there(tiny: SparkSession, hint: str) -> None:
    window = RowWindow(2)
    rows = [Tuple(ts, {"k": 0, "v": 0}) for ts in (1, 2, 2, 3, 7)]
    late = sql.select(["*"], numbered(rows, window), [f"{sql.name(SEQ)} >= 3"])
    found = found_in(tiny, with_expiry(numbered(rows, window), window, late, hint))
    assert found == {**leaving(rows, window), 0: (None, None)}


def test_nothing_leaves_while_nothing_pushes(tiny: SparkSession) -> None:
    rows = [Tuple(ts, {"k": 0, "v": 0}) for ts in (1, 2)]
    found = found_in(tiny, with_expiry(numbered(rows, RowWindow(1)), RowWindow(1), None))
    assert found == {0: (None, None), 1: (None, None)}


def test_tuples_leave_compiled_as_they_do_interpreted(compiled: SparkSession) -> None:
    register_functions(compiled)
    window = RowWindow(1_000)
    tuples = f"SELECT id AS {sql.name(SEQ)}, id DIV 3 AS {sql.name(TS)} FROM range(0, 5000, 1, 4)"
    frame = compiled.sql(with_expiry_in_one_task(tuples, window))
    left = {seq: (ts, by) for seq, ts, by in frame.select(SEQ, EXPIRY, EXPIRY_SEQ).collect()}
    assert left == {
        seq: ((seq + 1_000) // 3, seq + 1_000) if seq + 1_000 < 5000 else (None, None) for seq in range(5000)
    }
    # an expression without code of its own would take the whole stage out of compiled code
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert re.search(r"\*\(\d+\) Project \[.*later\(", plan), plan
