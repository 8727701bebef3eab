"""Rows in memory: what a tick computes once, and blocks of logs that stay from tick to tick."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

# larger blocks are read from their files, which Spark does well
MOST_CACHED_ROWS = 100_000


class HeldRows(Protocol):
    """Rows that a tick computes once, however many of its jobs read them."""

    @property
    def frame(self) -> DataFrame:
        """A plan that reads the rows; the first job to do so computes them."""

    def rdd(self) -> Any:
        """The same as Spark's internal rows."""

    @property
    def blocks(self) -> Sequence[Any]:
        """Addresses in Spark's block manager; none if the rows have an ancestry that may be needed."""

    def settle(self) -> None:
        """Note that all jobs that may have computed the rows have ended."""

    def release(self) -> None:
        """Free the memory."""


class LocalRows:
    """Rows in the memory of this machine, or on its disk where memory is short.

    Spark sends the whole ancestry of an RDD along with every task, and a task spends more time on reading
    that than on a few thousand rows. Once they have been computed, rows are therefore read as blocks of
    Spark's block manager, which have no ancestry.
    """

    def __init__(self, frame: DataFrame, checkpoints: Any) -> None:
        self.frame = frame.localCheckpoint(eager=False)
        java: Any = self.frame._jdf
        self._computed = java.queryExecution().analyzed().rdd()
        self._checkpoints = checkpoints
        # at the end of the first job it could block that one and another for ever
        self._checkpoint = checkpoints.defer(self._computed)
        self._settled: list[Any] = []

    def rdd(self) -> Any:
        """The ancestry as long as it is needed."""
        return self._computed

    def settle(self) -> None:
        """From now on, blocks alone are read."""
        # rows that no job of the tick has read are not computed
        if not self._settled and self._checkpoints.complete(self._computed, self._checkpoint):
            number, partitions = self._computed.id(), self._computed.getNumPartitions()
            java: Any = self.frame.sparkSession._jvm
            block_id = java.org.apache.spark.storage.RDDBlockId
            self._settled = [block_id(number, place) for place in range(partitions)]

    @property
    def blocks(self) -> list[Any]:
        """None before the rows have been computed."""
        return self._settled

    def release(self) -> None:
        """Free the memory."""
        self._computed.unpersist(False)


class SharedRows:
    """Rows in the memory of executors: what is lost with one of them is computed again."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame.persist()
        java: Any = frame._jdf
        self._rdd = java.queryExecution().toRdd()

    blocks: Sequence[Any] = ()

    def rdd(self) -> Any:
        """Through Spark's cache."""
        return self._rdd

    def settle(self) -> None:
        """Their ancestry may be needed again."""

    def release(self) -> None:
        """Free the memory."""
        self.frame.unpersist()


@dataclass(frozen=True)
class _Held:
    rows: HeldRows
    columns: StructType
    count: int


@dataclass
class LogMemory:
    """Rows that are held in memory: blocks, by path, and what a tick computes on its way to them.

    Blocks stay from tick to tick where there are ``checkpoints``, the Java object that defers those of Spark;
    on a cluster, which has none, rows in the memory of an executor would be lost with it.
    """

    checkpoints: Any | None
    _blocks: dict[str, _Held] = field(default_factory=dict)
    _of_tick: list[HeldRows] = field(default_factory=list)

    @property
    def is_lasting(self) -> bool:
        """Whether blocks stay from tick to tick."""
        return self.checkpoints is not None

    def hold(self, frame: DataFrame) -> HeldRows:
        """Compute rows once in this tick, however many of its jobs read them."""
        held = SharedRows(frame) if self.checkpoints is None else LocalRows(frame, self.checkpoints)
        self._of_tick.append(held)
        return held

    def __contains__(self, path: str) -> bool:
        return path in self._blocks

    def put(self, path: str, held: HeldRows, rows: int) -> None:
        """Hold a block; its rows may have more columns than tuples of the log."""
        self._blocks[path] = _Held(held, held.frame.schema, rows)

    def get(self, path: str) -> _Held:
        """A block that is held."""
        return self._blocks[path]

    def keep_only(self, paths: Iterable[str]) -> None:
        """Release everything but these blocks, and also blocks that are better read from files."""
        kept = set(paths) if self.is_lasting else set()
        for path, block in list(self._blocks.items()):
            if path in kept and block.count <= MOST_CACHED_ROWS:
                block.rows.settle()
            else:
                del self._blocks[path]
                block.rows.release()
        for held in self._of_tick:
            if not any(block.rows is held for block in self._blocks.values()):
                held.release()
        self._of_tick.clear()
