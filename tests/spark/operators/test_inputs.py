"""Inputs of operators: what waits and what comes, between any two timestamps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import Tuple
from tests.spark.operators.alone import Feed, Tables, random_tuples
from tests.spark.operators.budget import few

from headgate.model.window import RowWindow
from headgate.spark.operators.inputs import QueueInput, TickInput
from headgate.spark.sql import BEGINNING_US, END_US, SEQ, TS

pytestmark = pytest.mark.spark

EDGES = [BEGINNING_US, *range(-7, 8), END_US]


def in_halves(feed: Feed, tables: Tables) -> tuple[TickInput, list[Tuple], list[Tuple]]:
    """An input that keeps the first half of its tuples from before; both halves, as they pass selections."""
    half, whole = len(feed.tuples) // 2, len(feed.tuples)
    kept = [t for t in feed.tuples[:half] if feed.passes(t)]
    new = [t for t in feed.tuples[half:] if feed.passes(t)]
    one: TickInput
    if feed.is_queue:
        rows = [(t.ts, t.row["k"], t.row["v"]) for t in kept]
        block = tables.put(feed.struct, rows)
        blocks = () if block is None else (block,)
        one = QueueInput(tables, "q", feed.struct, blocks, feed.flowing(half, whole))  # type: ignore[arg-type]
    else:
        before = feed.log(tables, (), 0, half, selected=True)
        one = feed.log(tables, before.fresh, half, whole, selected=True)
    return one, kept, new


def read(spark: SparkSession, query: str | None) -> Counter[tuple[Any, ...]]:
    return Counter() if query is None else Counter(tuple(row) for row in spark.sql(query).collect())


def rows_of(found: Sequence[Tuple]) -> Counter[tuple[Any, ...]]:
    return Counter((t.ts, t.row["k"], t.row["v"]) for t in found)


@few(8)
def test_an_input_gives_its_tuples_between_two_timestamps(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    found, is_queue, least = random_tuples(rng, unit_us=1), rng.random() < 0.5, rng.choice((None, 0))
    ends, progress = rng.choices(EDGES, k=2), rng.choices(EDGES, k=2)
    feed = Feed("a", found, None, least, is_queue, is_numbered=False)
    one, kept, new = in_halves(feed, Tables(is_numbered=False))
    (low, high), (old, upto) = sorted(ends), sorted(progress)
    inside = [t for t in (*kept, *new) if low <= t.ts < high]
    assert read(tiny, one.content(low, high)) == rows_of(inside)
    waiting = [t for t in kept if t.ts >= old] + new
    taken = [t for t in waiting if t.ts < upto and low <= t.ts < high]
    assert read(tiny, one.taken(old, upto, low, high)) == rows_of(taken)


@few(6)
def test_what_an_input_retains_holds_everything_from_a_timestamp_on(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    found, from_ts, is_queue = random_tuples(rng, unit_us=1), rng.choice(EDGES), rng.random() < 0.5
    feed = Feed("a", found, None, None, is_queue, is_numbered=False)
    tables = Tables(is_numbered=False)
    one, kept, new = in_halves(feed, tables)
    retained = one.retain(from_ts)
    again = feed.log(tables, retained.blocks, 0, 0, selected=True)
    stored = read(tiny, retained.query)
    if is_queue:
        blocks = QueueInput(tables, "q", feed.struct, retained.blocks, feed.flowing(0, 0))  # type: ignore[arg-type]
        stored += read(tiny, blocks.content(from_ts, END_US))
    else:
        stored += read(tiny, again.content(from_ts, END_US))
    assert stored == rows_of([t for t in (*kept, *new) if t.ts >= from_ts])


def test_a_log_brings_numbers_and_window_keys_where_a_window_needs_them(tiny: SparkSession) -> None:
    rows = [Tuple(ts, {"k": ts % 2, "v": ts}) for ts in range(4)]
    feed = Feed("a", rows, RowWindow(2, ("k",)), least=2)
    one = feed.log(Tables(), (), 0, 4, selected=True)
    frame = tiny.sql(one.content(BEGINNING_US, END_US) or "")
    assert frame.columns == [TS, SEQ, "$key0", "a__k", "a__v"]
    assert Counter(map(tuple, frame.collect())) == {(2, 2, 0, 0, 2): 1, (3, 3, 1, 1, 3): 1}


def test_blocks_out_of_range_are_not_read() -> None:
    rows = [Tuple(ts, {"k": 0, "v": 0}) for ts in range(10, 20)]
    one, _, _ = in_halves(Feed("a", rows, None, is_numbered=False), Tables(is_numbered=False))
    assert one.content(BEGINNING_US, 10) is None
    assert one.content(20, END_US) is None
    assert one.is_small and one.content_rows == 10
