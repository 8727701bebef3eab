"""One log per stream: its tuples as immutable blocks, shared by all queries that read the stream.

A window is a range of the log, by timestamp or by number. A block is a Parquet file below the checkpoint, or
a source file that can be read again where it lies. Small blocks are held in memory too, so that a tick reads
no file for what arrived a moment ago.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DateType,
    IntegralType,
    LongType,
    NumericType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import SetupError
from headgate.model.network import Network, StreamDefinition
from headgate.model.operator import Aggregate, StreamInput, WindowUpdate
from headgate.model.shedding import KEEP
from headgate.model.window import RowWindow, TimeWindow
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.cluster import task_slots
from headgate.spark.columns import SEQ, TS
from headgate.spark.held_rows import HeldRows, LogMemory
from headgate.spark.manifest import BlockRef
from headgate.spark.sources import BAD_ROW, Sources

# fewer tuples than this are the work of one task: a second one costs more than it saves
ONE_TASK_ROWS = 50_000
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class LogSchema:
    """What a log holds: the columns that queries read, the timestamp, and numbers where they matter."""

    definition: StreamDefinition
    columns: StructType
    timestamp: str | None
    """An expression over the source's columns, microseconds; None if tuples are stamped on arrival."""
    anchor: str
    """Any column of the source."""
    is_numbered: bool
    tells_keep_ratio: bool

    @property
    def is_sequenced(self) -> bool:
        """Whether tuples must wait for the watermark before they can be numbered."""
        return self.is_numbered and self.definition.slack_us > 0

    @property
    def is_plain(self) -> bool:
        """Whether tuples consist of the source's columns and their own timestamp, and nothing else."""
        return self.timestamp is not None and not self.is_numbered and not self.tells_keep_ratio

    @property
    def struct(self) -> StructType:
        """The columns of a block."""
        system = [TS, SEQ] if self.is_numbered else [TS]
        return StructType([*self.columns.fields, *(StructField(column, LongType()) for column in system)])


def log_schemas(network: Network, raw: Mapping[str, StructType]) -> dict[str, LogSchema]:
    """The log of every stream of a network; ``raw`` are the columns that the sources bring."""
    return {name: _log_schema(network, definition, raw[name]) for name, definition in network.streams.items()}


def _log_schema(network: Network, definition: StreamDefinition, raw: StructType) -> LogSchema:
    read, numbered = set(), False
    for operator in network.operators.values():
        for source in operator.inputs:
            if isinstance(source, StreamInput) and source.stream == definition.name:
                read |= {column.lower() for column in source.columns}
        windows = []
        if isinstance(operator, WindowUpdate):
            windows = [side.window for side in operator.sides if side.stream == definition.name]
        elif isinstance(operator, Aggregate) and operator.stream == definition.name:
            windows = [operator.window]
            slides = isinstance(operator.window, TimeWindow) and operator.window.slide_us
            # a tuple emits the new value of its group, so the order of tuples matters
            numbered = numbered or not slides
        for window in windows:
            if isinstance(window, RowWindow):
                numbered = True
                read |= {key.lower() for key in window.keys}
    fields = [
        StructField(f.name, f.dataType, True)
        for f in raw.fields
        if f.name.lower() in read and f.name != BAD_ROW
    ]
    return LogSchema(
        definition,
        StructType(fields),
        None if definition.timestamp is None else timestamp_us(raw, definition),
        sql.name(raw.fields[0].name),
        numbered,
        KEEP.lower() in read,
    )


def timestamp_us(raw: StructType, definition: StreamDefinition) -> str:
    """Microseconds of a stream's timestamp column; numbers are seconds. NULL where it cannot be told."""
    wanted = str(definition.timestamp)
    found = next((f for f in raw.fields if f.name.lower() == wanted.lower()), None)
    if found is None:
        raise SetupError(
            f"stream {definition.name} has no timestamp column {wanted}; it has {', '.join(raw.names)}"
        )
    column, kind = sql.name(found.name), found.dataType
    if isinstance(kind, TimestampType):
        return f"unix_micros({column})"
    if isinstance(kind, (TimestampNTZType, DateType)):
        return f"unix_micros(CAST({column} AS TIMESTAMP))"
    if isinstance(kind, IntegralType):
        return f"try_multiply(CAST({column} AS BIGINT), 1000000L)"
    if isinstance(kind, NumericType):
        return f"try_cast(round({column} * 1000000) AS BIGINT)"
    raise SetupError(
        f"stream {definition.name}: timestamp column {wanted} is {kind.simpleString()}; declare it TIMESTAMP "
        "(or a number of seconds)"
    )


class StreamLogs:
    """Reads ranges of logs. In a tick, readers of the same blocks share one view."""

    def __init__(
        self, spark: SparkSession, sources: Sources, store: BlockStore, schemas: Mapping[str, LogSchema]
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._store = store
        self.schemas = schemas
        self.views = store.views
        self.memory = LogMemory(is_lasting=task_slots(spark) is not None)
        self._java_schemas: dict[str, Any] = {}
        self._views: dict[tuple[str, tuple[str, ...]], str] = {}

    def begin(self) -> None:
        """A tick begins: views are defined anew, under the names of the tick before."""
        self._views.clear()

    def view(self, stream: str, blocks: Sequence[BlockRef]) -> str:
        """The name of a view of these blocks, or the text of a query."""
        key = stream, tuple(block.path for block in blocks)
        if key not in self._views:
            number = sum(1 for known, _ in self._views if known == stream)
            self._views[key] = self._defined(f"{stream}_{number}" if number else stream, stream, blocks)
        return self._views[key]

    def _defined(self, name: str, stream: str, blocks: Sequence[BlockRef]) -> str:
        schema = self.schemas[stream]
        is_in_place = all(block.files and block.path not in self.memory for block in blocks)
        if not (is_in_place and schema.is_plain and _rows(blocks) > ONE_TASK_ROWS):
            return self.views.define(name, self.frame(stream, blocks))
        # the tick's one text turns rows of large files into tuples: less to analyse than a plan of its own
        view = self.views.define(f"files of {name}", self._files_of(stream, blocks))
        return sql.select(in_place_items(schema, None, {}), view, [f"{schema.timestamp} IS NOT NULL"])

    def frame(self, stream: str, blocks: Sequence[BlockRef], columns: StructType | None = None) -> DataFrame:
        """The tuples of some blocks; few of them are the work of one task."""
        struct = columns or self.schemas[stream].struct
        held = [block for block in blocks if block.path in self.memory]
        stored = [block for block in blocks if block.path not in self.memory]
        parts = self._in_memory(held)
        own = [block for block in stored if not block.files]
        if own:
            parts.append(self._store.read(own, struct))
        parts += self._in_place(stream, [block for block in stored if block.files])
        together = parts[0]
        if len(parts) > 1:
            # rows in memory may have more columns than tuples have
            alike = [part.select(*struct.names) for part in parts]
            together = reduce(DataFrame.unionAll, alike)
        if _rows(blocks) <= ONE_TASK_ROWS:
            return together.coalesce(1)
        return together.coalesce(self._store.parallelism) if held and not stored else together

    def _in_memory(self, blocks: Sequence[BlockRef]) -> list[DataFrame]:
        """Plans over one RDD for all blocks of the same columns: Spark analyses these in no time."""
        found: dict[str, tuple[StructType, list[HeldRows]]] = {}
        for block in blocks:
            held = self.memory.get(block.path)
            found.setdefault(held.columns.json(), (held.columns, []))[1].append(held.rows)
        frames = []
        for columns, rows in found.values():
            java_session: Any = self._spark._jsparkSession
            rdd = self._together(rows)
            java = java_session.internalCreateDataFrame(rdd, self._java_schema(columns), False)
            frames.append(DataFrame(java, self._spark))
        return frames

    def _together(self, rows: Sequence[HeldRows]) -> Any:
        """One RDD: of blocks in memory where they are, and of what is being computed in this tick."""
        context: Any = self._spark.sparkContext
        java, gateway = context._jvm.org.apache.spark, context._gateway
        ids = [one for held in rows for one in held.blocks]
        rdds = [held.rdd() for held in rows if not held.blocks]
        if ids:
            array = gateway.new_array(java.storage.BlockId, len(ids))
            for place, one in enumerate(ids):
                array[place] = one
            rdds.append(java.rdd.BlockRDD(context._jsc.sc(), array, rows[0].rdd().elementClassTag()))
        if len(rdds) == 1:
            return rdds[0]
        several = gateway.new_array(java.api.java.JavaRDD, len(rdds))
        for place, rdd in enumerate(rdds):
            several[place] = rdd.toJavaRDD()
        return context._jsc.union(several).rdd()

    def _java_schema(self, struct: StructType) -> Any:
        text = struct.json()
        if text not in self._java_schemas:
            java: Any = self._spark._jvm
            self._java_schemas[text] = java.org.apache.spark.sql.types.DataType.fromJson(text)
        return self._java_schemas[text]

    def _in_place(self, stream: str, blocks: Sequence[BlockRef]) -> list[DataFrame]:
        """Source files as they are: what tells their tuples' timestamps and numbers differs by group."""
        schema = self.schemas[stream]
        names = [_file_name(path) for block in blocks for path in block.files]
        # in one scan, rows are numbered by the name of their file; Spark may spell unusual ones differently
        are_unique = len(set(names)) == len(names) and all(map(_PLAIN_NAME.fullmatch, names))
        groups: dict[tuple[int | None, int | None], list[BlockRef]] = {}
        for block in blocks:
            stamp = block.min_ts if schema.definition.timestamp is None else None
            groups.setdefault((stamp, None if are_unique else block.first_seq), []).append(block)
        frames = []
        for (stamp, _), alike in groups.items():
            firsts = {_file_name(path): b.first_seq or 0 for b in alike for path in b.files}
            tuples = self._files_of(stream, alike).selectExpr(*in_place_items(schema, stamp, firsts))
            # rows without a timestamp are bad, and were set aside when they arrived
            frames.append(tuples if stamp is not None else tuples.where(f"{sql.name(TS)} IS NOT NULL"))
        return frames

    def _files_of(self, stream: str, blocks: Sequence[BlockRef]) -> DataFrame:
        """The rows of source files, with the columns that they have."""
        for block in blocks:
            self._store.check(block)
        paths = [path for block in blocks for path in block.files]
        return self._sources.read_files(self.schemas[stream].definition, paths)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _rows(blocks: Sequence[BlockRef]) -> int:
    return sum(block.rows for block in blocks)


def in_place_items(schema: LogSchema, stamp_us: int | None, first_seqs: Mapping[str, int]) -> list[str]:
    """The select list that turns rows of source files into tuples of the log.

    ``first_seqs`` are the numbers of their first tuples, where these are numbered.
    """
    items = [sql.name(f.name) for f in schema.columns.fields if f.name != KEEP]
    if schema.tells_keep_ratio:
        items.append(f"1.0D AS {sql.name(KEEP)}")
    timestamp = schema.timestamp if stamp_us is None else sql.Bound(stamp_us).at(schema.anchor)
    items.append(f"{timestamp} AS {sql.name(TS)}")
    if schema.is_numbered:
        if len(set(first_seqs.values())) == 1:
            [number] = set(first_seqs.values())
            first = sql.Bound(number).at(schema.anchor)
        else:
            pairs = ", ".join(f"{sql.text(name)}, {number}L" for name, number in first_seqs.items())
            first = f"map({pairs})[_metadata.file_name]"
        items.append(f"_metadata.row_index + {first} AS {sql.name(SEQ)}")
    return items
