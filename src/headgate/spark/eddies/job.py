"""A job of an eddy: reads its share of blocks, asks the predicates, writes what is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from headgate.spark.blocks import PLAIN, BlockStore
from headgate.spark.columns import TS, tick_constant
from headgate.spark.eddies.assignment import Assignment, Told
from headgate.spark.eddies.layout import Layout
from headgate.spark.eddies.line import Share
from headgate.spark.eddies.task import DONE, NUMBER, TOLD, EddyTask
from headgate.spark.manifest import BlockRef


@dataclass(frozen=True)
class Done:
    """A job that has ended."""

    finished: BlockRef | None
    left: BlockRef | None
    told: Told


def run_job(
    store: BlockStore, layout: Layout, assignment: Assignment, share: Share, path: str, full_path: str
) -> Done:
    """Run it, and say what came out; ``full_path`` is ``path`` as Spark reads it."""
    measured = Observation(f"job of {layout.eddy.name}")
    answered = _answered(_chosen(store, layout, share), layout, assignment)
    is_through = F.col(DONE) == layout.full
    is_left = F.col(DONE) != layout.full
    observed = answered.observe(
        measured,
        F.max(TOLD).alias("told"),
        *_measures("through", is_through),
        *_measures("left", is_left),
    )
    observed.where(F.col(TOLD).isNull()).drop(TOLD).write.mode("overwrite").options(**PLAIN).parquet(
        full_path
    )
    found = measured.get
    bytes_per_tuple = sum(block.bytes for block in share.blocks) / share.rows
    arrived_us = min(block.arrived_us for block in share.blocks)

    def block(part: str) -> BlockRef | None:
        if not found[f"{part}_rows"]:
            return None
        return BlockRef(
            path=path,
            rows=found[f"{part}_rows"],
            bytes=round(found[f"{part}_rows"] * bytes_per_tuple),
            min_ts=found[f"{part}_min"],
            max_ts=found[f"{part}_max"],
            arrived_us=arrived_us,
        )

    return Done(block("through"), block("left"), Told.from_text(found["told"]))


def finished_tuples(store: BlockStore, layout: Layout, blocks: tuple[BlockRef, ...]) -> DataFrame:
    """What has come through, as it came in."""
    through = store.read(blocks, layout.stored).where(F.col(DONE) == layout.full)
    return through.drop(DONE, NUMBER)


def _chosen(store: BlockStore, layout: Layout, share: Share) -> DataFrame:
    """The share's tuples and no others: a block may be shared, and may hold what is through already."""
    paths = list({block.path: block for block in share.blocks}.values())
    tuples = store.read(paths, layout.stored)
    first, end = share.numbers
    is_new = F.col(DONE).isNull()
    own = (F.col(NUMBER) >= tick_constant(first)) & (F.col(NUMBER) < tick_constant(end))
    chosen = tuples.where((is_new & own) | (F.col(DONE) != layout.full))
    return chosen.coalesce(1).select("*", *layout.columns)


def _answered(chosen: DataFrame, layout: Layout, assignment: Assignment) -> DataFrame:
    kept = [field.name for field in layout.stored.fields if field.name != DONE]
    task = EddyTask(assignment, layout.inputs, kept)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return chosen.mapInArrow(run, layout.answered)


def _measures(part: str, condition: Column) -> list[Column]:
    return [
        F.count_if(condition).alias(f"{part}_rows"),
        F.min(F.when(condition, F.col(TS))).alias(f"{part}_min"),
        F.max(F.when(condition, F.col(TS))).alias(f"{part}_max"),
    ]
