"""A job of an eddy that calls functions: reads its share of blocks, asks predicates, writes what is left."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from headgate.spark.blocks import PLAIN, BlockStore
from headgate.spark.columns import SIDE, tick_constant
from headgate.spark.eddies.assignment import Assignment, Told
from headgate.spark.eddies.layout import Layout
from headgate.spark.eddies.line import Share
from headgate.spark.eddies.parts import Parts, is_on_its_way, is_through, measured, measures
from headgate.spark.eddies.task import DONE, NEXT, NUMBER, TOLD, EddyTask
from headgate.spark.manifest import BlockRef


def run_job(
    store: BlockStore, layout: Layout, assignment: Assignment, share: Share, path: str, full_path: str
) -> tuple[Parts, Told]:
    """Run it, and say what came out; ``full_path`` is ``path`` as Spark reads it."""
    seen = Observation(f"job of {layout.eddy.name}")
    answered = _answered(_chosen(store, layout, share), layout, assignment)
    observed = answered.observe(seen, F.max(TOLD).alias("told"), *measures(layout.ways))
    observed.where(F.col(TOLD).isNull()).drop(TOLD).write.mode("overwrite").options(**PLAIN).parquet(
        full_path
    )
    found = seen.get
    parts = measured(layout.ways, found, path, share.bytes_per_tuple, share.arrived_us)
    return parts, Told.from_text(found["told"])


def finished_tuples(store: BlockStore, layout: Layout, blocks: tuple[BlockRef, ...]) -> DataFrame:
    """What has come through, as it came in."""
    through = store.read(blocks, layout.stored).where(is_through(layout.ways))
    return through.drop(DONE, NUMBER, NEXT, SIDE)


def _chosen(store: BlockStore, layout: Layout, share: Share) -> DataFrame:
    """The share's tuples and no others: a block may be shared, and may hold what is through already."""
    tuples = store.read(share.files, layout.stored)
    first, end = share.numbers
    is_new = F.col(DONE).isNull()
    own = (F.col(NUMBER) >= tick_constant(first)) & (F.col(NUMBER) < tick_constant(end))
    chosen = tuples.where((is_new & own) | is_on_its_way(layout.ways, None))
    if layout.ways.probes:
        chosen = chosen.withColumn(DONE, F.coalesce(F.col(DONE), first_history()))
    return chosen.coalesce(1).select("*", *layout.columns)


def first_history() -> Column:
    """What a tuple of a join begins with: as if it had visited the window of its own side."""
    return F.expr(f"shiftleft(1L, `{SIDE}`)")


def _answered(chosen: DataFrame, layout: Layout, assignment: Assignment) -> DataFrame:
    kept = [field.name for field in layout.stored.fields if field.name not in (DONE, NEXT)]
    task = EddyTask(assignment, layout.inputs, kept)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return chosen.mapInArrow(run, layout.answered)
