"""Streams and relations as Spark reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import (
    DateType,
    IntegralType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import HeadgateError, QueryError, SetupError
from headgate.model.kafka import KAFKA, check_stream, reader_options
from headgate.model.network import Column, RelationDefinition, Schema, StreamDefinition
from headgate.runtime.allowance import Portion
from headgate.spark import generated, records, sql
from headgate.spark.file_system import Files
from headgate.spark.records import NO_CONNECTOR
from headgate.spark.source_files import FileScans
from headgate.workload import nexmark
from headgate.workload.generated_stream import GeneratedStream

STREAM = "$stream"
BAD_ROW = records.BAD_ROW

TEXT_FORMATS = ("csv", "json")
FILE_FORMATS = (*TEXT_FORMATS, "parquet", "orc")
STREAM_FORMATS = (*FILE_FORMATS, "rate", "rate-micro-batch", "socket", "kafka", *generated.FORMATS)
# Spark refuses a schema for these: their columns are always the same
FIXED_FORMATS = ("rate", "rate-micro-batch", "socket", "kafka")
# where a format has a column for it, the event time of streams that do not name another
EVENT_TIMES = {"nexmark": nexmark.EVENT_TIME}
# the option by which a source brings no more than so much into a tick, and those by which a user limits it
_LIMITS = {
    **dict.fromkeys(FILE_FORMATS, "maxFilesPerTrigger"),
    **dict.fromkeys(generated.FORMATS, "maxRowsPerTrigger"),
    "kafka": "maxOffsetsPerTrigger",
}
_LIMITS_OF_USERS = {
    option.lower()
    for option in (*_LIMITS.values(), "maxBytesPerTrigger", "minOffsetsPerTrigger", "rowsPerTrigger")
}
# as Spark names them
_SHORT_TYPES = {"long": "bigint", "integer": "int", "timestamp_ltz": "timestamp"}
_PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD_ROW}
# more files of a remote file system are not measured: each one is a request over the network
_MOST_REMOTE_FILES = 16
_GLOB = "*?[{"
# Spark's own, for paths that it has listed itself
_NO_PATTERNS = {"__globPaths__": "false"}
RELATION_FORMATS = (*FILE_FORMATS, "jdbc", "text")


Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)


class Sources:
    """Opens declared streams and relations; ``frames`` are DataFrames that were passed in by name."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files
        self.frames: dict[str, DataFrame] = {}
        self._named = True
        self.names: dict[str, str] = {}
        """By stream, the name of its source, where it is another one."""
        self._scans = FileScans(spark)

    def use_names(self, named: bool) -> None:
        """Whether sources are identified by name; those inside a DataFrame of the user's have none."""
        self._named = named
        self._spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", named)

    def positions(self, streams: Iterable[StreamDefinition]) -> dict[str, int] | None:
        """Position of each stream's source in the plan, after the clock; None if sources have names."""
        if self._named:
            return None
        found, at = {}, 1
        for definition in streams:
            found[definition.name] = at
            if definition.name in self.frames:
                plan: Any = self.frames[definition.name]._jdf.queryExecution().analyzed()
                leaves = plan.collectLeaves()
                at += sum(1 for place in range(leaves.size()) if leaves.apply(place).isStreaming())
            else:
                at += 1
        return found

    def clock(self) -> DataFrame:
        """One row per second, so that the backlog drains when inputs fall silent."""
        reader = self._spark.readStream.format("rate").option("rowsPerSecond", 1)
        return (reader.name("headgate_clock") if self._named else reader).load()

    def schema_of(self, definition: StreamDefinition | RelationDefinition) -> Schema:
        if definition.name in self.frames:
            return schema_from(self.frames[definition.name].schema)
        if isinstance(definition, RelationDefinition):
            return schema_from(self.relation(definition).schema)
        if definition.format in TEXT_FORMATS:
            raise QueryError(
                f"stream {definition.name} needs its columns: "
                f"CREATE STREAM {definition.name} (column TYPE, ...) FROM {definition.format}"
            )
        self._check_path(definition)
        if definition.format in FILE_FORMATS:
            return schema_from(self._inferred(definition))
        return schema_from(self._open_stream(definition).schema)

    def _inferred(self, definition: StreamDefinition) -> StructType:
        """The columns of the first file that can be read."""
        try:
            return self._batch_reader(definition, None).schema
        except Exception as error:
            reader = self._spark.read.options(**dict(definition.options))
            # lists files of any kind without opening them
            for path in sorted(reader.format("binaryFile").load().inputFiles()):
                with suppress(Exception):
                    columns = self.columns_of(definition, path)
                    # folder names may add partition columns
                    return reader.format(definition.format).schema(columns).load().schema
            if isinstance(error, HeadgateError):
                raise
            raise SetupError(f"stream {definition.name}: {first_line(error)}") from error

    def _check_path(self, definition: StreamDefinition | RelationDefinition) -> None:
        if definition.format not in FILE_FORMATS:
            return
        path = _option(definition, "path")
        kind = "stream" if isinstance(definition, StreamDefinition) else "relation"
        if path is None:
            raise SetupError(f"{kind} {definition.name}: {definition.format} needs the option path")
        if not any(c in path for c in _GLOB) and not self._files.exists(path):
            raise SetupError(f"{kind} {definition.name}: no such file or folder: {path}")

    def relation(self, definition: RelationDefinition) -> DataFrame:
        if definition.name in self.frames:
            return self.frames[definition.name]
        self._check_path(definition)
        reader = self._spark.read.format(definition.format).options(**dict(definition.options))
        if definition.schema is not None:
            reader = reader.schema(definition.schema.ddl)
        elif definition.format == "csv" and _option(definition, "inferSchema") is None:
            reader = reader.option("inferSchema", "true")
        try:
            return reader.load()
        except AnalysisException as error:
            raise SetupError(f"relation {definition.name}: {first_line(error)}") from error

    def check(self, definition: StreamDefinition) -> None:
        """Raise if a stream cannot be opened, before anything is written."""
        if definition.name not in self.frames:
            self._check_path(definition)
            self._open_stream(definition)
            if definition.format == KAFKA:
                records.check_topics(self._spark, definition)

    def is_file_stream(self, definition: StreamDefinition) -> bool:
        """Whether the stream's micro-batches are lists of files."""
        return definition.name not in self.frames and definition.format in FILE_FORMATS

    def ends(self, definition: StreamDefinition) -> bool:
        """Whether the stream can come to an end."""
        if definition.name in self.frames or definition.format in FILE_FORMATS:
            return True
        stream = _generated(definition)
        return stream is not None and stream.is_finite

    def is_at_end(self, definition: StreamDefinition, offset: str | None, is_silent: bool) -> bool:
        """Whether a stream has ended: one that is generated by its offset, others once they are silent."""
        stream = _generated(definition)
        if stream is not None and definition.name not in self.frames:
            return offset is not None and generated.is_finished(stream, offset)
        return is_silent

    def present_files(self, definition: StreamDefinition) -> list[str]:
        return list(self._batch_reader(definition, None).inputFiles())

    def has_more_files(self, definition: StreamDefinition, than: int) -> bool:
        """Whether a file stream is known to have more files; False if only a full listing could tell."""
        path = _option(definition, "path")
        if path is None or any(c in path for c in _GLOB):
            return False
        count = self._scans.count(definition, path)
        return count is not None and count > than

    def _open_stream(self, definition: StreamDefinition, most: int | None = None) -> DataFrame:
        stream = _generated(definition)
        if stream is not None:
            # registered only where it is used: Spark starts a Python worker for it
            generated.register(self._spark, definition.format)
        limit = {} if most is None else {_LIMITS[definition.format]: str(most)}
        options = {**self._stream_options(definition), **limit}
        reader = _configured(self._spark.readStream, definition, options)
        try:
            name = self.names.get(definition.name, definition.name)
            frame = (reader.name(name) if self._named else reader).load()
            if stream is not None:
                generated.checked_columns(stream, frame.schema)
            if definition.format == KAFKA:
                return records.parsed(frame, definition)
        except Exception as error:
            if definition.format == KAFKA and not records.has_connector(self._spark):
                raise SetupError(f"stream {definition.name}: {NO_CONNECTOR}") from error
            raise SetupError(f"stream {definition.name}: {first_line(error)}") from error
        _check_columns(definition, frame.schema)
        return frame

    def _stream_options(self, definition: StreamDefinition) -> dict[str, str]:
        """The options for a stream; Spark's file streams read folders, or all files that match a pattern."""
        if definition.format == KAFKA:
            try:
                check_stream(definition)
            except SetupError as error:
                raise SetupError(f"stream {definition.name}: {error}") from None
            return records.patient(reader_options(definition))
        options, path = dict(definition.options), _option(definition, "path")
        if definition.format not in FILE_FORMATS or path is None or any(c in path for c in _GLOB):
            return options
        if not self._files.is_file(path):
            return options
        pattern = re.sub(r"(\w)(?=\W*$)", r"[\1]", path, count=1)
        return {key: pattern if key.lower() == "path" else value for key, value in options.items()}

    def union(self, streams: Iterable[StreamDefinition], most: Mapping[str, int]) -> DataFrame:
        """All streams and the clock; ``most`` is what the first tick takes of a stream, if not all."""
        everything = self.clock().select(F.lit(-1).alias(STREAM))
        for number, definition in enumerate(streams):
            part = self.stream(definition, number, most.get(definition.name))
            everything = everything.unionByName(part, allowMissingColumns=True)
        return everything

    def stream(self, definition: StreamDefinition, number: int, most: int | None = None) -> DataFrame:
        """One branch of the streaming union: the stream's number, and its row unless it consists of files.

        ``most`` are the files or rows that the first tick takes of it; None if it takes all that is there.
        """
        frame = self.frames.get(definition.name) or self._open_stream(definition, most)
        tag = F.lit(number).alias(STREAM)
        if self.is_file_stream(definition):
            # other streams' rows come from the same plan, which must not read the files once more
            return frame.select(tag).where(F.lit(False))
        return frame.select(tag, F.struct("*").alias(f"row{number}"))

    def read_files(self, definition: StreamDefinition, paths: list[str]) -> DataFrame:
        return self._scans.read(definition, paths, lambda: self._batch_reader(definition, paths))

    def columns_of(self, definition: StreamDefinition, path: str) -> StructType:
        options = {k: v for k, v in definition.options if k.lower() != "path"}
        reader = self._spark.read.format(definition.format).options(**options, **_NO_PATTERNS)
        return reader.load(path).schema

    def rows_of(self, definition: StreamDefinition, path: str) -> int:
        assert definition.format == "parquet"
        return self._files.parquet_rows(path)

    def local_bytes(self, paths: Sequence[str]) -> float:
        """Total length of some files; infinite if one is not on a disk of this machine."""
        return self.total_bytes(paths) if all(map(self._files.is_local, paths)) else inf

    def total_bytes(self, paths: Sequence[str]) -> float:
        """Total length of some files; infinite if finding out would take too long."""
        if len(paths) > _MOST_REMOTE_FILES and not all(map(self._files.is_local, paths)):
            return inf
        return sum(map(self._files.length_bytes, paths))

    def _batch_reader(self, definition: StreamDefinition, paths: list[str] | None) -> DataFrame:
        options = {k: v for k, v in definition.options if paths is None or k.lower() != "path"}
        # names of files are no patterns
        named = {} if paths is None else _NO_PATTERNS
        reader = _configured(self._spark.read, definition, {**options, **named})
        try:
            return reader.load() if paths is None else reader.load(paths)
        except AnalysisException as error:
            raise SetupError(f"stream {definition.name}: {first_line(error)}") from error


def portion_of(definition: StreamDefinition, rows: int) -> Portion | None:
    """What a tick takes of a stream at first; None if its source has no limit, or one of the user's."""
    given = {name.lower() for name, _ in definition.options}
    if definition.format not in _LIMITS or not given.isdisjoint(_LIMITS_OF_USERS):
        return None
    return Portion(1, of_files=True) if definition.format in FILE_FORMATS else Portion(rows)


def _generated(definition: StreamDefinition) -> GeneratedStream | None:
    """A stream that we generate, None for others; its options are checked before Spark sees them."""
    if definition.format not in generated.FORMATS:
        return None
    try:
        return generated.parsed(definition.format, dict(definition.options))
    except SetupError as error:
        raise SetupError(f"stream {definition.name}: {error}") from None


def _configured(reader: Reader, definition: StreamDefinition, options: Mapping[str, str]) -> Reader:
    """A reader of the declared columns, and of one more for rows that do not parse."""
    is_text = definition.format in TEXT_FORMATS
    reader = reader.format(definition.format).options(**options)
    if definition.schema is not None and definition.format not in FIXED_FORMATS:
        reader = reader.schema(definition.schema.ddl + (f", `{BAD_ROW}` STRING" if is_text else ""))
    return reader.options(**_PERMISSIVE) if is_text else reader


def _check_columns(definition: StreamDefinition, brought: StructType) -> None:
    """Refuse declared columns that a source with columns of its own does not bring."""
    if definition.format not in FIXED_FORMATS or definition.schema is None:
        return
    own = {field.name.lower(): field.dataType.simpleString() for field in brought.fields}
    for column in definition.schema.columns:
        found, declared = own.get(column.name.lower()), column.type.strip().lower()
        if found is None or found != _SHORT_TYPES.get(declared, declared):
            columns = ", ".join(f"{field.name} {field.dataType.simpleString().upper()}" for field in brought)
            raise SetupError(
                f"stream {definition.name}: {definition.format} has no column {column.name} "
                f"{column.type}; its columns are {columns}"
            )


def schema_from(struct: StructType) -> Schema:
    fields = (f for f in struct.fields if f.name != BAD_ROW and not sql.is_system(f.name))
    return Schema(tuple(Column(f.name, f.dataType.simpleString()) for f in fields))


def schema_of_frame(what: str, given: Any, is_streaming: bool) -> Schema:
    """The columns of a DataFrame that a user declares as ``what``; raises if it is another thing."""
    if not isinstance(given, DataFrame) or not hasattr(given, "_jdf"):
        kind = f"{type(given).__module__}.{type(given).__qualname__}"
        raise SetupError(f"{what}: {kind} is not a Spark DataFrame; make one with spark.createDataFrame")
    if given.isStreaming != is_streaming:
        advice = "is not streaming; use session.relation, or readStream"
        raise SetupError(
            f"{what}: the DataFrame {advice if is_streaming else 'is streaming; use session.stream'}"
        )
    return schema_from(given.schema)


def timestamp_us(raw: StructType, definition: StreamDefinition) -> str:
    """A stream's timestamp in microseconds, as an expression; numbers are seconds, invalid ones NULL."""
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


def first_line(error: BaseException) -> str:
    lines = str(error).strip().split("\n")
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return lines[1].lstrip(": ")
    return lines[0]


def _option(definition: StreamDefinition | RelationDefinition, key: str) -> str | None:
    return {k.lower(): v for k, v in definition.options}.get(key.lower())
