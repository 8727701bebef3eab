"""What every operator on Spark has: its inputs, its SQL, how far it may go, what must be kept for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from headgate.model.operator import Operator
from headgate.model.window import Window
from headgate.runtime.asking import Asking
from headgate.spark.manifest import OperatorState
from headgate.spark.operators.inputs import Retained, StoreTask, TickInput

Types = Mapping[str, str]


@dataclass(frozen=True)
class Stretch:
    """What an operator does in a tick: it goes from its old progress to its new one.

    ``since_ts`` is from when on tuples may still look into its windows.
    """

    old_ts: int
    new_ts: int
    since_ts: int
    state: OperatorState
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tasks: int = 1
    """How many tasks run at a time."""


@dataclass
class Results:
    """An operator's part of a tick: its results, and what must be kept, by input."""

    query: str | None
    retained: list[Retained]
    stores: list[StoreTask] = field(default_factory=list)
    groups: Sequence[Any] | None = None
    """Blocks of partial aggregates that stay; None if all do."""


class SparkOperator:
    """An operator by its settings. Stateless ones apply their SQL to whatever they take."""

    is_ordered = False
    """Whether it takes its inputs in timestamp order, and so waits for the slowest of them."""
    reach_us: int = 0
    """By how much the end of input lies behind the last tuple."""

    def __init__(self, settings: Operator) -> None:
        self.settings = settings
        self.name = settings.name
        self.asking: Asking | None = None
        """In which order predicates are evaluated; before it is known, as they were written."""
        self.inputs: tuple[StructType, ...] = ()
        """Columns of its inputs; known once the network is prepared."""
        self.output = StructType([])

    @property
    def windows(self) -> tuple[Window | None, ...]:
        """The window over each input."""
        return (None,) * len(self.settings.inputs)

    def applied(self, tuples: str) -> str:
        """The SQL of an operator that handles tuples one by one."""
        raise NotImplementedError

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """The SQL of an operator that keeps windows, and what it keeps."""
        raise NotImplementedError
