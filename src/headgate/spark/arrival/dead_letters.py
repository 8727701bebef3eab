"""Dead letters: late and malformed rows, and files that cannot be read, each with the reason.

No job inspects files beforehand. When a job of a tick fails, the files of its micro-batch are read again by
halves until the culprits are found, and the tick is retried without them. Only the dead letters outlive the
tick: after a crash the same files are set aside, unless they have been repaired in the meantime.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import HeadgateError, SetupError
from headgate.model.event import StreamCounts
from headgate.model.network import StreamDefinition
from headgate.spark import sql
from headgate.spark.arrival.bad_rows import with_reason
from headgate.spark.arrival.late_rows import FARTHEST_US, RawRows
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.file_system import Files
from headgate.spark.physical_plans import MeasuredQuery
from headgate.spark.sinks import FileSink
from headgate.spark.sources import BAD_ROW, TEXT_FORMATS, Sources, first_line
from headgate.spark.sql import TS
from headgate.spark.user_functions import is_of_user_code

if TYPE_CHECKING:
    from headgate.spark.arrival.intake import Arrival


class DeadLetters:
    """Parquet files below the checkpoint: stream, query, batch, reason, ts, row.

    Rows that are bad for one query only, because an expression of its own fails, name that query.
    """

    def __init__(self, files: Files, checkpoint: Checkpoint) -> None:
        self.path = checkpoint.dead_letters
        self._sink = FileSink(files, "parquet", self.path, {}, checkpoint.uid)
        self._written: set[int] = set()

    def write(self, rows: MeasuredQuery, batch_id: int) -> None:
        """Write rows that are set aside; they measure their number as ``rows``."""
        self._sink.write(rows, batch_id, slice_number=0)
        if rows.found["rows"]:
            self._written.add(batch_id)

    def discard_after(self, batch_id: int) -> None:
        """Remove rows set aside by ticks that are re-executed."""
        self._sink.discard_after(batch_id)

    def publish(self, batch_id: int) -> None:
        """Add the rows of a tick to the table."""
        if batch_id in self._written:
            self._sink.publish(batch_id, rows=1, slices=[0], keep_ratio=1.0)
            self._written.discard(batch_id)


_GONE = "it is no longer there"
_EMPTY = "it is empty"


@dataclass(frozen=True)
class BadFile:
    """A file that is set aside; ``path`` is as in Spark's source log."""

    path: str
    reason: str


class Quarantine:
    """The unreadable files of the current tick."""

    def __init__(self, spark: SparkSession, sources: Sources) -> None:
        self._jvm: Any = spark._jvm
        self._files = Files(spark)
        self._sources = sources
        self._batch_id = -1
        self._taken: dict[str, tuple[StreamDefinition, list[str]]] = {}
        self._aside: dict[str, list[BadFile]] = {}

    def readable(self, definition: StreamDefinition, files: Sequence[str], batch_id: int) -> list[str]:
        """The files of a stream in a micro-batch, without those that are set aside."""
        if batch_id != self._batch_id:
            self._batch_id = batch_id
            self._taken, self._aside = {}, {}
        name = definition.name
        if name not in self._aside:
            self._aside[name] = [] if definition.format in TEXT_FORMATS else list(self._empty(files))
        bad = {file.path for file in self._aside[name]}
        good = [path for path in files if path not in bad]
        self._taken[name] = definition, good
        return good

    def _empty(self, files: Sequence[str]) -> list[BadFile]:
        """Empty local columnar files, which Spark would skip silently."""
        local = [path for path in files if self._files.is_local(path)]
        return [_unreadable(path, _EMPTY) for path in local if self._is_empty(path)]

    def _is_empty(self, path: str) -> bool:
        try:
            return self._files.length_bytes(path) == 0
        except FileNotFoundError:
            # the job that reads it will fail
            return False

    def blame(self, error: Exception) -> None:
        """Set aside the files that made the tick fail; raises ``error`` if no file did."""
        if not _may_come_from_a_file(error):
            raise error
        found = {name: self._bad_files(*taken) for name, taken in self._taken.items()}
        if not any(found.values()):
            raise error
        for name, bad in found.items():
            self._aside[name] += bad

    def _bad_files(self, definition: StreamDefinition, files: Sequence[str]) -> list[BadFile]:
        def failure(paths: Sequence[str]) -> Exception | None:
            return self._failure(definition, paths)

        return [self._bad_file(definition, path, error) for path, error in culprits(files, failure)]

    def _failure(self, definition: StreamDefinition, paths: Sequence[str]) -> Exception | None:
        """The error raised by reading every column of some files, if any."""
        columnar = definition.format not in TEXT_FORMATS
        try:
            if columnar and any(self._files.length_bytes(path) == 0 for path in paths):
                raise SetupError(_EMPTY)
            _read_through(self._sources.read_files(definition, list(paths)))
        except Exception as error:
            return error
        return None

    def _bad_file(self, definition: StreamDefinition, path: str, error: Exception) -> BadFile:
        # raises if the file system itself does not answer, which is not the file's fault
        if not self._files.exists(path):
            return _unreadable(path, _GONE)
        mismatch = self._mismatch(definition, path)
        return BadFile(path, mismatch) if mismatch else _unreadable(path, self._cause(error))

    def _mismatch(self, definition: StreamDefinition, path: str) -> str | None:
        """The column whose type in the file cannot be read as the declared one, if there is any."""
        if definition.format in TEXT_FORMATS:
            return None
        try:
            own = {field.name.lower(): field.dataType for field in self._sources.columns_of(definition, path)}
        except Exception:
            return None
        whole = self._sources.read_files(definition, [path])
        for field in whole.schema.fields:
            found = own.get(field.name.lower(), field.dataType)
            if found != field.dataType and _fails(whole.select(sql.name(field.name))):
                kinds = found.simpleString().upper(), field.dataType.simpleString().upper()
                return f"column {field.name} is {kinds[0]}, declared {kinds[1]}"
        return None

    def _cause(self, error: Exception) -> str:
        """The message of the root cause, in one line."""
        java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        if java is None:
            return first_line(error)
        utilities = self._jvm.org.apache.commons.lang3.exception.ExceptionUtils
        return str(utilities.getRootCauseMessage(java)).strip().split("\n")[0]

    def record(self, arrivals: Mapping[str, Arrival], batch_id: int) -> dict[str, Arrival]:
        """Arrivals with the files set aside: counted, and with dead letters that give the reason."""
        return {name: self._record(name, arrival, batch_id) for name, arrival in arrivals.items()}

    def _record(self, stream: str, arrival: Arrival, batch_id: int) -> Arrival:
        bad = self._aside.get(stream)
        if not bad:
            return arrival
        counts = StreamCounts(files_set_aside=len(bad))
        letters = [_file_letter(stream, batch_id, file) for file in bad]
        return replace(
            arrival,
            counts=arrival.counts + counts,
            state=replace(arrival.state, totals=arrival.state.totals + counts),
            dead_letters=sql.union([arrival.dead_letters, *letters]),
        )


def culprits(
    files: Sequence[str], failure: Callable[[Sequence[str]], Exception | None]
) -> list[tuple[str, Exception]]:
    """The files that fail on their own, each with its error, found by reading halves."""
    if not files:
        return []
    error = failure(files)
    if error is None:
        return []
    if len(files) == 1:
        return [(files[0], error)]
    half = len(files) // 2
    return culprits(files[:half], failure) + culprits(files[half:], failure)


def _may_come_from_a_file(error: Exception) -> bool:
    """Whether a file may be at fault, rather than user code or a check of ours."""
    if isinstance(error, HeadgateError):
        # errors of Spark about a path are passed on as setup errors
        return isinstance(error.__cause__, PySparkException)
    if isinstance(error, OSError):
        return not isinstance(error, InterruptedError)
    return isinstance(error, (Py4JJavaError, PySparkException)) and not is_of_user_code(error)


def _unreadable(path: str, why: str) -> BadFile:
    return BadFile(path, f"the file cannot be read: {why}")


def _fails(frame: DataFrame) -> bool:
    try:
        _read_through(frame)
    except Exception:
        return True
    return False


def _read_through(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def row_letters(rows: RawRows, query: str, batch_id: int, is_late: bool = False) -> str:
    """Bad or late rows as rows of the dead-letter table."""
    own = [sql.name(field.name) for field in rows.columns.fields if field.name != BAD_ROW]
    row, ts = f"to_json(struct({', '.join(own)}))", sql.name(TS)
    if is_late:
        reason = "'late: older than the watermark allows'"
    else:
        query, reason = with_reason(rows, query)
        row = f"coalesce({BAD_ROW}, {row})" if BAD_ROW in rows.columns.names else row
    # what no timestamp can hold has no place in a timestamp column
    shown = f"CASE WHEN abs({ts}) < {FARTHEST_US}L THEN timestamp_micros({ts}) END"
    return sql.select(_letter(rows.definition.name, batch_id, reason, shown, row), query)


def _file_letter(stream: str, batch_id: int, file: BadFile) -> str:
    return notice_letter(stream, batch_id, file.reason, {"file": file.path})


def notice_letter(stream: str, batch_id: int, reason: str, place: Mapping[str, object]) -> str:
    """A letter about rows that could not be read; ``place`` states where they are."""
    row = sql.text(json.dumps(place, ensure_ascii=False))
    items = _letter(stream, batch_id, sql.text(reason), "CAST(NULL AS TIMESTAMP)", row)
    return f"SELECT {', '.join(items)}"


def value_letters(
    tuples: str,
    errors: Sequence[tuple[str, str]],
    columns: Sequence[str],
    queries: Sequence[str],
    streams: Sequence[str],
    batch_id: int,
) -> str:
    """Tuples for which an expression failed, as dead letters of every query that evaluates it.

    ``errors`` are expressions as they were written, and the SQL of the error that each raised or NULL.
    """
    reasons = [f"concat({sql.text(f'{written}: ')}, {error})" for written, error in errors]
    row = ", ".join(f"{sql.name(c)} AS {sql.name(shown)}" for c, shown in _shown_columns(columns).items())
    items = _letter(
        ", ".join(streams),
        batch_id,
        f"coalesce({', '.join(reasons)})",
        f"timestamp_micros({sql.name(TS)})",
        f"to_json(struct({row}))",
        f"explode(array({', '.join(map(sql.text, queries))}))",
    )
    return sql.select(items, tuples, [" OR ".join(f"{error} IS NOT NULL" for _, error in errors)])


def _shown_columns(columns: Sequence[str]) -> dict[str, str]:
    """Plan columns, and their names in a letter: with the alias of their stream where that is needed."""
    short = {column: column.partition("__")[2] or column for column in columns}
    several = {name for name, count in Counter(short.values()).items() if count > 1}
    return {c: c.replace("__", ".", 1) if name in several else name for c, name in short.items()}


def _letter(
    stream: str, batch_id: int, reason: str, ts: str, row: str, query: str = "CAST(NULL AS STRING)"
) -> list[str]:
    columns = {
        "stream": sql.text(stream),
        "query": query,
        "batch": f"{batch_id}L",
        "reason": reason,
        "ts": ts,
        "row": row,
    }
    return [f"{value} AS {name}" for name, value in columns.items()]
