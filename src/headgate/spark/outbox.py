"""Results on their way out of the checkpoint: to callbacks, to Kafka, into databases.

What has left cannot be taken back, and a tick that is executed again may process other tuples. Results are
therefore staged below the checkpoint, then the manifest is written, and only then are they delivered. After a
crash, staged results of a committed tick are delivered as they are; those of a tick that did not happen are
removed. So a batch id always stands for the same rows.
"""

from __future__ import annotations

import logging
import re
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.errors import DamagedStateError, HeadgateError, SetupError, known_names
from headgate.model.network import QueryDefinition
from headgate.runtime.usercode import Guarded, user_code_error_in
from headgate.spark.file_system import Files
from headgate.spark.history import compare, take_fingerprint
from headgate.spark.manifest import Fingerprint
from headgate.spark.physical_plans import MeasuredQuery, Target
from headgate.spark.sealed_document import decode, seal, unseal
from headgate.spark.sql import TS
from headgate.spark.user_functions import last_traceback, process_ended

_LOG = logging.getLogger(__name__)

KEEP_RATIO = "headgate.keep_ratio"
_RETRY_AFTER_S = 2.0


class DeliveringSink(ABC):
    """A sink whose results leave after the commit of their tick. ``folder`` is where they are staged."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._waiting: list[int] = []

    def _place(self, batch_id: int) -> str:
        return f"{self._folder}/{batch_id:09d}"

    def discard_after(self, batch_id: int) -> None:
        """Remove staged results of later ticks, which did not happen, and find those that wait."""
        staged = {int(name) for name in self._files.names(self._folder) if re.fullmatch(r"\d{9,}", name)}
        for later in sorted(staged):
            if later > batch_id:
                self._files.delete(self._place(later))
        self._waiting = sorted(one for one in staged if one <= batch_id)

    def deliver(self) -> None:
        """Deliver all staged results, in the order of their ticks; called when these are committed."""
        while self._waiting:
            batch_id = self._waiting[0]
            if not self._deliver(batch_id):
                return
            self._remove(self._place(batch_id))
            self._waiting.pop(0)

    def _remove(self, place: str) -> None:
        """Remove results that have been delivered."""
        self._files.delete(place)

    @abstractmethod
    def _deliver(self, batch_id: int) -> bool:
        """Deliver the results of a tick; False if they have to wait for the next run."""

    def hurry(self) -> None:  # noqa: B027
        """Note that the run is being stopped."""

    def close(self) -> None:  # noqa: B027
        """Let go of what is open."""


# Spark reads no file with such a name
_STAGED = "_staged.json"
_DELIVERED = ".delivered"


@dataclass(frozen=True)
class Staged:
    """The files of staged results, by which a later run verifies them."""

    files: Fingerprint


class StagedSink(DeliveringSink):
    """Stages results as Parquet files; ``columns`` are those of results.

    Delivery waits while the other end is away, unless the run is being stopped.
    """

    def __init__(
        self, spark: SparkSession, query: QueryDefinition, files: Files, folder: str, columns: StructType
    ) -> None:
        super().__init__(files, folder)
        self._spark = spark
        self._query = query.name
        self._columns = StructType([field for field in columns.fields if field.name != TS])
        self._resumed_after = -1
        """The last tick of the runs before this one."""
        self._is_hurried = threading.Event()

    def target(self, batch_id: int, slice_number: int) -> Target:
        """A folder below the checkpoint."""
        return Target("parquet", (), f"{self._place(batch_id)}/{slice_number}")

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Stage them."""
        results.save(self.target(batch_id, slice_number))

    def publish(self, batch_id: int, rows: int, slices: Sequence[int], keep_ratio: float) -> None:
        """Note what is to be delivered."""
        if not rows:
            self._files.delete(self._place(batch_id))
            return
        # of an earlier attempt at the tick, more slices may be there
        for name in self._files.names(self._place(batch_id)):
            if name not in map(str, slices):
                self._files.delete(f"{self._place(batch_id)}/{name}")
        staged = Staged(take_fingerprint(self._files, self._place(batch_id), ours=True))
        self._files.write_text(f"{self._place(batch_id)}/{_STAGED}", seal(staged))
        self._waiting.append(batch_id)

    def discard_after(self, batch_id: int) -> None:
        """Go on after this tick."""
        for name in self._files.names(self._folder):
            if name.endswith(_DELIVERED):
                self._remove(f"{self._folder}/{name.removesuffix(_DELIVERED)}")
        super().discard_after(batch_id)
        self._resumed_after = batch_id

    def _remove(self, place: str) -> None:
        # a folder goes file by file; if that is cut short, what is left is marked as delivered
        self._files.write_text(f"{place}{_DELIVERED}", "")
        super()._remove(place)
        self._files.delete(f"{place}{_DELIVERED}")

    def hurry(self) -> None:
        """Wait no longer for the other end: the next run delivers what is staged."""
        self._is_hurried.set()

    def _deliver(self, batch_id: int) -> bool:
        is_reported = False
        if batch_id <= self._resumed_after:
            self._check(self._place(batch_id))
        while True:
            try:
                self._send(batch_id)
                return True
            except Exception as error:
                outage = self._outage(error)
                if not is_reported:
                    _LOG.warning("query %s: %s; waiting for it", self._query, outage)
                is_reported = True
            self.close()
            if self._is_hurried.wait(_RETRY_AFTER_S):
                return False

    def _check(self, place: str) -> None:
        """Raise if results staged by a run before this one are not what it wrote."""
        record = f"{place}/{_STAGED}"
        if not self._files.exists(record):
            # of an earlier version
            return
        try:
            known = decode(Staged, unseal(self._files.read_text(record))).files
        except (HeadgateError, ValueError, OSError) as error:
            raise _lost(f"{record} is damaged: {error}", place, f"query {self._query}") from error
        if damages := compare(self._files, place, place, known):
            raise _lost(str(damages[0]), place, f"query {self._query}")

    @abstractmethod
    def _send(self, batch_id: int) -> None:
        """Deliver the staged results of a tick, unless it was delivered before."""

    def _outage(self, error: Exception) -> str:
        """Describe an error that passes once the other end is back; raises any other error."""
        raise error

    def _staged(self, batch_id: int) -> DataFrame:
        """The rows of a tick; the place of each in its file never changes."""
        slices = [name for name in self._files.names(self._place(batch_id)) if name != _STAGED]
        folders = [f"{self._place(batch_id)}/{name}" for name in slices]
        return self._spark.read.schema(self._columns).parquet(*folders)


def _lost(damage: str, place: str, whose: str) -> DamagedStateError:
    advice = f"these results of {whose} were not delivered; remove {place} to go on without them"
    return DamagedStateError(f"{damage}; {advice}")


def key_columns(query: QueryDefinition, columns: StructType) -> list[str]:
    """The columns that the option ``key`` of a sink names, as they are spelled in the results."""
    given = {name.lower(): value for name, value in query.sink.options}.get("key", "")
    known = {name.lower(): name for name in columns.names}
    written = [name.strip() for name in given.split(",") if name.strip()]
    if unknown := [name for name in written if name.lower() not in known]:
        listed = known_names(columns.names)
        raise SetupError(f"query {query.name}: key {unknown[0]} is no column; columns: {listed}")
    return [known[name.lower()] for name in written]


PartitionFunction = Callable[[Iterator[pa.RecordBatch], int, int], None]
# the function of ours that a traceback shows around a call
_CALL = "call"


@dataclass(frozen=True)
class PartitionCallback:
    """A callback that executors call: with Arrow batches, the batch id and the number of a partition."""

    name: str
    function: PartitionFunction


class PartitionCallbackSink(StagedSink):
    """Hands every batch to a Python function on the executors, a partition in each call.

    After a crash, a batch may be delivered twice, with the same id and the same rows.
    """

    def __init__(
        self,
        spark: SparkSession,
        query: QueryDefinition,
        callback: PartitionCallback,
        files: Files,
        folder: str,
        columns: StructType,
    ) -> None:
        super().__init__(spark, query, files, folder, columns)
        self._function = callback.function
        self._what = f"callback {callback.name} of query {query.name}"

    def _outage(self, error: Exception) -> str:
        def what(file: str, function: str) -> str | None:
            return self._what if (file, function) == (__file__, _CALL) else None

        text = str(error)
        ended = process_ended(text, f"calls {self._what}")
        raise user_code_error_in(last_traceback(text), what) or ended or error

    def _send(self, batch_id: int) -> None:
        function = self._function

        # uses nothing of this package: executors need not have it
        def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            function(batches, batch_id, context.partitionId())
            # a function may leave some of its rows alone
            for _ in batches:
                pass
            return iter(())

        assert call.__name__ == _CALL
        called = self._staged(batch_id).mapInArrow(call, "nothing BOOLEAN")
        called.write.format("noop").mode("append").save()


class CallbackSink(DeliveringSink):
    """Hands every batch to a Python function on the driver, as an Arrow table with its batch id.

    After a crash, a batch may be delivered twice: with the same id, and the same rows. The table's metadata
    state which share of the source tuples it is based on. A function that fails ends the run; the next one
    begins with the same call.
    """

    def __init__(
        self, what: str, function: object, files: Files, folder: str, timeout_s: float | None = None
    ) -> None:
        super().__init__(files, folder)
        assert callable(function)
        self.call = Guarded(what, function, timeout_s)
        self._ready: dict[int, pa.Table] = {}

    def target(self, batch_id: int, slice_number: int) -> None:
        """None: the function gets a batch as a whole."""

    def write(self, results: MeasuredQuery, batch_id: int, slice_number: int) -> None:
        """Keep the rows for the function."""
        with results.observed() as frame:
            self._ready[batch_id] = frame.toArrow()

    def publish(self, batch_id: int, rows: int, slices: Sequence[int], keep_ratio: float) -> None:
        """Stage the rows, as they will be handed over."""
        table = self._ready.pop(batch_id)
        if rows:
            table = table.replace_schema_metadata({KEEP_RATIO: repr(keep_ratio)})
            stream = pa.BufferOutputStream()
            with pa.ipc.new_stream(stream, table.schema) as writer:
                writer.write_table(table)
            self._files.write_bytes(self._place(batch_id), sealed(stream.getvalue().to_pybytes()))
            self._ready[batch_id] = table
            self._waiting.append(batch_id)

    def _deliver(self, batch_id: int) -> bool:
        table = self._ready.pop(batch_id, None)
        if table is None:
            # staged by a run before this one
            table = self._read(self._place(batch_id))
        self.call(table, batch_id)
        return True

    def _read(self, place: str) -> pa.Table:
        try:
            return pa.ipc.open_stream(unsealed(self._files.read_bytes(place))).read_all()
        except (ValueError, OSError) as error:
            # Arrow's own errors are of these kinds too
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise _lost(f"{place} is damaged: {reason}", place, self.call.what) from error

    def hurry(self) -> None:
        """Give a call that is under way a last grace period."""
        self.call.hurry()


# no stream of Arrow begins like this, and those of earlier versions have no checksum
_SEAL = b"crc32"


def sealed(content: bytes) -> bytes:
    """The content behind its checksum."""
    return _SEAL + zlib.crc32(content).to_bytes(4, "big") + content


def unsealed(stored: bytes) -> bytes:
    """The inverse of ``sealed``; raises ``ValueError`` if the content has changed."""
    if not stored.startswith(_SEAL):
        return stored
    begin = len(_SEAL) + 4
    if zlib.crc32(stored[begin:]).to_bytes(4, "big") != stored[len(_SEAL) : begin]:
        raise ValueError("its checksum does not match its content")
    return stored[begin:]
