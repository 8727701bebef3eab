"""What a job leaves, all in the same files: tuples that are through, for functions, for probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.spark.columns import TS
from headgate.spark.eddies.task import DONE, NEXT
from headgate.spark.eddies.ways import Ways
from headgate.spark.manifest import BlockRef

_THROUGH = "through"


@dataclass(frozen=True)
class Parts:
    """The blocks of one path."""

    finished: BlockRef | None
    left: tuple[BlockRef, ...]

    @property
    def rows(self) -> int:
        """Tuples of all parts."""
        return sum(block.rows for block in (*self.left, *([self.finished] if self.finished else [])))


def is_through(ways: Ways) -> Column:
    """Whether a tuple has done everything."""
    return F.col(DONE) == ways.full


def is_on_its_way(ways: Ways, step: int | None) -> Column:
    """Whether a tuple goes to a probe next, or, if that is None, to functions."""
    if step is not None:
        return F.col(NEXT) == step
    return (F.col(DONE) != ways.full) & (F.coalesce(F.col(NEXT), F.lit(ways.probes)) >= ways.probes)


def measures(ways: Ways) -> list[Column]:
    """Counts and timestamps of all parts."""
    found = []
    for part, step in _parts(ways):
        condition = is_through(ways) if part == _THROUGH else is_on_its_way(ways, step)
        found += [
            F.count_if(condition).alias(f"{part}_rows"),
            F.min(F.when(condition, F.col(TS))).alias(f"{part}_min"),
            F.max(F.when(condition, F.col(TS))).alias(f"{part}_max"),
        ]
    return found


def measured(
    ways: Ways, found: Mapping[str, Any], path: str, bytes_per_tuple: float, arrived_us: int
) -> Parts:
    """The blocks that the measures tell of."""
    finished, left = None, []
    for part, step in _parts(ways):
        rows = found[f"{part}_rows"]
        if not rows:
            continue
        size = round(rows * bytes_per_tuple)
        block = BlockRef(path, rows, size, found[f"{part}_min"], found[f"{part}_max"], arrived_us, step=step)
        if part == _THROUGH:
            finished = block
        else:
            left.append(block)
    return Parts(finished, tuple(left))


def _parts(ways: Ways) -> list[tuple[str, int | None]]:
    return [(_THROUGH, None), ("left", None), *((f"probe{step}", step) for step in range(ways.probes))]
