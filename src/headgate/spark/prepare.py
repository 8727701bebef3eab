"""A network made ready for Spark: every operator checked, the columns of every queue known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, StructField, StructType

from headgate.errors import QueryError, Span
from headgate.model.expression import Expression
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import (
    Aggregate,
    Eddy,
    JoinEddy,
    Operator,
    OperatorInput,
    Project,
    RelationJoin,
    Select,
    StreamInput,
    WindowJoin,
    WindowUpdate,
)
from headgate.model.profile import Profiles
from headgate.model.shedding import KEEP
from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow, Window
from headgate.runtime.asking import Asking
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.cluster import in_session
from headgate.spark.columns import BEGINNING_US, SIDE
from headgate.spark.dropbox import streams_that_tell_chances, utility_of
from headgate.spark.eddies.layout import Layout, lay_out
from headgate.spark.harmless import is_harmless, is_worth_ordering
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import SparkOperator
from headgate.spark.operators.check import checked, spark_complaint
from headgate.spark.operators.inputs import log_columns
from headgate.spark.operators.panes import PaneAggregateOperator, is_long
from headgate.spark.operators.row_window import with_expiry
from headgate.spark.operators.stateless import (
    ProjectOperator,
    RelationJoinOperator,
    SelectOperator,
    timestamp_as,
)
from headgate.spark.operators.window_join import JoinInput, window_join
from headgate.spark.operators.windowed import (
    AggregateOperator,
    RunningAggregateOperator,
    SlidingAggregateOperator,
    TupleAggregateOperator,
    WindowJoinOperator,
    WindowUpdateOperator,
)
from headgate.spark.sources import BAD_ROW, Sources
from headgate.spark.stream_log import LogSchema, log_schemas

Functions = Mapping[str, Callable[..., Any]]
"""Python functions by their name in lower case."""

# stored relations up to this many rows are sent to every task
_BROADCAST_RELATION_ROWS = 200_000
# predicates that call one of these cost more than storing what they let pass
_EXPENSIVE = ("sha", "md5", "regexp", "rlike", "aggregate", "transform", "filter", "from_json", "get_json")


@dataclass(frozen=True)
class Prepared:
    """What the tick loop has to know beside the network itself."""

    network: Network
    raw: Mapping[str, StructType]
    logs: Mapping[str, LogSchema]
    operators: Mapping[str, SparkOperator]
    asking: Asking
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    """Of the eddies."""

    def through(self, reader: str, number: int) -> tuple[Select, ...] | None:
        """The selections through which an input reads the log of its stream; None if it has a queue instead.

        A queue of its own is cheaper where a selection costs more than storing what it lets pass.
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

    def stream_input(self, reader: str, number: int) -> StreamInput:
        """The stream that an input reads, directly or through selections."""
        source = self.network.operators[reader].inputs[number]
        while isinstance(source, OperatorInput):
            [source] = self.network.operators[source.operator].inputs
        return source

    def window(self, reader: str, number: int) -> Window | None:
        """The window that the tuples of an input will meet, here or further up their path."""
        return self.operators[reader].windows[number] or window_above(self.network, reader)

    def is_materialised(self, name: str) -> bool:
        """Whether any reader takes what the operator passes on, rather than reading the log itself."""
        return not self.network.readers(name) or self.physical_readers(name) > 0

    def physical_readers(self, name: str) -> int:
        """How many inputs take what the operator passes on."""
        return sum(
            1
            for reader in self.network.readers(name)
            for number, source in enumerate(self.network.operators[reader].inputs)
            if source == OperatorInput(name) and self.through(reader, number) is None
        )


def window_above(network: Network, name: str) -> Window | None:
    """The window that the output of an operator will meet further up its path."""
    for reader in network.readers(name):
        above = network.operators[reader]
        if isinstance(above, WindowUpdate):
            return next(side.window for side in above.sides if side.input == OperatorInput(name))
        if isinstance(above, Aggregate):
            return above.window
        if (window := window_above(network, reader)) is not None:
            return window
    return None


def is_expensive(select: Select) -> bool:
    """Whether evaluating a selection again costs more than storing what it lets pass."""
    return any(
        predicate.pool is not None or any(word in predicate.text.lower() for word in _EXPENSIVE)
        for predicate in select.predicates
    )


def prepare(
    spark: SparkSession,
    network: Network,
    sources: Sources,
    functions: Functions,
    store: BlockStore,
    known_predicates: Mapping[str, Profiles],
) -> Prepared:
    """Check every source and expression, before anything is written."""
    return _Preparation(spark, network, sources, functions, store, known_predicates).run()


class _Preparation:
    def __init__(
        self,
        spark: SparkSession,
        network: Network,
        sources: Sources,
        functions: Functions,
        store: BlockStore,
        known_predicates: Mapping[str, Profiles],
    ) -> None:
        self._spark = spark
        self._network = network
        self._sources = sources
        self._functions = functions
        self._store = store
        self._known = known_predicates
        self._raw: dict[str, StructType] = {}
        self._logs: Mapping[str, LogSchema] = {}
        self._relations: dict[str, tuple[str, str]] = {}
        self._frames: dict[str, DataFrame] = {}
        self._views: dict[str, str] = {}

    def run(self) -> Prepared:
        network = self._network
        self._raw = {name: self._raw_schema(name) for name in network.streams}
        for name in streams_that_tell_chances(network):
            self._raw[name] = StructType([*self._raw[name].fields, StructField(KEEP, DoubleType())])
        self._relations = {name: self._relation(name) for name in network.relations}
        self._check_utilities()
        self._logs = log_schemas(network, self._raw)
        for name, schema in self._logs.items():
            self._spark.createDataFrame([], schema.struct).createOrReplaceTempView(sql.name(f"empty {name}"))
        operators: dict[str, SparkOperator] = {}
        layouts: dict[str, Layout] = {}
        movable: dict[str, frozenset[str]] = {}
        for name, settings in network.operators.items():
            operator = self._operator(settings)
            operators[name] = operator
            inputs = [self._input(settings, number, operators) for number in range(len(settings.inputs))]
            operator.inputs = tuple(self._analysed(one).schema for one in inputs)
            frame = self._checked_output(operator, inputs)
            operator.output = frame.schema
            self._frames[name] = frame
            self._views[name] = sql.name(f"empty {name}")
            frame.createOrReplaceTempView(self._views[name])
            if isinstance(settings, Eddy):
                probed = operators[_windows_of(settings)].inputs if isinstance(settings, JoinEddy) else ()
                tuples = self._analysed(inputs[0])
                layouts[name] = lay_out(settings, network.functions, tuples, self._functions, probed)
            if isinstance(settings, Select) and is_worth_ordering(settings):
                tuples = self._analysed(inputs[0])
                movable[name] = frozenset(p.text for p in settings.predicates if is_harmless(p, tuples))
        for query in network.queries.values():
            self._check_union(query)
        selects = {n: o for n, o in network.operators.items() if isinstance(o, Select)}
        asking = Asking(selects, movable, self._known)
        for operator in operators.values():
            operator.asking = asking
        return Prepared(network, self._raw, self._logs, operators, asking, layouts)

    def _operator(self, settings: Operator) -> SparkOperator:
        if isinstance(settings, Select):
            return SelectOperator(settings)
        if isinstance(settings, Project):
            return ProjectOperator(settings, self._timestamp(settings.name))
        if isinstance(settings, RelationJoin):
            return RelationJoinOperator(settings, *self._relations[settings.relation])
        if isinstance(settings, WindowJoin):
            return WindowJoinOperator(settings)
        if isinstance(settings, WindowUpdate):
            return WindowUpdateOperator(settings)
        if isinstance(settings, Aggregate):
            return _aggregate_operator(settings, self._store)
        assert isinstance(settings, Eddy), f"{settings.name} can be simulated only"
        return SparkOperator(settings)

    def _timestamp(self, operator: str) -> str:
        """The result's timestamp, in the type that the query's streams declare."""
        kinds = {self._timestamp_type(stream) for stream in self._streams_of(operator)}
        return timestamp_as(kinds.pop() if len(kinds) == 1 else "timestamp")

    def _streams_of(self, operator: str) -> set[str]:
        streams: set[str] = set()
        for source in self._network.operators[operator].inputs:
            if isinstance(source, StreamInput):
                streams.add(source.stream)
            else:
                streams |= self._streams_of(source.operator)
        return streams

    def _timestamp_type(self, stream: str) -> str:
        name = self._network.streams[stream].timestamp
        if name is None:
            return "timestamp"
        found = next(f.dataType for f in self._raw[stream].fields if f.name.lower() == name.lower())
        return found.simpleString()

    def _input(self, settings: Operator, number: int, operators: Mapping[str, SparkOperator]) -> str:
        """Text that yields no tuples, with the columns of an input."""
        source = settings.inputs[number]
        if isinstance(source, OperatorInput):
            return self._views[source.operator]
        window = operators[settings.name].windows[number] or window_above(self._network, settings.name)
        is_numbered = self._logs[source.stream].is_numbered
        return sql.select(log_columns(source, window, is_numbered), sql.name(f"empty {source.stream}"))

    def _analysed(self, query: str) -> DataFrame:
        return self._spark.sql(query) if query.startswith("SELECT") else self._spark.table(query)

    def _checked_output(self, operator: SparkOperator, inputs: Sequence[str]) -> DataFrame:
        try:
            return self._output(operator, inputs)
        except PySparkException as error:
            self._blame(operator.settings, inputs)
            complaint = spark_complaint(error)
            raise QueryError(f"{operator.name}: {complaint}", _span(operator.settings)) from error

    def _output(self, operator: SparkOperator, inputs: Sequence[str]) -> DataFrame:
        settings = operator.settings
        if isinstance(operator, WindowJoinOperator):
            return self._spark.sql(self._joined(operator, inputs))
        if isinstance(operator, WindowUpdateOperator):
            arrivals = operator.arrivals(inputs)
            assert arrivals is not None
            return self._spark.sql(arrivals)
        if isinstance(operator, AggregateOperator):
            return self._aggregated(operator, inputs[0])
        if isinstance(settings, Eddy):
            frame = self._analysed(inputs[0])
            if isinstance(settings, JoinEddy):
                self._spark.sql(sql.select(["*"], inputs[0], [sql.conjunction(settings.matches)]))
                frame = frame.drop(SIDE)
            return frame
        return self._spark.sql(operator.applied(inputs[0]))

    def _joined(self, operator: WindowJoinOperator, inputs: Sequence[str]) -> str:
        sides = []
        for side, one, schema in zip(operator.settings.sides, inputs, operator.inputs, strict=True):
            timed = with_expiry(one, side.window, None) if isinstance(side.window, RowWindow) else one
            user = tuple(name for name in schema.names if not name.startswith("$"))
            sides.append(JoinInput(timed, user, 0, 0))
        return window_join(operator.settings, sides, sql.Bound(BEGINNING_US))

    def _aggregated(self, operator: AggregateOperator, tuples: str) -> DataFrame:
        settings, window = operator.settings, operator.settings.window
        plain = [f"{text} AS {sql.name(call.name)}" for call, text in aggregate.direct(settings)]
        found = self._spark.sql(sql.select(plain or ["1"], aggregate.keyed(settings, tuples, [])))
        operator.types = {f.name: f.dataType.simpleString() for f in found.schema.fields}
        if isinstance(operator, RunningAggregateOperator):
            carried = self._spark.sql(aggregate.carry(settings, tuples, None))
            operator.groups = StructType([StructField(f.name, f.dataType) for f in carried.schema.fields])
        if isinstance(operator, PaneAggregateOperator):
            kept = self._spark.sql(operator.fresh(tuples))
            operator.panes = StructType([StructField(f.name, f.dataType) for f in kept.schema.fields])
        if isinstance(window, RowWindow):
            tuples = with_expiry(tuples, window, None)
        slide = window.slide_us if isinstance(window, TimeWindow) and window.slide_us else 1
        assert isinstance(operator, SlidingAggregateOperator) or slide == 1
        return self._spark.sql(operator.aggregated(tuples, 0, slide))

    def _blame(self, settings: Operator, inputs: Sequence[str]) -> None:
        """Find the expression that Spark does not accept."""
        for bound in _expressions(settings):
            query = f"SELECT {bound.text} FROM {sql.relation(inputs[0])}"
            checked(partial(self._spark.sql, query), bound)

    def _check_utilities(self) -> None:
        for stream, text in self._network.utilities().items():
            try:
                self._spark.createDataFrame([], self._raw[stream]).selectExpr(utility_of(text))
            except PySparkException as error:
                complaint = spark_complaint(error)
                raise QueryError(f"utility {text} of stream {stream}: {complaint}") from error

    def _check_union(self, query: QueryDefinition) -> None:
        first, *others = [self._frames[name] for name in query.outputs]
        try:
            for other in others:
                first = first.unionByName(other)
        except PySparkException as error:
            complaint = spark_complaint(error)
            raise QueryError(
                f"query {query.name}: the branches of UNION ALL do not go together: {complaint}"
            ) from error

    def _raw_schema(self, name: str) -> StructType:
        definition = self._network.streams[name]
        self._sources.check(definition)
        if definition.schema is not None and name not in self._sources.frames:
            return self._spark.createDataFrame([], definition.schema.ddl).schema
        found = self._sources.frames[name].schema
        return StructType([f for f in found.fields if f.name != BAD_ROW])

    def _relation(self, name: str) -> tuple[str, str]:
        """A view of a stored relation, and the way to join it."""
        relation = in_session(self._spark, self._sources.relation(self._network.relations[name])).persist()
        view = sql.name(f"relation {name}")
        relation.createOrReplaceTempView(view)
        is_small = relation.count() <= _BROADCAST_RELATION_ROWS
        return view, "BROADCAST" if is_small else "SHUFFLE_HASH"


def _aggregate_operator(settings: Aggregate, store: BlockStore) -> AggregateOperator:
    """The operator for an aggregate, by its window."""
    window = settings.window
    if isinstance(window, UnboundedWindow):
        return RunningAggregateOperator(settings, store)
    if is_long(settings):
        return PaneAggregateOperator(settings, store)
    if isinstance(window, TimeWindow) and window.slide_us:
        return SlidingAggregateOperator(settings)
    return TupleAggregateOperator(settings)


def _windows_of(eddy: JoinEddy) -> str:
    assert not isinstance(eddy.input, StreamInput), f"{eddy.name} has no windows below it"
    return eddy.input.operator


def _expressions(settings: Operator) -> list[Expression]:
    if isinstance(settings, Aggregate):
        arguments = [call.argument for call in settings.aggregates if call.argument is not None]
        return [*(key.expression for key in settings.keys), *arguments]
    if isinstance(settings, Project):
        return [item.expression for item in settings.items]
    if isinstance(settings, Select):
        return list(settings.predicates)
    return list(settings.matches) if isinstance(settings, JoinEddy) else []


def _span(settings: Operator) -> Span | None:
    predicates = getattr(settings, "predicates", ())
    return predicates[0].span if predicates else None
