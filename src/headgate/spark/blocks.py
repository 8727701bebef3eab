"""Blocks: tuples that outlive a tick, written once and never changed."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.spark import sql
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.cluster import processors
from headgate.spark.columns import TS
from headgate.spark.files import Files
from headgate.spark.manifest import BlockRef
from headgate.spark.spread import QUANTILES
from headgate.spark.views import Views

# fewer tuples than this are not worth more than one file
_ONE_FILE_ROWS = 50_000
# blocks live for a few ticks: time spent on making them small is lost
PLAIN = {"compression": "uncompressed", "parquet.enable.dictionary": "false"}

_WIDTHS_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4}
_TEXT = ("string", "binary")
_TEXT_BYTES = 20.0
_SHARES = [place / QUANTILES for place in range(1, QUANTILES)]
# good for the quantiles, and cheap
_ACCURACY = 500


def width_bytes(schema: StructType, text_bytes: float | None = None) -> float:
    """What a tuple of these columns takes; of texts, what is known or else a guess."""
    kinds = [field.dataType.typeName() for field in schema.fields]
    fixed = sum(_WIDTHS_BYTES.get(kind, 8) for kind in kinds if kind not in _TEXT)
    return fixed + (_TEXT_BYTES * sum(kind in _TEXT for kind in kinds) if text_bytes is None else text_bytes)


class BlockStore:
    """Writes and reads blocks below the checkpoint."""

    def __init__(self, spark: SparkSession, files: Files, checkpoint: Checkpoint) -> None:
        self.spark = spark
        self._files = files
        self._checkpoint = checkpoint
        self.parallelism = processors(spark)
        self.views = Views(spark)
        self._views: dict[tuple[str, tuple[str, ...]], str] = {}

    def begin(self) -> None:
        """A tick begins: views are defined anew, under the names of the tick before."""
        self._views.clear()

    def write_known(self, tuples: DataFrame, path: str, rows: float) -> None:
        """Store tuples of which everything is known already."""
        slim = tuples.coalesce(1) if rows < _ONE_FILE_ROWS else tuples
        slim.write.mode("overwrite").options(**PLAIN).parquet(self._checkpoint.full(path))

    def write(self, tuples: DataFrame, path: str, expected_rows: float, arrived_us: int) -> BlockRef | None:
        """Store tuples, and count them on the way; None if there are none."""
        counted = Observation(path)
        columns = tuples.schema
        observed = tuples.observe(counted, *map(F.expr, _measures(columns)))
        self.write_known(observed, path, expected_rows)
        found = counted.get
        rows = found["rows"]
        if not rows:
            self._files.delete(self._checkpoint.full(path))
            return None
        ends = (found["min_ts"], found["max_ts"]) if TS in columns.names else ()
        return BlockRef(
            path=path,
            rows=rows,
            # what the tuples take, however a file happens to encode them
            bytes=round(rows * width_bytes(columns, found["text_bytes"] / rows)),
            min_ts=found.get("min_ts", 0),
            max_ts=found.get("max_ts", 0),
            arrived_us=arrived_us,
            quantiles=tuple(sorted([*(found.get("quantiles") or ()), *ends])),
        )

    def read(self, blocks: Sequence[BlockRef], schema: StructType) -> DataFrame:
        """The tuples of several blocks as one scan."""
        for block in blocks:
            self.check(block)
        paths = [self._checkpoint.full(block.path) for block in blocks]
        return self.spark.read.schema(schema).parquet(*paths)

    def check(self, block: BlockRef) -> None:
        """Raise if a block is not what was written: nothing is computed over damage."""
        self._checkpoint.check_block(block)

    def view(self, queue: str, blocks: Sequence[BlockRef], schema: StructType) -> str:
        """The name of a view of some blocks; in a tick, readers of the same blocks share one."""
        key = queue, tuple(block.path for block in blocks)
        if key not in self._views:
            number = sum(1 for known, _ in self._views if known == queue)
            frame = self.read(blocks, schema)
            is_small = sum(block.rows for block in blocks) < _ONE_FILE_ROWS
            name = f"{queue} {number}" if number else queue
            self._views[key] = self.views.define(name, frame.coalesce(1) if is_small else frame)
        return self._views[key]

    def empty(self, schema: StructType) -> DataFrame:
        """No tuples of a schema."""
        return self.spark.createDataFrame([], schema)


def _measures(columns: StructType) -> list[str]:
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
