"""Streams and relations as Spark reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.errors import HeadgateError, QueryError, SetupError
from headgate.model.network import RelationDefinition, StreamDefinition
from headgate.model.schema import Column, Schema
from headgate.spark import burst
from headgate.spark.file_scans import FileScans
from headgate.spark.files import Files

STREAM = "$stream"
BAD_ROW = "_headgate_bad_row"

TEXT_FORMATS = ("csv", "json")
FILE_FORMATS = (*TEXT_FORMATS, "parquet", "orc")
STREAM_FORMATS = (*FILE_FORMATS, "rate", "rate-micro-batch", "socket", "kafka", "burst")
_PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD_ROW}
# where each one is a request over the network
_MOST_REMOTE_FILES = 16
_GLOB = "*?[{"
RELATION_FORMATS = (*FILE_FORMATS, "jdbc", "text")


class Sources:
    """Opens declared streams and relations; Python may hand in DataFrames under a name."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files
        self.frames: dict[str, DataFrame] = {}
        self._named = True
        self._scans = FileScans(spark)

    def use_names(self, named: bool) -> None:
        """Whether sources are told apart by name; those inside of a DataFrame handed in have none."""
        self._named = named
        self._spark.conf.set(
            "spark.sql.streaming.queryEvolution.enableSourceEvolution", "true" if named else "false"
        )

    def positions(self, streams: Iterable[StreamDefinition]) -> dict[str, int] | None:
        """Where each stream's source stands in the plan, behind the clock; None if names tell."""
        if self._named:
            return None
        found, at = {}, 1
        for definition in streams:
            found[definition.name] = at
            frame = self.frames.get(definition.name)
            at += 1 if frame is None else _streaming_leaves(frame)
        return found

    def clock(self) -> DataFrame:
        """A row a second, so that backlog drains when inputs fall silent."""
        reader = self._spark.readStream.format("rate").option("rowsPerSecond", 1)
        return (reader.name("headgate_clock") if self._named else reader).load()

    def schema_of(self, definition: StreamDefinition | RelationDefinition) -> Schema:
        """The schema that a source brings itself, where none is declared."""
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
            options = dict(definition.options)
            # lists files of any kind, and opens none
            listed = self._spark.read.format("binaryFile").options(**options).load().inputFiles()
            for path in sorted(listed):
                with suppress(Exception):
                    columns = self.columns_of(definition, path)
                    # folders may stand for more columns
                    reader = self._spark.read.format(definition.format).schema(columns)
                    return reader.options(**options).load().schema
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
        """A stored relation."""
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
        """Fail early, before anything is written."""
        if definition.name not in self.frames:
            self._check_path(definition)
            self._open_stream(definition)

    def is_file_stream(self, definition: StreamDefinition) -> bool:
        """Whether the stream's micro-batches are lists of files."""
        return definition.name not in self.frames and definition.format in FILE_FORMATS

    def ends(self, definition: StreamDefinition) -> bool:
        """Whether the stream can come to an end."""
        if definition.name in self.frames or definition.format in FILE_FORMATS:
            return True
        return definition.format == "burst" and _option(definition, "duration") is not None

    def is_at_end(self, definition: StreamDefinition, offset: str | None, earlier: str | None) -> bool:
        """Whether no later micro-batch will bring anything of a stream, as far as its offsets tell."""
        if definition.format == "burst" and definition.name not in self.frames:
            return offset is not None and burst.is_finished(dict(definition.options), offset)
        return offset == earlier

    def present_files(self, definition: StreamDefinition) -> list[str]:
        """The files that a file stream consists of now."""
        return list(self._batch_reader(definition, None).inputFiles())

    def has_more_files(self, definition: StreamDefinition, than: int) -> bool:
        """Whether a file stream certainly consists of more files; False if only a full listing could tell."""
        path = _option(definition, "path")
        if path is None or any(c in path for c in _GLOB):
            return False
        count = self._scans.count(definition, path)
        return count is not None and count > than

    def _open_stream(self, definition: StreamDefinition) -> DataFrame:
        options = dict(definition.options)
        if definition.format == "burst":
            # Spark starts a Python worker to hear of it: for those only who use it
            burst.register(self._spark)
        reader = self._spark.readStream.format(definition.format).options(**options)
        if definition.schema is not None and definition.format != "rate":
            reader = reader.schema(stream_ddl(definition))
        if definition.format in TEXT_FORMATS:
            reader = reader.options(**_PERMISSIVE)
        try:
            return (reader.name(definition.name) if self._named else reader).load()
        except Exception as error:
            raise SetupError(f"stream {definition.name}: {first_line(error)}") from error

    def stream(self, definition: StreamDefinition, number: int) -> DataFrame:
        """One branch of the streaming union: the stream's number and its row in a struct.

        Rows of file streams are not carried: the engine reads their files itself.
        """
        if definition.name in self.frames:
            frame = self.frames[definition.name]
        else:
            frame = self._open_stream(definition)
        tag = F.lit(number).alias(STREAM)
        if self.is_file_stream(definition):
            # other streams' rows come from the same plan, which must not read the files once more
            return frame.select(tag).where(F.lit(False))
        return frame.select(tag, F.struct("*").alias(f"row{number}"))

    def read_files(self, definition: StreamDefinition, paths: list[str]) -> DataFrame:
        """The rows of some of a file stream's files."""
        return self._scans.read(definition, paths, lambda: self._batch_reader(definition, paths))

    def columns_of(self, definition: StreamDefinition, path: str) -> StructType:
        """The columns of one file, whatever is declared."""
        options = {k: v for k, v in definition.options if k.lower() != "path"}
        return self._spark.read.format(definition.format).options(**options).load(path).schema

    def rows_of(self, definition: StreamDefinition, path: str) -> int:
        """How many rows a file holds; only formats that tell can be asked."""
        assert definition.format == "parquet"
        return self._files.parquet_rows(path)

    def local_bytes(self, paths: Sequence[str]) -> float:
        """The length of some files together; beyond all bounds if one is not on a disk of this machine."""
        return self.total_bytes(paths) if all(map(self._files.is_local, paths)) else inf

    def total_bytes(self, paths: Sequence[str]) -> float:
        """The length of some files together; beyond all bounds if finding out would take too long."""
        if len(paths) > _MOST_REMOTE_FILES and not all(map(self._files.is_local, paths)):
            return inf
        return sum(map(self._files.length_bytes, paths))

    def _batch_reader(self, definition: StreamDefinition, paths: list[str] | None) -> DataFrame:
        options = {k: v for k, v in definition.options if paths is None or k.lower() != "path"}
        reader = self._spark.read.format(definition.format).options(**options)
        if definition.schema is not None:
            reader = reader.schema(stream_ddl(definition))
        if definition.format in TEXT_FORMATS:
            reader = reader.options(**_PERMISSIVE)
        try:
            return reader.load() if paths is None else reader.load(paths)
        except AnalysisException as error:
            raise SetupError(f"stream {definition.name}: {first_line(error)}") from error


def stream_ddl(definition: StreamDefinition) -> str:
    """The declared columns, with one more for rows that do not parse."""
    assert definition.schema is not None
    bad = f", `{BAD_ROW}` STRING" if definition.format in TEXT_FORMATS else ""
    return definition.schema.ddl + bad


def schema_from(struct: StructType) -> Schema:
    """A Spark schema in our words."""
    fields = (f for f in struct.fields if f.name != BAD_ROW)
    return Schema(tuple(Column(f.name, f.dataType.simpleString()) for f in fields))


def first_line(error: BaseException) -> str:
    """What Spark has to say, without its stack of details."""
    lines = str(error).strip().split("\n")
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return lines[1].lstrip(": ")
    return lines[0]


def _streaming_leaves(frame: DataFrame) -> int:
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    return sum(1 for i in range(leaves.size()) if leaves.apply(i).isStreaming())


def _option(definition: StreamDefinition | RelationDefinition, key: str) -> str | None:
    options: Mapping[str, str] = {k.lower(): v for k, v in definition.options}
    return options.get(key.lower())
