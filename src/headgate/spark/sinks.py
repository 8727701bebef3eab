"""Sinks: where results go. Writing a batch again replaces it, so a replayed tick changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, FloatType, StructType, TimestampNTZType, TimestampType

from headgate.errors import OutputClosedError, SetupError, known_names
from headgate.model.kafka import KAFKA
from headgate.model.network import QueryDefinition, SinkDefinition
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.file_system import Files
from headgate.spark.jdbc_sink import JdbcSink
from headgate.spark.kafka_sink import KafkaSink
from headgate.spark.outbox import CallbackSink, PartitionCallback, PartitionCallbackSink
from headgate.spark.physical_plans import MeasuredQuery, Target
from headgate.spark.sql import is_system

FILE_SINKS = ("parquet", "json", "csv", "orc")
SINK_FORMATS = (*FILE_SINKS, "console", "memory", "callback", "kafka", "jdbc", "noop")

# the name of the file of a table
_TABLE = "table"
# options that do not reach Spark
_OURS = ("timestamp", "partitionBy", "mode", "key")

Callback = Callable[[pa.Table, int], None] | PartitionCallback


@dataclass(frozen=True)
class TimedCallback:
    """A callback, and how long a call of it may take."""

    function: Callable[[pa.Table, int], None]
    timeout_s: float

    def __call__(self, table: pa.Table, batch_id: int) -> None:
        """Call it."""
        self.function(table, batch_id)


class Sink(Protocol):
    """Takes the results of a query, tick by tick."""

    def target(self, batch_id: int, slice_number: int) -> Target | None:
        """Where results are written, by several jobs at a time; None if they are handed over as a whole."""

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Execute a query and make its rows ready; they show once ``publish`` is called."""

    def publish(self, batch_id: int, rows: int, slices: Sequence[int], keep_ratio: float) -> None:
        """Put the rows of a batch in their place, replacing an earlier attempt.

        ``slices`` are those to be shown; ``keep_ratio`` is the share of source tuples that they are based on.
        """


class FileSink:
    """Files of any Spark format in one flat folder, named after the run and the batch.

    Spark writes into a hidden folder beside; a rename makes the rows visible.
    """

    def __init__(self, files: Files, format: str, path: str, options: Mapping[str, str], uid: str) -> None:
        self._files = files
        self._format = format
        self._path = path.rstrip("/")
        self._options = tuple(sorted(options.items()))
        self._uid = uid
        self._visible: dict[int, list[str]] | None = None

    def _staging(self, batch_id: int) -> str:
        return f"{self._path}/_staging-{self._uid}/{batch_id:09d}"

    def _prefix(self, batch_id: int) -> str:
        return f"part-{self._uid}-{batch_id:09d}-"

    def files_of(self, batch_id: int) -> str:
        """A pattern of the files that a batch has."""
        return f"{self._path}/{self._prefix(batch_id)}*"

    def batches(self) -> list[int]:
        """The batches whose results readers see, in order."""
        of_run = re.compile(rf"part-{self._uid}-(\d+)-")
        found = map(of_run.search, self._parts(self._path))
        return sorted({int(match[1]) for match in found if match})

    def target(self, batch_id: int, slice_number: int) -> Target:
        """The hidden folder."""
        return Target(self._format, self._options, f"{self._staging(batch_id)}/{slice_number}")

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Write into the hidden folder."""
        results.save(self.target(batch_id, slice_number))

    def publish(self, batch_id: int, rows: int, slices: Sequence[int], keep_ratio: float) -> None:
        """Move the files to where readers look."""
        visible = self._visible_from(batch_id)
        for name in visible.pop(batch_id, ()):
            self._files.delete(f"{self._path}/{name}")
        staging, published = self._staging(batch_id), []
        folders = [f"{staging}/{number}" for number in slices]
        parts = [(folder, part) for folder in folders for part in self._parts(folder)]
        if rows and not parts:
            raise SetupError(
                f"{self._path}: {rows} rows of tick {batch_id} were written, but the driver sees no file; "
                "choose a folder that all machines share"
            )
        for number, (folder, part) in enumerate(parts):
            where, _, file = part.rpartition("/")
            name = (
                f"{where}{'/' if where else ''}{self._prefix(batch_id)}{number:03d}{file[file.index('.') :]}"
            )
            self._place(f"{folder}/{part}", name)
            published.append(name)
        self._files.delete(staging)
        self._visible = {**visible, batch_id: published}

    def _parts(self, folder: str) -> Iterator[str]:
        """The files of results in a folder."""
        yield from (name for name in self._files.names(folder) if name.startswith("part-"))

    def _place(self, part: str, name: str) -> None:
        self._files.move(part, f"{self._path}/{name}")

    def _visible_from(self, batch_id: int) -> dict[int, list[str]]:
        """Files by batch that readers see already, of this batch and later ones.

        The folder grows with every tick, so it is listed once: before that, another process may have
        published batches that never were committed.
        """
        if self._visible is None:
            self._visible = {}
            for name in self._parts(self._path):
                if found := re.search(f"part-{self._uid}-([0-9]{{9,}})-", name):
                    self._visible.setdefault(int(found[1]), []).append(name)
        return {batch: names for batch, names in self._visible.items() if batch >= batch_id}

    def discard_after(self, batch_id: int) -> None:
        """Remove results of later batches: those of a tick that did not happen, or was rolled back."""
        of_run = re.compile(rf"part-{self._uid}-(\d+)-")
        for name in self._parts(self._path):
            if (found := of_run.search(name)) and int(found[1]) > batch_id:
                self._files.delete(f"{self._path}/{name}")

    def close(self) -> None:
        """Remove the hidden folder."""
        self._files.delete(f"{self._path}/_staging-{self._uid}")


class PartitionedFileSink(FileSink):
    """Files in folders by the values of some columns, such as ``day=2026-01-31``."""

    def __init__(
        self,
        files: Files,
        format: str,
        path: str,
        options: Mapping[str, str],
        uid: str,
        columns: Sequence[str],
    ) -> None:
        super().__init__(files, format, path, options, uid)
        self._columns = tuple(columns)

    def target(self, batch_id: int, slice_number: int) -> None:  # type: ignore[override]
        """None: only Spark itself divides rows among folders."""

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Write into folders inside the hidden one."""
        target = super().target(batch_id, slice_number)
        with results.observed() as frame:
            writer = frame.write.format(self._format).options(**dict(self._options)).mode("overwrite")
            writer.partitionBy(*self._columns).save(target.path)

    def _parts(self, folder: str) -> Iterator[str]:
        for name in self._files.names(folder):
            if name.startswith("part-"):
                yield name
            elif "=" in name:
                yield from (f"{name}/{part}" for part in self._parts(f"{folder}/{name}"))

    def _place(self, part: str, name: str) -> None:
        self._files.make_folder(f"{self._path}/{name.rpartition('/')[0]}")
        super()._place(part, name)


class TableFileSink(FileSink):
    """The current rows in one file, which a rename replaces: readers see the rows of one tick.

    Its name is the same for all runs: a table that is computed anew takes the place of the old one.
    """

    def target(self, batch_id: int, slice_number: int) -> None:  # type: ignore[override]
        """None: there is one file."""

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Write into the hidden folder."""
        with results.observed() as frame:
            self._write(frame, batch_id, slice_number)

    def _write(self, frame: DataFrame, batch_id: int, slice_number: int) -> None:
        writer = frame.coalesce(1).write.format(self._format).options(**dict(self._options))
        writer.mode("overwrite").save(super().target(batch_id, slice_number).path)

    def is_ahead_of(self, batch_id: int) -> bool:
        """Whether the rows are those of a later tick, which was rolled back."""
        if not self._files.exists(self._of_batch):
            return False
        named = self._files.read_bytes(self._of_batch).decode(errors="replace")
        uid, _, shown = named.rpartition(" ")
        return uid == self._uid and shown.isdecimal() and int(shown) > batch_id

    def restore(self, rows: DataFrame | None, batch_id: int) -> None:
        """Show the rows as they were after an earlier tick; None if there were none yet."""
        if rows is None:
            self._remove_others("")
            self._files.delete(self._of_batch)
            return
        self._write(rows, batch_id, 0)
        self.publish(batch_id, 0, (0,), 1.0)

    @property
    def _of_batch(self) -> str:
        """A hidden file that names the tick of the rows."""
        return f"{self._path}/_{_TABLE}-tick"

    def publish(self, batch_id: int, rows: int, slices: Sequence[int], keep_ratio: float) -> None:
        """Replace the file."""
        staging = self._staging(batch_id)
        for number in slices:
            [part] = self._parts(f"{staging}/{number}")
            name = f"{_TABLE}{part[part.index('.') :]}"
            self._files.replace(f"{staging}/{number}/{part}", f"{self._path}/{name}")
            self._remove_others(name)
            self._files.write_text(self._of_batch, f"{self._uid} {batch_id}")
        self._files.delete(staging)

    def _remove_others(self, current: str) -> None:
        """Remove a table that was written with another compression, which its name shows."""
        for name in self._files.names(self._path):
            if name.startswith(f"{_TABLE}.") and name != current:
                self._files.delete(f"{self._path}/{name}")

    def files_of(self, batch_id: int) -> str:
        """The one file."""
        return f"{self._path}/{_TABLE}.*"

    def discard_after(self, batch_id: int) -> None:
        """Nothing: there are no rows of single ticks; ``restore`` shows those of an earlier one."""


def parquet_encodings(columns: StructType) -> dict[str, str]:
    """Options of a Parquet writer: no dictionary for values that rarely repeat.

    Attempts at one, which Parquet gives up later, take longer than the rest of writing such a column.
    """
    rarely_equal = (DoubleType, FloatType, TimestampType, TimestampNTZType)
    names = [field.name for field in columns.fields if isinstance(field.dataType, rarely_equal)]
    # Parquet would take a dot for a field inside a column
    return {f"parquet.enable.dictionary#{name}": "false" for name in names if "." not in name}


class ConsoleSink:
    """Shows the first rows of every batch."""

    def __init__(self, query: str, rows: int) -> None:
        self._query = query
        self._rows = rows
        self._shown: dict[int, str] = {}

    def target(self, batch_id: int, slice_number: int) -> None:
        """None: rows are shown as a whole."""

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Keep what will be shown."""
        with results.observed() as frame:
            table = frame.limit(self._rows).toArrow()
        self._shown[batch_id] = table.to_pandas().to_string(index=False) if table.num_rows else ""

    def publish(self, batch_id: int, rows: int, slices: Sequence[int], keep_ratio: float) -> None:
        """Show it."""
        text = self._shown.pop(batch_id, "")
        if text:
            more = f"\n... and {rows - self._rows} more" if rows > self._rows else ""
            of = f" of {keep_ratio:.3g} of the tuples" if keep_ratio < 1 else ""
            try:
                print(f"-- {self._query}, batch {batch_id}: {rows} rows{of}\n{text}{more}", flush=True)
            except BrokenPipeError as error:
                # a broken pipe might as well lead to Java
                raise OutputClosedError(
                    f"query {self._query}: standard output has been closed by its reader"
                ) from error


class NoopSink:
    """Runs the plan and forgets the rows; for measurements."""

    def target(self, batch_id: int, slice_number: int) -> Target:
        """Nowhere."""
        return Target()

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Compute the rows."""
        results.save(Target())

    def publish(self, batch_id: int, rows: int, slices: Sequence[int], keep_ratio: float) -> None:
        """Nothing to show."""


def spark_options(sink: SinkDefinition) -> dict[str, str]:
    """The options of a sink that are for Spark."""
    return {key: value for key, value in sink.options if key not in _OURS}


def read_results(spark: SparkSession, sink: SinkDefinition, path: str, schema: StructType) -> DataFrame:
    """What a query has written to files, or to those that stand for memory."""
    if sink.format == "memory":
        return spark.read.parquet(path)
    options = spark_options(sink)
    options.pop("path")
    return spark.read.format(sink.format).schema(schema).options(**options).load(path)


def open_sink(
    spark: SparkSession,
    query: QueryDefinition,
    columns: StructType,
    files: Files,
    checkpoint: Checkpoint,
    callbacks: Mapping[str, Callback],
) -> Sink:
    """The sink of a query; ``columns`` are those of its results."""
    options = spark_options(query.sink)
    kind, partitions = query.sink.format, query.sink.partition_columns
    if unknown := [name for name in partitions if name not in columns.names]:
        known = known_names([name for name in columns.names if not is_system(name)])
        raise SetupError(f"query {query.name}: partitionBy {unknown[0]} is no column; columns: {known}")
    if kind in ("parquet", "memory"):
        options = {**parquet_encodings(columns), **options}
    if kind in FILE_SINKS:
        path = options.pop("path")
        if partitions:
            return PartitionedFileSink(files, kind, path, options, checkpoint.uid, partitions)
        if query.sink.is_latest:
            return TableFileSink(files, kind, path, options, checkpoint.uid)
        return FileSink(files, kind, path, options, checkpoint.uid)
    if kind == "memory":
        sink = TableFileSink if query.sink.is_latest else FileSink
        return sink(files, "parquet", checkpoint.results(query.name), options, checkpoint.uid)
    if kind == "console":
        return ConsoleSink(query.name, int(options.get("numRows", "20")))
    if kind == "callback":
        name = options.get("function", query.name)
        if name not in callbacks:
            raise SetupError(
                f"query {query.name}: no callback {name}; known: {known_names(list(callbacks))}. "
                f"Register it with session.callback('{name}', function)"
            )
        found = callbacks[name]
        outbox = checkpoint.outbox(query.name)
        if isinstance(found, PartitionCallback):
            return PartitionCallbackSink(spark, query, found, files, outbox, columns)
        timeout_s = found.timeout_s if isinstance(found, TimedCallback) else None
        return CallbackSink(f"callback {name} of query {query.name}", found, files, outbox, timeout_s)
    if kind == "jdbc":
        return JdbcSink(spark, query, files, checkpoint.outbox(query.name), columns, checkpoint.uid)
    if kind == KAFKA:
        return KafkaSink(spark, query, files, checkpoint.outbox(query.name), columns, checkpoint.uid)
    if kind == "noop":
        return NoopSink()
    raise SetupError(f"query {query.name}: unknown sink {kind}; known: {known_names(SINK_FORMATS)}")
