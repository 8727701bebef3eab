"""Blocks: tuples that outlive a tick, written once and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.cluster import processors
from headgate.spark.columns import TS, tick_constant
from headgate.spark.files import Files
from headgate.spark.manifest import BlockRef
from headgate.spark.spread import QUANTILES

# fewer tuples than this are not worth more than one file
_ONE_FILE_ROWS = 50_000


# blocks live for a few ticks: time spent on making them small is lost
PLAIN = {"compression": "uncompressed", "parquet.enable.dictionary": "false"}


_WIDTHS_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4}
_TEXT = ("string", "binary")
_TEXT_BYTES = 20.0


def width_bytes(schema: StructType, text_bytes: float | None = None) -> float:
    """What a tuple of these columns takes; of texts, what is known or else a guess."""
    kinds = [field.dataType.typeName() for field in schema.fields]
    fixed = sum(_WIDTHS_BYTES.get(kind, 8) for kind in kinds if kind not in _TEXT)
    return fixed + (_TEXT_BYTES * sum(kind in _TEXT for kind in kinds) if text_bytes is None else text_bytes)


_SHARES = [place / QUANTILES for place in range(1, QUANTILES)]
# good for the quantiles, and cheap
_ACCURACY = 500


class BlockStore:
    """Writes and reads blocks below the checkpoint."""

    def __init__(self, spark: SparkSession, files: Files, checkpoint: Checkpoint) -> None:
        self.spark = spark
        self._files = files
        self._checkpoint = checkpoint
        self.parallelism = processors(spark)

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
        texts = [f.name for f in slim.schema.fields if f.dataType.typeName() in _TEXT]
        lengths = [F.coalesce(F.octet_length(F.col(f"`{name}`")), F.lit(0)) for name in texts]
        measures = [
            F.count(F.lit(1)).alias("rows"),
            F.sum(reduce(lambda a, b: a + b, lengths, F.lit(0))).alias("text_bytes"),
        ]
        if ordered:
            measures += [
                F.min(TS).alias("min_ts"),
                F.max(TS).alias("max_ts"),
                F.count_if(F.col(TS) >= tick_constant(waiting_from)).alias("waiting"),
                F.percentile_approx(TS, _SHARES, F.lit(_ACCURACY)).alias("quantiles"),
            ]
        slim.observe(counted, *measures).write.mode("overwrite").options(**PLAIN).parquet(
            self._checkpoint.full(path)
        )
        found = counted.get
        rows = found["rows"]
        if not rows:
            self._files.delete(self._checkpoint.full(path))
            return None
        inner = found.get("quantiles") or ()
        ends = (found["min_ts"], found["max_ts"]) if ordered else ()
        ref = BlockRef(
            path=path,
            rows=rows,
            # what the tuples take, however a file happens to encode them
            bytes=round(rows * width_bytes(slim.schema, found["text_bytes"] / rows)),
            min_ts=found.get("min_ts", 0),
            max_ts=found.get("max_ts", 0),
            arrived_us=arrived_us,
            quantiles=tuple(sorted([*inner, *ends])),
        )
        return ref, found.get("waiting", 0)

    def read(self, blocks: Sequence[BlockRef], schema: StructType) -> DataFrame:
        """The tuples of several blocks as one scan."""
        for block in blocks:
            self._checkpoint.check_block(block)
        paths = [self._checkpoint.full(block.path) for block in blocks]
        return self.spark.read.schema(schema).parquet(*paths)

    def empty(self, schema: StructType) -> DataFrame:
        """No tuples of a schema."""
        return self.spark.createDataFrame([], schema)
