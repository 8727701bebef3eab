"""The operator base class: inputs, SQL, how far it may progress, what it retains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Protocol

from pyspark.sql.types import MapType, StructType, VariantType

from headgate.model.join_order import JoinOrder
from headgate.model.operator import Eddy, Operator, is_ordered
from headgate.model.window import Window
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import OperatorState
from headgate.spark.operators.inputs import Retained, StoreTask, TickInput
from headgate.spark.sql import TS
from headgate.statistics.store import PredicateOrder


@dataclass(frozen=True)
class Stretch:
    """The part of an operator's work done in one tick: from its old progress to its new one.

    ``since_ts`` is from when on tuples may still look into its windows.
    """

    old_ts: int
    new_ts: int
    since_ts: int
    state: OperatorState
    orders: Mapping[str, JoinOrder] = field(default_factory=dict)
    tasks: int = 1
    """How many tasks run at a time."""

    def content(self, one: TickInput) -> str | None:
        """The tuples of an input between the old and the new progress."""
        return one.content(self.old_ts, self.new_ts) if self.new_ts > self.old_ts else None


@dataclass
class Results:
    """The results of an operator in a tick, and what it retains of each input."""

    query: str | None
    retained: list[Retained]
    stores: list[StoreTask] = field(default_factory=list)
    groups: Sequence[Any] | None = None
    """Blocks of partial aggregates that are retained; None for all of them."""


class SparkOperator:
    """An operator with its settings. Stateless operators override ``applied``, others ``results``."""

    reach_us: int = 0
    """How long after the last tuple results may still be due, at the end of input."""

    def __init__(self, settings: Operator) -> None:
        self.settings = settings
        self.name = settings.name
        self.predicate_order: PredicateOrder | None = None
        """In which order predicates are evaluated; before it is known, as they were written."""
        self.inputs: tuple[StructType, ...] = ()
        """Columns of its inputs; set when the network is prepared."""
        self.output = StructType([])

    @property
    def is_ordered(self) -> bool:
        """Whether it takes its inputs in timestamp order, and so waits for the slowest of them."""
        return is_ordered(self.settings)

    @property
    def windows(self) -> tuple[Window | None, ...]:
        """The window over each input."""
        return (None,) * len(self.settings.inputs)

    def applied(self, tuples: str) -> str:
        """The SQL of an operator that processes tuples independently of each other."""
        raise NotImplementedError

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """The SQL of an operator with windows, and what it retains."""
        raise NotImplementedError


def orderable(columns: StructType) -> list[str]:
    """The timestamp, and the columns whose values have an order."""
    own = [f.name for f in columns.fields if not isinstance(f.dataType, (MapType, VariantType))]
    return sql.names([TS, *(name for name in own if not sql.is_system(name))])


@dataclass
class StoredRelation:
    """A stored relation as operators read it: a view of its current version, and the hint for joining it."""

    view: str
    hint: str


class OperatorContext(Protocol):
    """What operators are created with."""

    store: BlockStore

    def timestamp(self, operator: str) -> str:
        """SQL for a result's timestamp, in the type that the streams below an operator declare."""

    def relation(self, name: str) -> StoredRelation:
        """A stored relation as it is read."""


@singledispatch
def spark_operator(settings: Operator, context: OperatorContext) -> SparkOperator:
    """The operator on Spark for some settings; each kind registers a function that creates it."""
    raise AssertionError(f"{settings.name} can be simulated only")


@spark_operator.register
def _eddy(settings: Eddy, context: OperatorContext) -> SparkOperator:
    # its tuples are processed between ticks, by workers of pools
    del context
    return SparkOperator(settings)
