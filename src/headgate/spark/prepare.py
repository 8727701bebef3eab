"""Preparing a network for Spark: checks every source and expression, and finds the columns of every queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, StructField, StructType

from headgate.errors import QueryError, Span
from headgate.model.expression import Expression, time_text
from headgate.model.joins import RelationJoin, WindowJoin
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import (
    Aggregate,
    Eddy,
    Explode,
    JoinEddy,
    Number,
    Operator,
    Project,
    Select,
    Table,
    Top,
    expressions_of,
)
from headgate.model.operator_inputs import DerivedInput, OperatorInput, StreamInput
from headgate.model.productivity import PRODUCTIVITY
from headgate.model.shedding import KEEP
from headgate.model.table import Groups
from headgate.model.window import RowWindow, TimeWindow
from headgate.spark import sql
from headgate.spark.arrival.drop_box import streams_with_keep_ratio, utility_of
from headgate.spark.blocks import BlockStore
from headgate.spark.eddies.eddy_jobs import EddyLayout, lay_out, with_returned
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import SparkOperator, StoredRelation, spark_operator
from headgate.spark.operators.changes import ChangesOperator
from headgate.spark.operators.check import spark_complaint
from headgate.spark.operators.derived import NumberOperator, UnionOperator
from headgate.spark.operators.inputs import log_columns
from headgate.spark.operators.outer_join import OuterJoinOperator
from headgate.spark.operators.panes import PaneAggregateOperator
from headgate.spark.operators.row_window import with_expiry
from headgate.spark.operators.sessions import SessionAggregateOperator
from headgate.spark.operators.tables import TableOperator, TopOperator
from headgate.spark.operators.window_join import SideQuery, window_join
from headgate.spark.operators.windowed import (
    AggregateOperator,
    RunningAggregateOperator,
    SlidingAggregateOperator,
    WindowJoinOperator,
    WindowUpdateOperator,
)
from headgate.spark.prepared import Prepared, streams_below, window_above
from headgate.spark.relations import StoredRelations
from headgate.spark.samples import is_harmless, is_worth_ordering
from headgate.spark.sources import BAD_ROW, Sources
from headgate.spark.sql import BEGINNING_US, END_US, SIDE, TS
from headgate.spark.stream_log import log_schemas
from headgate.statistics.store import PredicateEstimates, PredicateOrder

Functions = Mapping[str, Callable[..., Any]]
"""Python functions by their name in lower case."""


@dataclass
class Preparation:
    """Checks every source and expression, before anything is written."""

    spark: SparkSession
    network: Network
    sources: Sources
    functions: Functions
    store: BlockStore
    predicates: PredicateEstimates
    numbered: Collection[str] = ()
    """Streams whose tuples have numbers already."""

    def __post_init__(self) -> None:
        self._streams_of = streams_below(self.network)
        self._raw: dict[str, StructType] = {}
        self._frames: dict[str, DataFrame] = {}
        self._views: dict[str, str] = {}

    def run(self) -> Prepared:
        """The network with its operators on Spark."""
        network = self.network
        self._raw = {name: self._raw_schema(name) for name in network.streams}
        for name in streams_with_keep_ratio(network):
            self._raw[name] = StructType([*self._raw[name].fields, StructField(KEEP, DoubleType())])
        self._relations = StoredRelations(self.spark, network.relations.values(), self.sources, self.store)
        self._check_utilities()
        self._logs = log_schemas(network, self._raw, self.numbered)
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
        results = {name: self._results(query) for name, query in network.queries.items()}
        selects = {n: o for n, o in network.operators.items() if isinstance(o, Select)}
        predicate_order = PredicateOrder(selects, movable, self.predicates)
        for operator in operators.values():
            operator.predicate_order = predicate_order
        return Prepared(
            network, self._raw, self._logs, operators, results, predicate_order, self._relations, layouts
        )

    def timestamp(self, operator: str) -> str:
        """SQL for a result's timestamp, in the type that the query's streams declare."""
        kinds = {self._timestamp_type(stream) for stream in self._streams_of[operator]}
        return time_text(sql.name(TS), kinds.pop() if len(kinds) == 1 else "timestamp")

    def relation(self, name: str) -> StoredRelation:
        """A stored relation as it is read."""
        return self._relations[name]

    def _timestamp_type(self, stream: str) -> str:
        name = self.network.streams[stream].timestamp
        if name is None:
            return "timestamp"
        found = next(f.dataType for f in self._raw[stream].fields if f.name.lower() == name.lower())
        return found.simpleString()

    def _input(self, settings: Operator, number: int, operators: Mapping[str, SparkOperator]) -> str:
        """A query or view without tuples, with the columns of an input."""
        source = settings.inputs[number]
        if isinstance(source, OperatorInput) and not isinstance(source, DerivedInput):
            return self._views[source.operator]
        window = operators[settings.name].windows[number] or window_above(self.network, settings.name)
        if isinstance(source, DerivedInput):
            is_numbered = isinstance(self.network.operators[source.operator], Number)
            return sql.select(log_columns(source, window, is_numbered), self._views[source.operator])
        is_numbered = self._logs[source.stream].is_numbered
        return sql.select(log_columns(source, window, is_numbered), sql.name(f"empty {source.stream}"))

    def _analysed(self, query: str) -> DataFrame:
        return self.spark.sql(query) if query.startswith("SELECT") else self.spark.table(query)

    def _checked_output(self, operator: SparkOperator, inputs: Sequence[str]) -> DataFrame:
        try:
            return self._output(operator, inputs)
        except PySparkException as error:
            bound, cause = self._blamed(operator, inputs) or (None, error)
            span = _span(operator.settings) if bound is None else bound.span
            raise QueryError(self._complaint(operator, span, cause), span) from error

    def _complaint(self, operator: SparkOperator, span: Span | None, cause: PySparkException) -> str:
        """What Spark says of an expression of some queries."""
        queries = self.network.queries_of(operator.name)
        written = f"{' '.join(span.excerpt.split())}: " if span else ""
        plural = "query" if len(queries) == 1 else "queries"
        return f"{plural} {', '.join(queries)}: {written}{spark_complaint(cause)}"

    def _blamed(
        self, operator: SparkOperator, inputs: Sequence[str]
    ) -> tuple[Expression, PySparkException] | None:
        """The expression that Spark does not accept, and why; None if no single one is at fault."""
        for bound, alone in _alone(operator.settings):
            try:
                if alone is None:
                    self.spark.sql(sql.select([bound.text], inputs[0]))
                else:
                    one = spark_operator(alone, self)
                    one.inputs = operator.inputs
                    self._output(one, inputs)
            except PySparkException as error:
                return bound, error
        return None

    def _output(self, operator: SparkOperator, inputs: Sequence[str]) -> DataFrame:
        settings = operator.settings
        if isinstance(operator, WindowJoinOperator):
            return self.spark.sql(str(self._joined(operator, inputs)))
        if isinstance(operator, WindowUpdateOperator):
            arrivals = operator.arrivals(inputs)
            assert arrivals is not None
            return self.spark.sql(arrivals)
        if isinstance(operator, AggregateOperator):
            return self._aggregated(operator, inputs[0])
        if isinstance(operator, TopOperator):
            return self.spark.sql(operator.top(inputs[0]))
        if isinstance(operator, TableOperator):
            return self._table(operator, inputs[0])
        if isinstance(operator, UnionOperator):
            return self.spark.sql(str(operator.union(inputs)))
        if isinstance(operator, NumberOperator):
            return self.spark.sql(operator.numbered(inputs[0], None))
        if isinstance(settings, Eddy):
            frame = with_returned(settings, self.network.functions, self._analysed(inputs[0]))
            if isinstance(settings, JoinEddy):
                self.spark.sql(sql.select(["*"], inputs[0], [sql.conjunction(settings.matches)]))
                frame = frame.drop(SIDE)
            return frame
        return self.spark.sql(operator.applied(inputs[0]))

    def _joined(self, operator: WindowJoinOperator, inputs: Sequence[str]) -> str | None:
        sides = []
        for side, one, schema in zip(operator.settings.sides, inputs, operator.inputs, strict=True):
            timed = with_expiry(one, side.window, None) if isinstance(side.window, RowWindow) else one
            user = tuple(name for name in schema.names if not name.startswith("$"))
            sides.append(SideQuery(timed, user, 0, 0))
        pairs = window_join(operator.settings, sides, sql.Bound(BEGINNING_US))
        if not isinstance(operator, OuterJoinOperator):
            return pairs
        return operator.emitted(pairs, [side.query for side in sides], BEGINNING_US, END_US)

    def _aggregated(self, operator: AggregateOperator, tuples: str) -> DataFrame:
        settings, window = operator.settings, operator.settings.window
        operator.types = self._aggregate_types(settings, tuples)
        if isinstance(operator, RunningAggregateOperator):
            operator.groups = self._stored_columns(aggregate.carry(settings, tuples, None))
        if isinstance(operator, SessionAggregateOperator):
            operator.groups = self._stored_columns(operator.sessions(tuples, None))
        if isinstance(operator, PaneAggregateOperator):
            operator.panes = self._stored_columns(operator.fresh(tuples))
        if isinstance(window, RowWindow):
            tuples = with_expiry(tuples, window, None)
        slide = window.slide_us if isinstance(window, TimeWindow) and window.slide_us else 1
        assert isinstance(operator, SlidingAggregateOperator) or slide == 1
        return self.spark.sql(operator.aggregated(tuples, 0, slide))

    def _table(self, operator: TableOperator, tuples: str) -> DataFrame:
        state = operator.settings.state
        if isinstance(state, Groups):
            operator.types = self._aggregate_types(state, tuples)
        kept = operator.state(tuples, None)
        operator.columns = self._stored_columns(kept)
        if isinstance(operator, ChangesOperator):
            operator.learn(self.spark.sql(operator.compared(tuples)).schema)
        return self.spark.sql(operator.emitted(tuples, None, kept))

    def _stored_columns(self, query: str) -> StructType:
        """The columns of a query as blocks have them: any may be NULL."""
        fields = self.spark.sql(query).schema.fields
        return StructType([StructField(field.name, field.dataType) for field in fields])

    def _aggregate_types(self, grouped: aggregate.Grouped, tuples: str) -> dict[str, str]:
        """The types of aggregates, as Spark infers them."""
        plain = [f"{text} AS {sql.name(call.name)}" for call, text in aggregate.direct(grouped)]
        found = self.spark.sql(sql.select(plain or ["1"], aggregate.keyed(grouped, tuples, [])))
        return {field.name: field.dataType.simpleString() for field in found.schema.fields}

    def _check_utilities(self) -> None:
        for stream, text in self.network.utilities().items():
            if text == PRODUCTIVITY:
                continue
            try:
                self.spark.createDataFrame([], self._raw[stream]).selectExpr(utility_of(text))
            except PySparkException as error:
                complaint = spark_complaint(error)
                raise QueryError(f"utility {text} of stream {stream}: {complaint}") from error

    def _results(self, query: QueryDefinition) -> StructType:
        """The columns of a query's last operators, in types that hold the values of all branches."""
        first, *others = [self._frames[name] for name in query.outputs]
        try:
            for other in others:
                first = first.unionByName(other)
        except PySparkException as error:
            complaint = spark_complaint(error)
            raise QueryError(
                f"query {query.name}: the branches of UNION ALL do not match: {complaint}"
            ) from error
        return first.schema

    def _raw_schema(self, name: str) -> StructType:
        definition = self.network.streams[name]
        self.sources.check(definition)
        if definition.schema is not None and name not in self.sources.frames:
            return self.spark.createDataFrame([], definition.schema.ddl).schema
        found = self.sources.frames[name].schema
        return StructType([f for f in found.fields if f.name != BAD_ROW])


def _windows_of(eddy: JoinEddy) -> str:
    assert not isinstance(eddy.input, StreamInput), f"{eddy.name} has no windows below it"
    return eddy.input.operator


def _alone(settings: Operator) -> Iterator[tuple[Expression, Operator | None]]:
    """Every expression of an operator; a condition with an operator that has no other one."""
    if isinstance(settings, (Select, RelationJoin, WindowJoin)):
        yield from ((p, replace(settings, predicates=(p,))) for p in settings.predicates)
    elif isinstance(settings, Aggregate):
        arguments = [argument for call in settings.aggregates for argument in call.arguments]
        yield from ((bound, None) for bound in (*(key.expression for key in settings.keys), *arguments))
    elif isinstance(settings, Project):
        yield from ((item.expression, None) for item in settings.items)
    elif isinstance(settings, (Explode, Top, Table)):
        yield from ((bound, None) for bound in expressions_of(settings))
    elif isinstance(settings, JoinEddy):
        yield from ((match, None) for match in settings.matches)


def _span(settings: Operator) -> Span | None:
    predicates = getattr(settings, "predicates", ())
    return predicates[0].span if predicates else None
