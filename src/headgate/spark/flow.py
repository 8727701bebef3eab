"""What flows in a tick: between operators, and into blocks that outlive it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.spark.manifest import BlockRef
from headgate.spark.plans.side import between
from headgate.spark.probing import Probe
from headgate.spark.spread import Spread
from headgate.spark.trial import Trial

Part = Callable[[int, int], DataFrame | None]


@dataclass(frozen=True)
class StoreTask:
    """Tuples that have to outlive the tick: of an operator's input, or its running groups."""

    operator: str
    side: int | None
    tuples: DataFrame
    expected_rows: float


@dataclass
class Flow:
    """What comes out of an operator (or a stream) in this tick; ``rows`` is how many tuples that should be.

    ``complete_ts``: no tuple below it will come any more.
    """

    tuples: DataFrame | None
    rows: float
    min_ts: int
    max_ts: int
    complete_ts: int
    released: bool
    spreads: tuple[Spread, ...] = ()
    made_of: float = 0.0
    """How many tuples its plan goes through, at most; none of them may be left."""
    part: Part | None = None
    """Makes the tuples between two timestamps, out of as little as possible."""

    def within(self, from_ts: int, to_ts: int) -> DataFrame | None:
        """The tuples with ``from_ts <= timestamp < to_ts``; None if there can be none.

        The bounds are asked before what an operator does to a tuple, which may be expensive.
        """
        if self.tuples is None or from_ts > self.max_ts or to_ts <= self.min_ts:
            return None
        if self.part is not None and (from_ts > self.min_ts or to_ts <= self.max_ts):
            return self.part(from_ts, to_ts)
        return between(self.tuples, from_ts, to_ts)


@dataclass(frozen=True)
class Chosen:
    """What was chosen for a tick, by operator: the share of its queue that it takes, how many tuples that
    should be, and how many it should pass on of each."""

    shares: Mapping[str, float]
    taken: Mapping[str, float]
    selectivities: Mapping[str, float]

    @property
    def takes_all(self) -> bool:
        """Whether no queue is cut."""
        return all(share >= 1.0 for share in self.shares.values())


@dataclass(frozen=True)
class Moved:
    """How many tuples an operator really takes, and how many of those were stored by an earlier tick.

    One that keeps order takes less than was chosen while a stream of its own is behind.
    """

    rows: float
    fetched: float = 0.0


@dataclass
class TickPlan:
    """The tick's plans, ready to run."""

    chosen: Chosen
    moved: dict[str, Moved] = field(default_factory=dict)
    frontiers: dict[str, int] = field(default_factory=dict)
    kept: dict[str, list[list[BlockRef]]] = field(default_factory=dict)
    stores: list[StoreTask] = field(default_factory=list)
    flows: dict[str, Flow] = field(default_factory=dict)
    counting: bool = False
    counted: dict[str, Observation] = field(default_factory=dict)
    ready: list[DataFrame] = field(default_factory=list)
    """What is computed for several operators at once."""
    trying: bool = False
    trials: list[Trial] = field(default_factory=list)
    probing: bool = False
    probes: list[Probe] = field(default_factory=list)

    def compute_once(self, flow: Flow) -> None:
        """Several operators read what flows: the jobs of all of them find it ready."""
        if flow.tuples is not None:
            flow.tuples, flow.part = flow.tuples.persist(), None
            self.ready.append(flow.tuples)

    def release(self) -> None:
        """Give back memory."""
        for tuples in self.ready:
            tuples.unpersist()

    def pass_on(self, operator: str, tuples: DataFrame | None) -> DataFrame | None:
        """The output of an operator on its way to the next; counted if this tick counts."""
        if not self.counting or tuples is None:
            return tuples
        self.counted[operator] = Observation(f"output of {operator}")
        return tuples.observe(self.counted[operator], F.count(F.lit(1)).alias("rows"))


def counted_rows(counted: Mapping[str, Observation]) -> dict[str, int]:
    """Counts that have come in: a plan that no job ran has none, and neither has one that Spark cut short."""
    found = {}
    for name, observation in counted.items():
        java: Any = observation._jo
        if java is not None and java.future().isCompleted() and _has_counted(java):
            found[name] = int(observation.get["rows"])
    return found


def _has_counted(observation: Any) -> bool:
    return observation.future().value().get().get().schema() is not None
