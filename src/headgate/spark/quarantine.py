"""Files that cannot be read are set aside, so that they end no run.

No job looks at files beforehand. When a job of a tick fails, the files of its micro-batch are read again by
halves until those at fault are found, and the tick is tried again without them. Nothing of this outlives the
tick but its dead letters, which become durable with the tick: after a crash it comes to the same decision, or
reads a file that has been mended in the meantime.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import HeadgateError, SetupError
from headgate.model.event import StreamCounts
from headgate.model.network import StreamDefinition
from headgate.spark import sql
from headgate.spark.faults import is_of_user_code
from headgate.spark.files import Files
from headgate.spark.sources import TEXT_FORMATS, Sources, first_line

if TYPE_CHECKING:
    from headgate.spark.intake import Arrival

_GONE = "it is no longer there"
_EMPTY = "it is empty"


@dataclass(frozen=True)
class BadFile:
    """A file that is set aside; ``path`` is its address in Spark's source log."""

    path: str
    reason: str


class Quarantine:
    """Keeps the bad files of the tick under way."""

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
        """Columnar files without a byte, which Spark skips in silence; known of local ones at no cost."""
        local = [path for path in files if self._files.is_local(path)]
        return [_unreadable(path, _EMPTY) for path in local if self._is_empty(path)]

    def _is_empty(self, path: str) -> bool:
        try:
            return self._files.length_bytes(path) == 0
        except FileNotFoundError:
            # the job that reads it will tell
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
        """What reading every column of some files raises."""
        columnar = definition.format not in TEXT_FORMATS
        try:
            if columnar and any(self._files.length_bytes(path) == 0 for path in paths):
                raise SetupError(_EMPTY)
            _read_through(self._sources.read_files(definition, list(paths)))
        except Exception as error:
            return error
        return None

    def _bad_file(self, definition: StreamDefinition, path: str, error: Exception) -> BadFile:
        # raises where the file system itself does not answer: that is no fault of the file
        if not self._files.exists(path):
            return _unreadable(path, _GONE)
        mismatch = self._mismatch(definition, path)
        return BadFile(path, mismatch) if mismatch else _unreadable(path, self._cause(error))

    def _mismatch(self, definition: StreamDefinition, path: str) -> str | None:
        """The column whose type in the file cannot be read as the declared one, if that is the fault."""
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
        """What the innermost of Java's errors says, in one line."""
        java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        if java is None:
            return first_line(error)
        utilities = self._jvm.org.apache.commons.lang3.exception.ExceptionUtils
        return str(utilities.getRootCauseMessage(java)).strip().split("\n")[0]

    def noted(self, arrivals: Mapping[str, Arrival], batch_id: int) -> dict[str, Arrival]:
        """Arrivals that count the files set aside, and say why."""
        return {name: self._noted(name, arrival, batch_id) for name, arrival in arrivals.items()}

    def _noted(self, stream: str, arrival: Arrival, batch_id: int) -> Arrival:
        bad = self._aside.get(stream)
        if not bad:
            return arrival
        counts = StreamCounts(files_set_aside=len(bad))
        letters = [_letter(stream, batch_id, file) for file in bad]
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
    """Whether reading files again can tell more: not if code of the user's failed, or a check of ours."""
    if isinstance(error, HeadgateError):
        # what Spark says of a path is passed on as an error of the setup
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


def _letter(stream: str, batch_id: int, file: BadFile) -> str:
    items = [
        f"{sql.text(stream)} AS stream",
        f"{batch_id}L AS batch",
        f"{sql.text(file.reason)} AS reason",
        "CAST(NULL AS TIMESTAMP) AS ts",
        f"{sql.text(json.dumps({'file': unquote(file.path)}, ensure_ascii=False))} AS row",
    ]
    return f"SELECT {', '.join(items)}"
