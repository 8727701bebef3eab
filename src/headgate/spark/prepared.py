"""A network prepared for Spark: its operators, and how each of their inputs is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructField, StructType

from headgate.model.joins import WindowJoin, WindowUpdate
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import Aggregate, Eddy, Number, Select
from headgate.model.operator_inputs import DerivedInput, OperatorInput, StreamInput
from headgate.model.window import RowWindow, Window
from headgate.spark import sql
from headgate.spark.eddies.eddy_jobs import EddyLayout
from headgate.spark.operators.base import SparkOperator
from headgate.spark.operators.stateless import TIMESTAMP
from headgate.spark.reconcile import InputStreams
from headgate.spark.relations import StoredRelations
from headgate.spark.samples import is_expensive
from headgate.spark.stream_log import LogSchema
from headgate.statistics.store import PredicateOrder


@dataclass(frozen=True)
class Prepared:
    """A network with its operators on Spark. ``raw`` are the columns of the sources."""

    network: Network
    raw: Mapping[str, StructType]
    logs: Mapping[str, LogSchema]
    operators: Mapping[str, SparkOperator]
    results: Mapping[str, StructType]
    """By query, the columns of its last operators, in types that hold the values of all branches."""
    predicate_order: PredicateOrder
    relations: StoredRelations
    layouts: Mapping[str, EddyLayout] = field(default_factory=dict)
    """Layouts of the eddies."""

    def through(self, reader: str, number: int) -> tuple[Select, ...] | None:
        """The selections through which an input reads the log of its stream; None if it has a queue instead.

        A queue is cheaper where evaluating a selection again costs more than storing its output.
        """
        operator = self.network.operators[reader]
        source = operator.inputs[number]
        if isinstance(operator, Eddy) or (
            isinstance(operator, WindowUpdate) and not isinstance(operator, WindowJoin)
        ):
            return None
        if isinstance(source, StreamInput):
            return ()
        below = self.network.operators[source.operator]
        if not self.operators[reader].is_ordered or not isinstance(below, Select):
            return None
        must_read = isinstance(self.operators[reader].windows[number], RowWindow)
        if not isinstance(below.input, StreamInput) or (not must_read and is_expensive(below)):
            return None
        return (below,)

    def over_queue(self, reader: str, number: int) -> tuple[Select, ...]:
        """The selections that an input evaluates itself, over its queue of all tuples of a derived stream.

        A row window holds tuples for which the selections do not hold, too.
        """
        source, window = self.network.operators[reader].inputs[number], self.operators[reader].windows[number]
        if isinstance(source, StreamInput) or not isinstance(window, RowWindow):
            return ()
        below = self.network.operators[source.operator]
        return (below,) if isinstance(below, Select) and isinstance(below.input, DerivedInput) else ()

    def is_numbered(self, source: DerivedInput) -> bool:
        """Whether the tuples of a derived stream have numbers."""
        return isinstance(self.network.operators[source.operator], Number)

    def stream_input(self, reader: str, number: int) -> StreamInput | DerivedInput:
        """The stream that an input reads, directly or through selections."""
        source = self.network.operators[reader].inputs[number]
        while not isinstance(source, (StreamInput, DerivedInput)):
            [source] = self.network.operators[source.operator].inputs
        return source

    def input_streams(self, reader: str) -> InputStreams:
        """The streams whose logs an operator reads, by input."""
        reads: list[StreamInput | None] = []
        pushes: list[StreamInput | None] = []
        for number, window in enumerate(self.operators[reader].windows):
            has_log = self.through(reader, number) is not None
            is_pushed = isinstance(window, RowWindow) and not has_log and not self.over_queue(reader, number)
            stream = self.stream_input(reader, number) if has_log or is_pushed else None
            found = stream if isinstance(stream, StreamInput) else None
            reads.append(found if has_log else None)
            pushes.append(found if is_pushed else None)
        return InputStreams(tuple(reads), tuple(pushes))

    def window(self, reader: str, number: int) -> Window | None:
        """The window that tuples of an input enter, in this operator or further downstream."""
        return self.operators[reader].windows[number] or window_above(self.network, reader)

    def result_items(self, query: QueryDefinition, output: str) -> list[str]:
        """The select list that makes results of what one of its last operators gives."""
        own = self.operators[output].output
        items = []
        for column, shown in self._shown(query):
            # a tick may have results of one branch only, and all files have the same types
            is_same = own[column.name].dataType == column.dataType
            name, kind = sql.name(column.name), column.dataType.simpleString()
            value = name if is_same else f"CAST({name} AS {kind})"
            items.append(value if value == sql.name(shown) else f"{value} AS {sql.name(shown)}")
        return items

    def result_schema(self, query: QueryDefinition) -> StructType:
        """The columns of a query's results, and system columns."""
        return StructType([StructField(shown, column.dataType) for column, shown in self._shown(query)])

    def _shown(self, query: QueryDefinition) -> Iterator[tuple[StructField, str]]:
        """Columns, and what results call them; system columns stay."""
        for column in self.results[query.name].fields:
            shown = query.sink.timestamp if column.name == TIMESTAMP else column.name
            if shown is not None:
                yield column, shown

    def is_materialised(self, name: str) -> bool:
        """Whether any reader takes the output of the operator, rather than reading the log itself."""
        return not self.network.readers(name) or self.physical_readers(name) > 0

    def physical_readers(self, name: str) -> int:
        """How many inputs take the output of the operator."""
        return sum(
            1
            for reader in self.network.readers(name)
            for number, source in enumerate(self.network.operators[reader].inputs)
            if isinstance(source, OperatorInput)
            and source.operator == name
            and self.through(reader, number) is None
            and not self.over_queue(reader, number)
        )


def window_above(network: Network, name: str) -> Window | None:
    """The window that the output of an operator enters further downstream."""
    for reader in network.readers(name):
        above = network.operators[reader]
        if any(isinstance(i, DerivedInput) and i.operator == name for i in above.inputs):
            # windows over results hold other tuples
            continue
        if isinstance(above, WindowUpdate):
            return next(side.window for side in above.sides if side.input == OperatorInput(name))
        if isinstance(above, Aggregate):
            return above.window
        if (window := window_above(network, reader)) is not None:
            return window
    return None


def streams_below(network: Network) -> dict[str, set[str]]:
    """The streams that reach each operator."""
    found: dict[str, set[str]] = {}
    for name, operator in network.operators.items():
        found[name] = set()
        for source in operator.inputs:
            found[name] |= {source.stream} if isinstance(source, StreamInput) else found[source.operator]
    return found
