"""What happens while a network runs: immutable facts for the loop and for observers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.model.view import Turn


@dataclass(frozen=True)
class TuplesArrived:
    """New tuples stand in the queues."""

    now_s: float
    tuples: Mapping[str, int]


@dataclass(frozen=True)
class TurnFinished:
    """A turn has been carried out (or, on Spark, planned into the current tick)."""

    now_s: float
    turn: Turn


@dataclass(frozen=True)
class TimeUnitEnded:
    """A time unit of the simulator is over: work under way is interrupted, every processor free."""

    now_s: float


@dataclass(frozen=True)
class ProfilesLearnt:
    """Measured profiles changed; strategies prepare anew."""

    now_s: float


@dataclass(frozen=True)
class StreamCounts:
    """Tuples of one stream, counted exactly."""

    rows_in: int = 0
    late: int = 0
    bad: int = 0
    shed: int = 0


@dataclass(frozen=True)
class QueryCounts:
    """Results of one query; ``latencies`` are (seconds, how many) pairs."""

    rows_out: int = 0
    latencies: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class TickCommitted:
    """A tick of the Spark engine is durable. Counts are of this tick alone.

    ``busy_s`` is the processor time of its jobs; 0 where the tick was too small to tell.
    """

    now_s: float
    batch_id: int
    seconds: float
    streams: Mapping[str, StreamCounts]
    queries: Mapping[str, QueryCounts]
    backlog_tuples: int
    backlog_bytes: int
    window_bytes: int
    phases_s: Mapping[str, float] = field(default_factory=dict)
    busy_s: float = 0.0


Event = TuplesArrived | TurnFinished | TimeUnitEnded | ProfilesLearnt | TickCommitted
