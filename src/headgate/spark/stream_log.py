"""One log per stream: its tuples as immutable blocks, shared by all queries that read the stream.

A window is a range of the log, by timestamp or by number. A block is a Parquet file below the checkpoint, or
a source file that is read in place. Small blocks are held in memory too, so that a tick reads
no file for what arrived a moment ago.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from headgate.model.joins import WindowUpdate
from headgate.model.kafka import is_partitioned
from headgate.model.network import Network, StreamDefinition
from headgate.model.operator import Aggregate, Operator
from headgate.model.operator_inputs import StreamInput
from headgate.model.shedding import KEEP
from headgate.model.window import RowWindow, UntilWindow, columns_read, is_emitted_whole
from headgate.spark import sql
from headgate.spark.application.cluster import task_slots
from headgate.spark.application.java_classes import new_object
from headgate.spark.blocks import BlockStore
from headgate.spark.held_rows import HeldRows, LogMemory
from headgate.spark.manifest import BlockRef
from headgate.spark.sources import BAD_ROW, Sources, timestamp_us
from headgate.spark.sql import SEQ, TS

MOST_SCANS = 4
"""Of numbered files in one query, if these overlap in time; more files are one scan."""
# a plan with a case for each of more files would take long to analyse
_MOST_CASES = 32
_PLACE_IN_FILE = (
    f"_metadata.row_index AS {sql.name(sql.ROW)}",
    f"_metadata.file_name AS {sql.name(sql.FILE)}",
)
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
        return self.is_numbered and (self.definition.watermark_delay_us > 0 or self.is_partitioned)

    @property
    def is_partitioned(self) -> bool:
        """Whether order of arrival is known within partitions of the source alone."""
        return is_partitioned(self.definition)

    @property
    def is_plain(self) -> bool:
        """Whether tuples consist of the source's columns and their own timestamp, and nothing else."""
        return self.timestamp is not None and not self.is_numbered and not self.tells_keep_ratio

    @property
    def struct(self) -> StructType:
        """The columns of a block."""
        system = [TS, SEQ] if self.is_numbered else [TS]
        return StructType([*self.columns.fields, *(StructField(column, LongType()) for column in system)])


def log_schemas(
    network: Network, raw: Mapping[str, StructType], numbered: Collection[str] = ()
) -> dict[str, LogSchema]:
    """The log of every stream of a network; ``raw`` are the columns that the sources bring.

    The tuples of ``numbered`` streams have numbers, whether an operator needs them or not.
    """
    return {
        name: _log_schema(network, definition, raw[name], name in numbered)
        for name, definition in network.streams.items()
    }


def log_needs(operators: Iterable[Operator], stream: str) -> tuple[frozenset[str], bool]:
    """The columns that operators need of the log of a stream, in lower case, and whether also numbers."""
    read, numbered = set(), False
    for operator in operators:
        for source in operator.inputs:
            if isinstance(source, StreamInput) and source.stream == stream:
                read |= {column.lower() for column in source.columns}
        windows = []
        if isinstance(operator, WindowUpdate):
            windows = [side.window for side in operator.sides if side.stream == stream]
        elif isinstance(operator, Aggregate) and operator.stream == stream:
            windows = [operator.window]
            # a tuple emits the new value of its group, so the order of tuples matters
            numbered = numbered or not is_emitted_whole(operator.window)
        for window in windows:
            # numbers tell copies of live tuples from the log itself
            numbered = numbered or isinstance(window, (RowWindow, UntilWindow))
            read |= {column.lower() for column in columns_read(window)}
    return frozenset(read), numbered


def _log_schema(
    network: Network, definition: StreamDefinition, raw: StructType, is_numbered: bool
) -> LogSchema:
    read, numbered = log_needs(network.operators.values(), definition.name)
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
        numbered or is_numbered,
        KEEP.lower() in read,
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
        self.memory = LogMemory(
            None if task_slots(spark) is None else new_object(spark, "headgate.DeferredCheckpoints")
        )
        self._java_schemas: dict[str, Any] = {}

    @property
    def one_task_rows(self) -> int:
        """Up to how many tuples are the work of one task in this tick."""
        return self._store.one_task_rows

    def view(self, stream: str, blocks: Sequence[BlockRef]) -> str:
        """The name of a view of these blocks, or the text of a query."""
        struct, paths = self.schemas[stream].struct, [block.path for block in blocks]
        return self.views.share(stream, paths, lambda name: self.text(name, stream, blocks, struct))

    def text(self, name: str, stream: str, blocks: Sequence[BlockRef], struct: StructType) -> str:
        """A query of these columns of some blocks; few tuples are the work of one task.

        ``name`` distinguishes its inputs from those of other queries in the tick.
        """
        columns = sql.names(struct.names)
        held = [block for block in blocks if block.path in self.memory]
        stored = [block for block in blocks if block.path not in self.memory]
        inputs = self._in_memory(f"memory of {name}", held)
        if own := [block for block in stored if not block.files]:
            inputs.append(self.views.define_input(f"blocks of {name}", self._store.read(own, struct)))
        # rows in memory may have more columns than tuples have
        parts = [sql.select(columns, view) for view in inputs]
        parts += self._in_place(f"files of {name}", stream, [block for block in stored if block.files])
        tuples = sql.union(parts)
        assert tuples is not None
        if _rows(blocks) <= self.one_task_rows:
            return sql.select(columns, tuples, hint=sql.IN_ONE_TASK)
        if held and not stored:
            return sql.select(columns, tuples, hint=f"/*+ COALESCE({self._store.parallelism}) */ ")
        return tuples

    def _in_memory(self, name: str, blocks: Sequence[BlockRef]) -> list[str]:
        """Views of one RDD for all blocks of the same columns: Spark analyses these in no time."""
        found: dict[str, tuple[StructType, list[HeldRows]]] = {}
        for block in blocks:
            held = self.memory.get(block.path)
            found.setdefault(held.columns.json(), (held.columns, []))[1].append(held.rows)
        views = []
        for number, (columns, rows) in enumerate(found.values()):
            java_session: Any = self._spark._jsparkSession
            rdd = self._together(rows)
            java = java_session.internalCreateDataFrame(rdd, self._java_schema(columns), False)
            views.append(self.views.define_input(f"{name} {number}", DataFrame(java, self._spark)))
        return views

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

    def _in_place(self, name: str, stream: str, blocks: Sequence[BlockRef]) -> list[str]:
        """Source files read in place, grouped by how timestamps and sequence numbers are derived."""
        schema = self.schemas[stream]
        is_one_scan = _follow_each_other(blocks) or self._is_numbered_by_name(blocks)
        groups: dict[tuple[int | None, int | None], list[BlockRef]] = {}
        for block in blocks:
            stamp = block.min_ts if schema.definition.timestamp is None else None
            groups.setdefault((stamp, None if is_one_scan else block.first_seq), []).append(block)
        parts = []
        for number, ((stamp, _), alike) in enumerate(groups.items()):
            rows = self._files_of(stream, alike)
            if schema.is_numbered:
                # no view has metadata columns
                rows = rows.selectExpr("*", *_PLACE_IN_FILE)
            view = self.views.define_input(f"{name} {number}", rows)
            # rows without a timestamp are bad, and were set aside when they arrived
            where = [f"{schema.timestamp} IS NOT NULL"] if stamp is None else []
            parts.append(sql.select(in_place_items(schema, stamp, alike), view, where))
        return parts

    def _is_numbered_by_name(self, blocks: Sequence[BlockRef]) -> bool:
        """Whether many files become one scan in which the name of its file gives the number of a row."""
        names = [_file_name(path) for block in blocks for path in block.files]
        # a plan of few scans can be kept; names of files would make it another one in every tick
        are_few = len({block.first_seq for block in blocks}) <= MOST_SCANS
        # Spark may spell unusual names differently
        return not are_few and len(set(names)) == len(names) and all(map(_PLAIN_NAME.fullmatch, names))

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


def _follow_each_other(blocks: Sequence[BlockRef]) -> bool:
    """Whether a timestamp shows which of these blocks, not too many, a tuple is in."""
    if len(blocks) > _MOST_CASES:
        return False
    ordered = sorted(blocks, key=lambda block: block.min_ts)
    return all(one.max_ts < other.min_ts for one, other in pairwise(ordered))


def in_place_items(schema: LogSchema, stamp_us: int | None, blocks: Sequence[BlockRef]) -> list[str]:
    """The select list that turns rows of source files into tuples of the log."""
    items = [sql.name(f.name) for f in schema.columns.fields if f.name != KEEP]
    if schema.tells_keep_ratio:
        items.append(f"1.0D AS {sql.name(KEEP)}")
    timestamp = schema.timestamp if stamp_us is None else sql.Bound(stamp_us).at(schema.anchor)
    items.append(f"{timestamp} AS {sql.name(TS)}")
    if schema.is_numbered:
        items.append(f"{sql.name(sql.ROW)} + {_first_seq(schema, blocks)} AS {sql.name(SEQ)}")
    return items


def _first_seq(schema: LogSchema, blocks: Sequence[BlockRef]) -> str:
    """The number of the first tuple in the file of a row."""
    if len({block.first_seq for block in blocks}) == 1:
        return sql.Bound(blocks[0].first_seq or 0).at(schema.anchor)
    if _follow_each_other(blocks):
        ordered = sorted(blocks, key=lambda block: block.min_ts)
        cases = " ".join(
            f"WHEN {schema.timestamp} <= {sql.Bound(block.max_ts).at(schema.anchor)} "
            f"THEN {sql.Bound(block.first_seq or 0).at(schema.anchor)}"
            for block in ordered[:-1]
        )
        return f"CASE {cases} ELSE {sql.Bound(ordered[-1].first_seq or 0).at(schema.anchor)} END"
    pairs = [(_file_name(path), block.first_seq or 0) for block in blocks for path in block.files]
    listed = ", ".join(f"{sql.text(name)}, {number}L" for name, number in pairs)
    return f"map({listed})[{sql.name(sql.FILE)}]"
