"""Files that become blocks of a log as they are, without a Spark job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from headgate.model.network import Network, StreamDefinition
from headgate.spark.arrival import log_appender
from headgate.spark.arrival.late_rows import may_hold_late_rows
from headgate.spark.arrival.log_appender import GoodRows, LogAppender
from headgate.spark.arrival.split_statistics import SplitStatistics, read_timestamps
from headgate.spark.held_rows import HeldRows
from headgate.spark.manifest import StreamState
from headgate.spark.sources import Sources
from headgate.spark.sql import BEGINNING_US, END_US
from headgate.spark.stream_log import StreamLogs, in_place_items

ONE_TASK_BYTES = 2**20
"""Files up to this size together are read by one task."""

# reading more footers one by one would take longer than a Spark job
_MOST_FOOTERS = 16
# larger files are held in memory where so many queries read them
_READERS_TO_HOLD = 3
# more than this is left to a job, which has all processors
_MOST_FILES = 256
_MOST_BYTES = 256 * 2**20


@dataclass(eq=False, repr=False)
class FilesInPlace:
    """Examines new files without a job. ``raw`` are the columns of the sources."""

    _network: Network
    _sources: Sources
    _logs: StreamLogs
    _appender: LogAppender
    _raw: Mapping[str, StructType]

    def __post_init__(self) -> None:
        self._utilities = self._network.utilities()
        self._readers = Counter(s for query in self._network.queries for s in self._network.streams_of(query))

    def examine(
        self, name: str, files: Sequence[str], state: StreamState, stamp_us: int, now_us: int
    ) -> GoodRows | None:
        """The rows of new files without a drop box; None if only a job can tell whether all are good."""
        definition = self._network.streams[name]
        if definition.format != "parquet" or name in self._utilities:
            return None
        if definition.timestamp is None:
            return self._count(definition, files, stamp_us)
        splits = self._read_timestamps(definition, files)
        if splits is None or self._may_hold_bad_or_late_rows(splits, definition, state, now_us):
            return None
        held = self._hold(definition, files) if splits else None
        return GoodRows(
            rows=sum(split.rows for split in splits),
            min_ts=min((split.min_ts for split in splits), default=END_US),
            max_ts=max((split.max_ts for split in splits), default=BEGINNING_US),
            splits=tuple(splits),
            ranks=_ranks(files),
            held=held,
            holds_tuples=True,
            fill_files=True,
        )

    def _count(self, definition: StreamDefinition, files: Sequence[str], stamp_us: int) -> GoodRows | None:
        """Rows that are stamped on arrival: their number is all there is to know."""
        if self._logs.schemas[definition.name].is_numbered or len(files) > _MOST_FOOTERS:
            return None
        rows = sum(self._sources.rows_of(definition, file) for file in files)
        split = SplitStatistics(rows, stamp_us, stamp_us)
        return GoodRows(rows, stamp_us, stamp_us, (split,), _ranks(files), fill_files=True)

    def _read_timestamps(
        self, definition: StreamDefinition, files: Sequence[str]
    ) -> list[SplitStatistics] | None:
        """Statistics of the files that have rows; None if only Spark can read their timestamps."""
        name, wanted = definition.name, str(definition.timestamp).lower()
        if (
            not 0 < len(files) <= _MOST_FILES
            or self._sources.local_bytes(files) > _MOST_BYTES
            or self._appender.gathers(self._logs.schemas[name], files)
        ):
            return None
        declared = next(f for f in self._raw[name].fields if f.name.lower() == wanted)
        splits = []
        for file in files:
            found = read_timestamps(file, declared.name, declared.dataType)
            if found is None:
                return None
            if found.rows:
                splits.append(found)
        return splits

    def _may_hold_bad_or_late_rows(
        self,
        splits: Sequence[SplitStatistics],
        definition: StreamDefinition,
        state: StreamState,
        now_us: int,
    ) -> bool:
        if any(split.max_ts > now_us + definition.max_ahead_us for split in splits):
            return True
        return may_hold_late_rows(splits, definition, state.max_ts, state.floor_ts)

    def _hold(self, definition: StreamDefinition, files: Sequence[str]) -> HeldRows | None:
        """Hold small files in memory, and larger ones that many queries read."""
        schema, size_bytes = self._logs.schemas[definition.name], self._sources.total_bytes(files)
        is_read_often = self._readers[definition.name] >= _READERS_TO_HOLD
        most_bytes = max(ONE_TASK_BYTES, log_appender.SMALL_FILES_BYTES if is_read_often else 0)
        if schema.is_numbered or size_bytes > most_bytes:
            return None
        rows = self._sources.read_files(definition, list(files))
        tuples = rows.selectExpr(*in_place_items(schema, None, ()))
        return self._logs.memory.hold(tuples.coalesce(1) if size_bytes <= ONE_TASK_BYTES else tuples)


def _ranks(files: Sequence[str]) -> dict[str, int]:
    return {file: place for place, file in enumerate(files)}
