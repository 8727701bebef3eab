"""A tick in progress: arrivals, the strategy's choice, the queries to run, and the blocks to retain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.spark.arrival.intake import Arrival
from headgate.spark.eddies.queue import EddySnapshot
from headgate.spark.expected_matches import KeySample
from headgate.spark.manifest import BlockRef
from headgate.spark.operators.inputs import StoreTask
from headgate.spark.rows import Rows
from headgate.spark.samples import JoinSample, Trial


@dataclass
class OpenTick:
    """A tick whose input has arrived."""

    batch: DataFrame
    batch_id: int
    started_s: float
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    end_of_input: bool = False
    snapshots: dict[str, EddySnapshot] = field(default_factory=dict)
    keep_ratios: dict[str, float] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Chosen:
    """The strategy's choice for a tick, by operator: the share of its queue to take, the predicted number of
    tuples in it, and the predicted selectivity."""

    shares: Mapping[str, float]
    taken: Mapping[str, float]
    selectivities: Mapping[str, float]

    @property
    def takes_all(self) -> bool:
        """Whether no queue is cut."""
        return all(share >= 1.0 for share in self.shares.values())


@dataclass(frozen=True)
class Moved:
    """Tuples that an operator takes in a tick, and how many of them an earlier tick had stored.

    An ordered operator takes less than was chosen while one of its streams is behind.
    """

    rows: float
    fetched: float = 0.0


@dataclass(frozen=True)
class Merged:
    """Several blocks of a log that become one."""

    block: BlockRef
    tuples: DataFrame
    parts: frozenset[str] = frozenset()
    """Their paths."""


@dataclass
class TickPlan:
    """The tick's queries, ready to run."""

    chosen: Chosen
    batch_id: int = 0
    moved: dict[str, Moved] = field(default_factory=dict)
    progress: dict[str, int] = field(default_factory=dict)
    retained: dict[str, list[list[BlockRef]]] = field(default_factory=dict)
    groups: dict[str, tuple[BlockRef, ...]] = field(default_factory=dict)
    pushing: dict[str, list[list[BlockRef]]] = field(default_factory=dict)
    stores: list[StoreTask] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    counting: bool = False
    counted: dict[str, Observation] = field(default_factory=dict)
    selected: dict[str, DataFrame] = field(default_factory=dict)
    """Outputs that no query computes, since readers evaluate the selection themselves; to be counted."""
    ready: list[DataFrame] = field(default_factory=list)
    """Outputs that are computed once for several readers."""
    trying: bool = False
    trials: list[Trial] = field(default_factory=list)
    sampling: bool = False
    samples: list[JoinSample] = field(default_factory=list)
    keys: list[KeySample] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    """Dead letters: tuples for which an expression of a query failed."""

    def release(self) -> None:
        """Free memory."""
        for tuples in self.ready:
            tuples.unpersist()


def count_selected(selected: Mapping[str, DataFrame]) -> dict[str, int]:
    """How many tuples pass each selection, by one job."""
    frames = [frame.select(F.lit(name).alias("name")) for name, frame in selected.items()]
    rows = reduce(DataFrame.unionAll, frames).groupBy("name").count().collect() if frames else []
    return {name: 0 for name in selected} | {row["name"]: row["count"] for row in rows}


def counted_rows(counted: Mapping[str, Observation]) -> dict[str, int]:
    """Counts that are complete: a plan that no job ran has none, nor has one that Spark pruned."""
    found = {}
    for name, observation in counted.items():
        java: Any = observation._jo
        if java is not None and java.future().isCompleted() and _has_counted(java):
            found[name] = int(observation.get["rows"])
    return found


def _has_counted(observation: Any) -> bool:
    return observation.future().value().get().get().schema() is not None
