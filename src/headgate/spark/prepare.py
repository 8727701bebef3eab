"""Preparing a network for Spark: checks every source and expression, and finds the columns of every queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, StructField, StructType

from headgate.errors import QueryError, Span
from headgate.model.expression import Expression, time_text
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import (
    Aggregate,
    Eddy,
    JoinEddy,
    Operator,
    OperatorInput,
    Project,
    Select,
    StreamInput,
)
from headgate.model.shedding import KEEP
from headgate.model.window import RowWindow, TimeWindow
from headgate.spark import sql
from headgate.spark.application.cluster import in_session
from headgate.spark.arrival.drop_box import streams_with_keep_ratio, utility_of
from headgate.spark.blocks import BlockStore
from headgate.spark.eddies.eddy_jobs import EddyLayout, lay_out
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import SparkOperator, spark_operator
from headgate.spark.operators.check import checked, spark_complaint
from headgate.spark.operators.inputs import log_columns
from headgate.spark.operators.panes import PaneAggregateOperator
from headgate.spark.operators.row_window import with_expiry
from headgate.spark.operators.window_join import JoinInput, window_join
from headgate.spark.operators.windowed import (
    AggregateOperator,
    RunningAggregateOperator,
    SlidingAggregateOperator,
    WindowJoinOperator,
    WindowUpdateOperator,
)
from headgate.spark.prepared import Prepared, streams_below, window_above
from headgate.spark.samples import is_harmless, is_worth_ordering
from headgate.spark.sources import BAD_ROW, Sources
from headgate.spark.sql import BEGINNING_US, SIDE, TS
from headgate.spark.stream_log import log_schemas
from headgate.statistics.store import PredicateEstimates, PredicateOrder

Functions = Mapping[str, Callable[..., Any]]
"""Python functions by their name in lower case."""

# stored relations up to this many rows are broadcast
_BROADCAST_RELATION_ROWS = 200_000


@dataclass
class Preparation:
    """Checks every source and expression, before anything is written."""

    spark: SparkSession
    network: Network
    sources: Sources
    functions: Functions
    store: BlockStore
    predicates: PredicateEstimates

    def __post_init__(self) -> None:
        self._streams_of = streams_below(self.network)
        self._raw: dict[str, StructType] = {}
        self._relations: dict[str, tuple[str, str]] = {}
        self._frames: dict[str, DataFrame] = {}
        self._views: dict[str, str] = {}

    def run(self) -> Prepared:
        """The network with its operators on Spark."""
        network = self.network
        self._raw = {name: self._raw_schema(name) for name in network.streams}
        for name in streams_with_keep_ratio(network):
            self._raw[name] = StructType([*self._raw[name].fields, StructField(KEEP, DoubleType())])
        self._relations = {name: self._relation(name) for name in network.relations}
        self._check_utilities()
        self._logs = log_schemas(network, self._raw)
        for name, schema in self._logs.items():
            self.spark.createDataFrame([], schema.struct).createOrReplaceTempView(sql.name(f"empty {name}"))
        operators: dict[str, SparkOperator] = {}
        layouts: dict[str, EddyLayout] = {}
        movable: dict[str, frozenset[str]] = {}
        for name, settings in network.operators.items():
            operator = spark_operator(settings, self)
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
                layouts[name] = lay_out(settings, network.functions, tuples, self.functions, probed)
            if isinstance(settings, Select) and is_worth_ordering(settings):
                tuples = self._analysed(inputs[0])
                movable[name] = frozenset(p.text for p in settings.predicates if is_harmless(p, tuples))
        for query in network.queries.values():
            self._check_union(query)
        selects = {n: o for n, o in network.operators.items() if isinstance(o, Select)}
        predicate_order = PredicateOrder(selects, movable, self.predicates)
        for operator in operators.values():
            operator.predicate_order = predicate_order
        return Prepared(network, self._raw, self._logs, operators, predicate_order, layouts)

    def timestamp(self, operator: str) -> str:
        """SQL for a result's timestamp, in the type that the query's streams declare."""
        kinds = {self._timestamp_type(stream) for stream in self._streams_of[operator]}
        return time_text(sql.name(TS), kinds.pop() if len(kinds) == 1 else "timestamp")

    def relation_view(self, relation: str) -> tuple[str, str]:
        """The view of a stored relation, and the hint for joining it."""
        return self._relations[relation]

    def _timestamp_type(self, stream: str) -> str:
        name = self.network.streams[stream].timestamp
        if name is None:
            return "timestamp"
        found = next(f.dataType for f in self._raw[stream].fields if f.name.lower() == name.lower())
        return found.simpleString()

    def _input(self, settings: Operator, number: int, operators: Mapping[str, SparkOperator]) -> str:
        """A query or view without tuples, with the columns of an input."""
        source = settings.inputs[number]
        if isinstance(source, OperatorInput):
            return self._views[source.operator]
        window = operators[settings.name].windows[number] or window_above(self.network, settings.name)
        is_numbered = self._logs[source.stream].is_numbered
        return sql.select(log_columns(source, window, is_numbered), sql.name(f"empty {source.stream}"))

    def _analysed(self, query: str) -> DataFrame:
        return self.spark.sql(query) if query.startswith("SELECT") else self.spark.table(query)

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
            return self.spark.sql(self._joined(operator, inputs))
        if isinstance(operator, WindowUpdateOperator):
            arrivals = operator.arrivals(inputs)
            assert arrivals is not None
            return self.spark.sql(arrivals)
        if isinstance(operator, AggregateOperator):
            return self._aggregated(operator, inputs[0])
        if isinstance(settings, Eddy):
            frame = self._analysed(inputs[0])
            if isinstance(settings, JoinEddy):
                self.spark.sql(sql.select(["*"], inputs[0], [sql.conjunction(settings.matches)]))
                frame = frame.drop(SIDE)
            return frame
        return self.spark.sql(operator.applied(inputs[0]))

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
        found = self.spark.sql(sql.select(plain or ["1"], aggregate.keyed(settings, tuples, [])))
        operator.types = {f.name: f.dataType.simpleString() for f in found.schema.fields}
        if isinstance(operator, RunningAggregateOperator):
            carried = self.spark.sql(aggregate.carry(settings, tuples, None))
            operator.groups = StructType([StructField(f.name, f.dataType) for f in carried.schema.fields])
        if isinstance(operator, PaneAggregateOperator):
            kept = self.spark.sql(operator.fresh(tuples))
            operator.panes = StructType([StructField(f.name, f.dataType) for f in kept.schema.fields])
        if isinstance(window, RowWindow):
            tuples = with_expiry(tuples, window, None)
        slide = window.slide_us if isinstance(window, TimeWindow) and window.slide_us else 1
        assert isinstance(operator, SlidingAggregateOperator) or slide == 1
        return self.spark.sql(operator.aggregated(tuples, 0, slide))

    def _blame(self, settings: Operator, inputs: Sequence[str]) -> None:
        """Find the expression that Spark does not accept."""
        for bound in _expressions(settings):
            query = f"SELECT {bound.text} FROM {sql.relation(inputs[0])}"
            checked(partial(self.spark.sql, query), bound)

    def _check_utilities(self) -> None:
        for stream, text in self.network.utilities().items():
            try:
                self.spark.createDataFrame([], self._raw[stream]).selectExpr(utility_of(text))
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
                f"query {query.name}: the branches of UNION ALL do not match: {complaint}"
            ) from error

    def _raw_schema(self, name: str) -> StructType:
        definition = self.network.streams[name]
        self.sources.check(definition)
        if definition.schema is not None and name not in self.sources.frames:
            return self.spark.createDataFrame([], definition.schema.ddl).schema
        found = self.sources.frames[name].schema
        return StructType([f for f in found.fields if f.name != BAD_ROW])

    def _relation(self, name: str) -> tuple[str, str]:
        """A view of a stored relation, and the hint for joining it."""
        relation = in_session(self.spark, self.sources.relation(self.network.relations[name])).persist()
        view = sql.name(f"relation {name}")
        relation.createOrReplaceTempView(view)
        is_small = relation.count() <= _BROADCAST_RELATION_ROWS
        return view, "BROADCAST" if is_small else "SHUFFLE_HASH"


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
