"""One input of an operator in a tick: tuples kept from before, and tuples that come now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.spark.blocks import BlockStore
from headgate.spark.columns import BEGINNING_US, END_US, TS, tick_constant
from headgate.spark.manifest import BlockRef
from headgate.spark.spread import Spread, share_below


def between(tuples: DataFrame, from_ts: int, to_ts: int) -> DataFrame:
    """The tuples with ``from_ts <= timestamp < to_ts``."""
    if from_ts > BEGINNING_US:
        tuples = tuples.where(F.col(TS) >= tick_constant(from_ts))
    if to_ts < END_US:
        tuples = tuples.where(F.col(TS) < tick_constant(to_ts))
    return tuples


def union(parts: Sequence[DataFrame | None]) -> DataFrame | None:
    """All parts that are there, as one; None if none is."""
    together: DataFrame | None = None
    for part in parts:
        if part is not None:
            together = part if together is None else together.unionByName(part)
    return together


@dataclass
class Side:
    """``blocks`` are stored, ``fresh`` comes out of this tick's plan and is not stored yet."""

    schema: StructType
    blocks: tuple[BlockRef, ...]
    fresh: DataFrame | None
    fresh_rows: float
    fresh_made_of: float
    fresh_min_ts: int
    fresh_max_ts: int
    fresh_within: Callable[[int, int], DataFrame | None]
    fresh_spreads: tuple[Spread, ...]
    """How the fresh tuples lie over time: by share, not by number."""

    def stored(self, store: BlockStore, from_ts: int = BEGINNING_US, to_ts: int = END_US) -> DataFrame | None:
        """The stored tuples between two timestamps, from the blocks that can hold any."""
        blocks = [block for block in self.blocks if block.max_ts >= from_ts and block.min_ts < to_ts]
        return between(store.read(blocks, self.schema), from_ts, to_ts) if blocks else None

    def tuples(self, store: BlockStore, from_ts: int = BEGINNING_US, to_ts: int = END_US) -> DataFrame | None:
        """Stored and fresh tuples between two timestamps."""
        return union([self.stored(store, from_ts, to_ts), self.fresh_within(from_ts, to_ts)])

    def waiting_rows(self, from_ts: int, to_ts: int = END_US) -> float:
        """About how many stored tuples lie between two timestamps."""
        return sum(block.rows_from(from_ts) - block.rows_from(to_ts) for block in self.blocks)

    def fresh_share(self, below_ts: int) -> float:
        """About which share of the fresh tuples lies below a timestamp."""
        if below_ts > self.fresh_max_ts:
            return 1.0
        if below_ts <= self.fresh_min_ts:
            return 0.0
        return share_below(self.fresh_spreads, below_ts)

    def spreads(self, old_ts: int, fresh_from_ts: int, to_ts: int) -> tuple[Spread, ...]:
        """How the tuples lie over time that wait since ``old_ts`` or are fresh."""
        total = sum(spread.rows for spread in self.fresh_spreads)
        scale = self.fresh_rows / total if total else 0.0
        stored = [block.spread.between(old_ts, to_ts) for block in self.blocks]
        fresh = [spread.scaled(scale).between(fresh_from_ts, to_ts) for spread in self.fresh_spreads]
        return (*stored, *fresh)
