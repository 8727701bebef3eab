"""Blocks: tuples that outlive a tick, written once and never changed."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.columns import TS, tick_constant
from headgate.spark.files import Files
from headgate.spark.manifest import BlockRef

# fewer tuples than this are not worth more than one file
_ONE_FILE_ROWS = 50_000


# blocks live for a few ticks: time spent on making them small is lost
_PLAIN = {"compression": "uncompressed", "parquet.enable.dictionary": "false"}


_WIDTHS_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4, "string": 20}


def width_bytes(schema: StructType) -> float:
    """What a tuple of these columns takes, roughly: known before any block is written."""
    return float(sum(_WIDTHS_BYTES.get(f.dataType.typeName(), 8) for f in schema.fields))


class BlockStore:
    """Writes and reads blocks below the checkpoint."""

    def __init__(self, spark: SparkSession, files: Files, checkpoint: Checkpoint) -> None:
        self.spark = spark
        self._files = files
        self._checkpoint = checkpoint

    def write(
        self,
        tuples: DataFrame,
        batch_id: int,
        name: str,
        expected_rows: float,
        waiting_from: int,
        arrived_us: int,
    ) -> tuple[BlockRef, int] | None:
        """Store tuples; with the block, how many of them have a timestamp from ``waiting_from`` on."""
        path = self._checkpoint.block(batch_id, name)
        counted = Observation(name)
        slim = tuples.coalesce(1) if expected_rows < _ONE_FILE_ROWS else tuples
        ordered = TS if TS in slim.columns else None
        measures = [F.count(F.lit(1)).alias("rows")]
        if ordered:
            measures += [
                F.min(TS).alias("min_ts"),
                F.max(TS).alias("max_ts"),
                F.count_if(F.col(TS) >= tick_constant(waiting_from)).alias("waiting"),
            ]
        slim.observe(counted, *measures).write.mode("overwrite").options(**_PLAIN).parquet(
            self._checkpoint.full(path)
        )
        found = counted.get
        if not found["rows"]:
            self._files.delete(self._checkpoint.full(path))
            return None
        ref = BlockRef(
            path=path,
            rows=found["rows"],
            bytes=self._files.bytes_of(self._checkpoint.full(path)),
            min_ts=found.get("min_ts", 0),
            max_ts=found.get("max_ts", 0),
            arrived_us=arrived_us,
        )
        return ref, found.get("waiting", 0)

    def read(self, blocks: Sequence[BlockRef], schema: StructType) -> DataFrame:
        """The tuples of several blocks as one scan."""
        paths = [self._checkpoint.full(block.path) for block in blocks]
        return self.spark.read.schema(schema).parquet(*paths)

    def empty(self, schema: StructType) -> DataFrame:
        """No tuples of a schema."""
        return self.spark.createDataFrame([], schema)
