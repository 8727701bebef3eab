"""The dead-letter table: rows that were late or did not parse, and files set aside, with the reason."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.files import Files
from headgate.spark.sinks import FileSink


class DeadLetters:
    """Parquet files below the checkpoint: stream, batch, reason, ts, row."""

    def __init__(self, files: Files, checkpoint: Checkpoint) -> None:
        self.path = checkpoint.dead_letters
        self._sink = FileSink(files, "parquet", self.path, {}, checkpoint.uid)
        self._written: set[int] = set()

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Run the plan that sets rows aside."""
        self._sink.write(rows.coalesce(1), batch_id, keep_empty=False)
        self._written.add(batch_id)

    def discard_after(self, batch_id: int) -> None:
        """Remove rows that ticks to be repeated had set aside."""
        self._sink.discard_after(batch_id)

    def publish(self, batch_id: int) -> None:
        """Put them into the table."""
        if batch_id in self._written:
            self._sink.publish(batch_id, rows=1, keep_empty=False, kept=1.0)
            self._written.discard(batch_id)
