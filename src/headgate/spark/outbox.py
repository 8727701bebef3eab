"""Results on their way out of the checkpoint: to callbacks, to Kafka, into databases.

What has left cannot be taken back, and a tick that is executed again may process other tuples. Results are
therefore staged below the checkpoint, then the manifest is written, and only then are they delivered. After a
crash, staged results of a committed tick are delivered as they are; those of a tick that did not happen are
removed. So a batch id always stands for the same rows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.runtime.usercode import Guarded
from headgate.spark.file_system import Files
from headgate.spark.physical_plans import Measured, Target
from headgate.spark.sql import TS

KEEP_RATIO = "headgate.keep_ratio"


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
            self._files.delete(self._place(batch_id))
            self._waiting.pop(0)

    @abstractmethod
    def _deliver(self, batch_id: int) -> bool:
        """Deliver the results of a tick; False if they have to wait for the next run."""

    def hurry(self) -> None:  # noqa: B027
        """Note that the run is being stopped."""

    def close(self) -> None:  # noqa: B027
        """Let go of what is open."""


class StagedSink(DeliveringSink):
    """Stages results as Parquet files; ``columns`` are those of results."""

    def __init__(self, spark: SparkSession, files: Files, folder: str, columns: StructType) -> None:
        super().__init__(files, folder)
        self._spark = spark
        self._columns = StructType([field for field in columns.fields if field.name != TS])

    def target(self, batch_id: int, slice_number: int) -> Target:
        """A folder below the checkpoint."""
        return Target("parquet", (), f"{self._place(batch_id)}/{slice_number}")

    def write(self, results: Measured, batch_id: int, slice_number: int) -> None:
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
        self._waiting.append(batch_id)

    def _staged(self, batch_id: int) -> DataFrame:
        """The rows of a tick; the place of each in its file never changes."""
        folders = [f"{self._place(batch_id)}/{name}" for name in self._files.names(self._place(batch_id))]
        return self._spark.read.schema(self._columns).parquet(*folders)


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

    def write(self, results: Measured, batch_id: int, slice_number: int) -> None:
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
            self._files.write_bytes(self._place(batch_id), stream.getvalue().to_pybytes())
            self._ready[batch_id] = table
            self._waiting.append(batch_id)

    def _deliver(self, batch_id: int) -> bool:
        table = self._ready.pop(batch_id, None)
        if table is None:
            # staged by a run before this one
            table = pa.ipc.open_stream(self._files.read_bytes(self._place(batch_id))).read_all()
        self.call(table, batch_id)
        return True

    def hurry(self) -> None:
        """Give a call that is under way a last grace period."""
        self.call.hurry()
