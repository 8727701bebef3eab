"""Blocks: tuples that outlive a tick, written once and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.spark import sql
from headgate.spark.application.cluster import processors
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.file_system import Files
from headgate.spark.manifest import BlockRef
from headgate.spark.physical_plans import MeasuredQuery, PhysicalPlans, Target
from headgate.spark.rows import QUANTILES, merged_quantiles
from headgate.spark.source_files import FileScans
from headgate.spark.sql import TS

ONE_TASK_ROWS = 50_000
"""So many tuples are the work of one task, unless they are expensive: a second one would not pay."""
# blocks live for a few ticks, so that time spent on compressing them is lost
PLAIN = {"compression": "uncompressed", "parquet.enable.dictionary": "false"}

_WIDTHS_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4}
_TEXT = ("string", "binary")
_TEXT_BYTES = 20.0
_SHARES = [place / QUANTILES for place in range(1, QUANTILES)]
# good for the quantiles, and cheap
_ACCURACY = 500


def width_bytes(schema: StructType, text_bytes: float | None = None) -> float:
    """Bytes of a tuple of these columns; texts count as measured, or else as a guess."""
    kinds = [field.dataType.typeName() for field in schema.fields]
    fixed = sum(_WIDTHS_BYTES.get(kind, 8) for kind in kinds if kind not in _TEXT)
    return fixed + (_TEXT_BYTES * sum(kind in _TEXT for kind in kinds) if text_bytes is None else text_bytes)


@dataclass(eq=False, repr=False)
class BlockStore:
    """Writes and reads blocks below the checkpoint."""

    spark: SparkSession
    _files: Files
    _checkpoint: Checkpoint

    def __post_init__(self) -> None:
        self.parallelism = processors(self.spark)
        self.plans = PhysicalPlans(self.spark)
        self.views = self.plans.views
        self._scans = FileScans(self.spark)
        self.one_task_rows = ONE_TASK_ROWS
        """Up to how many tuples are the work of one task in this tick."""

    def path(self, batch_id: int, name: str) -> str:
        """Where a block of a tick is stored."""
        return self._checkpoint.block(batch_id, name)

    def write_known(self, tuples: str | DataFrame, path: str, rows: float) -> None:
        """Store tuples that need not be measured."""
        self._save(tuples, path, rows, ())

    def write(
        self, tuples: str | DataFrame, columns: StructType, path: str, expected_rows: float, arrived_us: int
    ) -> BlockRef | None:
        """Store tuples and measure them in the same job; None if there are none."""
        found = self._save(tuples, path, expected_rows, block_measures(columns))
        block = measured_block(path, columns, found, arrived_us)
        if not block.rows:
            self._files.delete(self._checkpoint.full(path))
            return None
        return block

    def _save(
        self, tuples: str | DataFrame, path: str, rows: float, measures: Sequence[str]
    ) -> Mapping[str, Any]:
        if rows < self.one_task_rows:
            if isinstance(tuples, str):
                tuples = sql.select(["*"], tuples, hint=sql.IN_ONE_TASK)
            else:
                tuples = tuples.coalesce(1)
        measured = MeasuredQuery(self.plans, tuples, measures)
        measured.save(Target("parquet", tuple(PLAIN.items()), self._checkpoint.full(path)))
        return measured.found

    def read(self, blocks: Sequence[BlockRef], schema: StructType) -> DataFrame:
        """The tuples of several blocks as one scan."""
        for block in blocks:
            self.check(block)
        paths = [self._checkpoint.full(block.path) for block in blocks]
        return self._scans.read(schema.json(), paths, lambda: self.spark.read.schema(schema).parquet(*paths))

    def check(self, block: BlockRef) -> None:
        """Raise if a block is damaged."""
        self._checkpoint.check_block(block)

    def view(self, queue: str, blocks: Sequence[BlockRef], schema: StructType) -> str:
        """The name of a view of some blocks, or the text of a query."""

        def define(name: str) -> str:
            view = self.views.define_input(name, self.read(blocks, schema))
            if sum(block.rows for block in blocks) >= self.one_task_rows:
                return view
            return sql.select(sql.names(schema.names), view, hint=sql.IN_ONE_TASK)

        return self.views.share(queue, [block.path for block in blocks], define)

    def empty(self, schema: StructType) -> DataFrame:
        """An empty frame."""
        return self.spark.createDataFrame([], schema)


def block_measures(columns: StructType) -> list[str]:
    """Aggregates over a block's tuples from which ``measured_block`` describes it."""
    texts = [sql.name(f.name) for f in columns.fields if f.dataType.typeName() in _TEXT]
    lengths = " + ".join(f"coalesce(octet_length({column}), 0)" for column in texts) or "0"
    measures = ["count(1) AS rows", f"sum({lengths}) AS text_bytes"]
    if TS in columns.names:
        own, shares = sql.name(TS), ", ".join(map(repr, _SHARES))
        measures += [
            f"min({own}) AS min_ts",
            f"max({own}) AS max_ts",
            f"percentile_approx({own}, array({shares}), {_ACCURACY}) AS quantiles",
        ]
    return measures


def measured_block(path: str, columns: StructType, found: Mapping[str, Any], arrived_us: int) -> BlockRef:
    """A block of tuples that were measured."""
    rows = found["rows"]
    # what the tuples take, however a file happens to encode them
    size_bytes = rows * width_bytes(columns, found["text_bytes"] / rows) if rows else 0
    ends = (found["min_ts"], found["max_ts"]) if rows and TS in columns.names else ()
    return BlockRef(
        path=path,
        rows=rows,
        bytes=round(size_bytes),
        min_ts=min(ends, default=0),
        max_ts=max(ends, default=0),
        arrived_us=arrived_us,
        quantiles=tuple(sorted([*(found.get("quantiles") or ()), *ends])),
    )


Input = tuple[str, int]
"""An operator by name, and the number of one of its inputs."""

SMALL_ROWS = 50_000
FEWEST_MERGED = 16
"""Merging costs a job, so it waits for enough blocks."""


def groups_to_merge(kept: Mapping[Input, Sequence[BlockRef]]) -> list[tuple[BlockRef, ...]]:
    """Runs of small consecutive blocks of one log that all have the same readers.

    Without merging, a long window over many short ticks would be a thousand files. Tuples are copied a few
    times at most, because a block that has grown large is left alone.
    """
    readers: dict[str, set[Input]] = {}
    blocks: dict[str, BlockRef] = {}
    for reader, own in kept.items():
        for block in own:
            readers.setdefault(block.path, set()).add(reader)
            blocks[block.path] = block
    in_order = sorted(blocks.values(), key=lambda block: (block.min_ts, block.max_ts, block.path))
    runs = _runs(in_order, readers)
    return [tuple(run) for run in runs if len(run) >= FEWEST_MERGED]


def _runs(blocks: Iterable[BlockRef], readers: Mapping[str, set[Input]]) -> Iterator[list[BlockRef]]:
    run: list[BlockRef] = []
    for block in blocks:
        if run and not (_follows(run[-1], block) and readers[run[-1].path] == readers[block.path]):
            yield run
            run = []
        if block.rows >= SMALL_ROWS:
            if run:
                yield run
            run = []
            continue
        run.append(block)
    yield run


def _follows(before: BlockRef, block: BlockRef) -> bool:
    """Whether sequence numbers continue without a gap, or neither block has any."""
    if before.first_seq is None or block.first_seq is None:
        return before.first_seq is None and block.first_seq is None
    return before.end_seq == block.first_seq


def merged_block(blocks: Sequence[BlockRef], path: str) -> BlockRef:
    """The description of several blocks merged into one."""
    min_ts, max_ts = min(b.min_ts for b in blocks), max(b.max_ts for b in blocks)
    return replace(
        blocks[0],
        path=path,
        rows=sum(block.rows for block in blocks),
        bytes=sum(block.bytes for block in blocks),
        min_ts=min_ts,
        max_ts=max_ts,
        arrived_us=min(block.arrived_us for block in blocks),
        quantiles=merged_quantiles([block.spread for block in blocks], min_ts, max_ts),
        files=(),
        is_in_order=False,
    )
