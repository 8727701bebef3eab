"""Arrival: what a micro-batch brings, stamped, counted, and freed of bad and late rows.

A row is late when its timestamp lies more than the slack below the highest one that came before it,
in order of arrival: file by file, row by row. So lateness does not depend on where ticks begin. Sources
other than files bring the rows of a micro-batch side by side: those are compared with earlier ones only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import SetupError
from headgate.model.network import StreamDefinition
from headgate.model.shedding import DropBox
from headgate.spark.columns import ARRIVED, BEGINNING_US, TS, tick_constant
from headgate.spark.dropbox import is_kept, utility_of
from headgate.spark.files import normal_path
from headgate.spark.sources import BAD_ROW
from headgate.spark.spread import QUANTILES, Spread

Suffix = Callable[[int], DataFrame]

FILE, BLOCK, PLACE, LATE = "$file", "$block", "$place", "$late"


@dataclass(frozen=True)
class Chunk:
    """Statistics of consecutive rows of one file (or of one partition, for other sources)."""

    stream: int
    file: str
    block: int
    partition: int
    rows: int
    bad: int
    min_ts: int
    max_ts: int
    in_order: bool
    shed: int = 0
    quantiles: tuple[int, ...] = ()
    utilities: tuple[float, ...] = ()

    @property
    def spread(self) -> Spread:
        """How its good rows lie over time."""
        return Spread.over(self.rows - self.bad, self.quantiles or (self.min_ts, self.max_ts))


@dataclass(frozen=True)
class Arrival:
    """The good rows that a stream brings into a tick, with timestamp and time of arrival.

    ``set_aside`` are the others, with a reason. ``rows`` counts the good ones that were not ``shed``.
    """

    definition: StreamDefinition
    frame: DataFrame
    set_aside: DataFrame | None
    rows: int
    late: int
    bad: int
    shed: int
    min_ts: int
    max_ts: int
    file_ranks: dict[str, int]
    seen_max_ts: int
    spreads: tuple[Spread, ...] = ()
    utilities: tuple[float, ...] = ()
    suffix: Suffix | None = None
    """Reads the rows from a timestamp on, from as few files as hold any."""


def timestamp_us(schema: StructType, name: str, stream: str) -> Column:
    """Microseconds of a timestamp column; numbers are seconds. NULL where it cannot be told."""
    found = next((f for f in schema.fields if f.name.lower() == name.lower()), None)
    if found is None:
        raise SetupError(f"stream {stream} has no timestamp column {name}; it has {', '.join(schema.names)}")
    column = F.col(f"`{found.name}`")
    kind = found.dataType
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, (TimestampNTZType, DateType)):
        return F.unix_micros(column.cast("timestamp"))
    if isinstance(kind, IntegralType):
        return F.try_multiply(column.cast("bigint"), F.lit(1_000_000))
    if isinstance(kind, (FractionalType, DecimalType, NumericType)):
        return F.round(column * 1_000_000).try_cast("bigint")
    raise SetupError(
        f"stream {stream}: timestamp column {name} is {kind.simpleString()}; declare it TIMESTAMP "
        "(or a number of seconds)"
    )


def with_timestamp(raw: DataFrame, definition: StreamDefinition) -> DataFrame:
    """Rows with their event time; NULL on streams that are stamped on arrival."""
    if definition.timestamp is None:
        return raw.withColumn(TS, F.lit(None).cast("bigint"))
    return raw.withColumn(TS, timestamp_us(raw.schema, definition.timestamp, definition.name))


def is_bad(frame: DataFrame, definition: StreamDefinition) -> Column:
    """Whether a row does not parse, or lacks the timestamp that it should have."""
    bad = F.lit(False)
    if BAD_ROW in frame.columns:
        bad = bad | F.col(BAD_ROW).isNotNull()
    if definition.timestamp is not None:
        bad = bad | F.col(TS).isNull()
    return bad


def chunk_statistics(
    frames: Sequence[tuple[int, StreamDefinition, DataFrame]],
    boxes: Mapping[str, DropBox],
    utilities: Mapping[str, str],
) -> list[Chunk]:
    """Count and bound the rows of all streams, in one Spark job that reads timestamps alone.

    Of streams with a drop box it reads all columns, and counts what is shed.
    """
    parts: DataFrame | None = None
    for number, definition, frame in frames:
        name = definition.name
        part = _chunks(number, definition, frame, boxes.get(name), utilities.get(name))
        parts = part if parts is None else parts.unionByName(part)
    return [] if parts is None else [_chunk(row) for row in parts.collect()]


def _chunks(
    number: int, definition: StreamDefinition, frame: DataFrame, box: DropBox | None, utility: str | None
) -> DataFrame:
    bad = is_bad(frame, definition)
    shed = F.lit(False) if box is None else ~is_kept(frame, box)
    times = F.collect_list(F.when(~bad, F.col(TS)))
    file = F.col(FILE) if FILE in frame.columns else F.lit("")
    block = F.col(BLOCK) if BLOCK in frame.columns else F.lit(0)
    keys = frame.select(
        file.alias("file"),
        block.cast("bigint").alias("block"),
        F.spark_partition_id().alias("partition"),
        F.col(TS),
        shed.alias("shed"),
        *([] if utility is None else [utility_of(utility).alias("utility")]),
        *([BAD_ROW] if BAD_ROW in frame.columns else []),
    )
    measures = [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(bad).alias("bad"),
        F.count_if(F.col("shed") & ~bad).alias("shed"),
        (
            F.lit(None).cast("array<double>")
            if utility is None
            else F.percentile_approx("utility", [i / QUANTILES for i in range(QUANTILES + 1)])
        ).alias("utilities"),
    ]
    if definition.timestamp is None:
        counted = keys.groupBy("file", "block", "partition").agg(*measures)
        return counted.select(
            F.lit(number).alias("stream"),
            "*",
            F.lit(None).cast("bigint").alias("min_ts"),
            F.lit(None).cast("bigint").alias("max_ts"),
            F.lit(True).alias("in_order"),
            F.array().cast("array<bigint>").alias("quantiles"),
        )
    bounds = [F.min(F.when(~bad, F.col(TS))).alias("min_ts"), F.max(F.when(~bad, F.col(TS))).alias("max_ts")]
    place = f"CAST(1 + i * greatest(size(times) - 1, 0) div {QUANTILES} AS INT)"
    gathered = keys.groupBy("file", "block", "partition").agg(*measures, *bounds, times.alias("times"))
    return gathered.select(
        F.lit(number).alias("stream"),
        "file",
        "block",
        "partition",
        "rows",
        "bad",
        "shed",
        "utilities",
        "min_ts",
        "max_ts",
        (F.sort_array("times") == F.col("times")).alias("in_order"),
        # evenly spaced places stand for quantiles: exact if the rows are in order, a fair sample if not
        F.expr(f"transform(sequence(0, {QUANTILES}), i -> try_element_at(times, {place}))").alias(
            "quantiles"
        ),
    )


def _chunk(row: Row) -> Chunk:
    known = row.asDict()
    if known["min_ts"] is None:
        known |= {"min_ts": -BEGINNING_US, "max_ts": BEGINNING_US}
    known["utilities"] = tuple(known["utilities"] or ())
    known["quantiles"] = tuple(sorted(q for q in known["quantiles"] if q is not None))
    return Chunk(**known)


def file_ranks(chunks: Sequence[Chunk], arrival_order: Sequence[str]) -> dict[str, int]:
    """Position of every file in order of arrival, by the name that rows carry."""
    rank = {normal_path(path): position for position, path in enumerate(arrival_order)}
    return {chunk.file: rank.get(normal_path(chunk.file), len(rank)) for chunk in chunks}


def in_arrival_order(chunks: Sequence[Chunk], ranks: dict[str, int]) -> list[Chunk]:
    """Chunks as they came."""
    return sorted(chunks, key=lambda c: (ranks.get(c.file, 0), c.block, c.partition))


def may_hold_late_rows(
    chunks: Sequence[Chunk], definition: StreamDefinition, max_ts: int, floor: int
) -> bool:
    """Whether any row can be late, judged by the bounds of the chunks."""
    for chunk in chunks:
        if chunk.rows == chunk.bad:
            continue
        if chunk.min_ts < max(max_ts - definition.slack_us, floor):
            return True
        if not chunk.file:
            continue
        if not chunk.in_order and chunk.max_ts - chunk.min_ts > definition.slack_us:
            return True
        max_ts = max(max_ts, chunk.max_ts)
    return False


def flag_late(frame: DataFrame, ranks: dict[str, int], slack_us: int, max_ts: int, floor: int) -> DataFrame:
    """Mark late rows exactly: compare each with all that arrived before it."""
    seen = F.lit(max_ts)
    if FILE in frame.columns:
        order = SparkWindow.orderBy(*arrival_order(ranks))
        before = F.max(TS).over(order.rowsBetween(SparkWindow.unboundedPreceding, -1))
        seen = F.greatest(F.coalesce(before, seen), seen)
    late = (F.col(TS) < seen - F.lit(slack_us)) | (F.col(TS) < F.lit(floor))
    return frame.withColumn(LATE, F.coalesce(late, F.lit(False)))


def arrival_order(ranks: dict[str, int]) -> list[Column]:
    """Sort key of rows within a tick: file, then place in the file."""
    pairs = [F.lit(item) for file, rank in ranks.items() for item in (file, rank)]
    rank_of = F.element_at(F.create_map(*pairs), F.col(FILE)) if pairs else F.lit(0)
    return [rank_of, F.col(BLOCK), F.col(PLACE)]


def set_aside_rows(frame: DataFrame, definition: StreamDefinition, batch_id: int) -> DataFrame:
    """Bad and late rows as they go to the dead-letter table."""
    system = {TS, FILE, BLOCK, PLACE, LATE, BAD_ROW}
    row = F.to_json(F.struct(*[F.col(f"`{c}`") for c in frame.columns if c not in system]))
    raw = F.coalesce(F.col(BAD_ROW), row) if BAD_ROW in frame.columns else row
    unparsed = F.col(BAD_ROW).isNotNull() if BAD_ROW in frame.columns else F.lit(False)
    reason = (
        F.when(unparsed, F.lit("the row does not parse"))
        .when(F.col(TS).isNull(), F.lit(f"no timestamp in column {definition.timestamp}"))
        .otherwise(F.lit("late: older than the slack allows"))
    )
    return frame.select(
        F.lit(definition.name).alias("stream"),
        F.lit(batch_id).cast("bigint").alias("batch"),
        reason.alias("reason"),
        F.timestamp_micros(TS).alias("ts"),
        raw.alias("row"),
    )


def stamped(frame: DataFrame, arrived_us: int, anchor: str = TS) -> DataFrame:
    """Add the time of arrival."""
    return frame.withColumn(ARRIVED, tick_constant(arrived_us, anchor))
