"""A network made ready for Spark: every operator checked, every queue's schema known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, LongType, StructField, StructType, TimestampType

from headgate.errors import QueryError
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import (
    Aggregate,
    Eddy,
    JoinEddy,
    Operator,
    Project,
    RelationJoin,
    Select,
    StreamInput,
    WindowJoin,
    WindowUpdate,
)
from headgate.model.shedding import KEEP
from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow, Window
from headgate.spark.columns import ARRIVED, BEGINNING_US, END_US, SIDE, TS
from headgate.spark.dropbox import streams_that_tell_chances, utility_of
from headgate.spark.eddies.layout import Layout, lay_out
from headgate.spark.harmless import is_harmless
from headgate.spark.landing import LandingPlan, landed_schema, landing_plans
from headgate.spark.plans import aggregate, running, simple
from headgate.spark.plans.rows import with_expiry
from headgate.spark.plans.side import union
from headgate.spark.plans.window_join import JoinInput, window_join
from headgate.spark.plans.window_update import arrivals
from headgate.spark.sources import Sources

Functions = Mapping[str, Callable[..., Any]]
"""Python functions by their name in lower case."""

# stored relations up to this many rows are sent to every task
_BROADCAST_RELATION_ROWS = 200_000


@dataclass(frozen=True)
class Compiled:
    """What the tick loop has to know beside the network itself."""

    network: Network
    raw: Mapping[str, StructType]
    landing: Mapping[str, LandingPlan]
    relations: Mapping[str, DataFrame]
    inputs: Mapping[str, tuple[StructType, ...]]
    outputs: Mapping[str, StructType]
    groups: Mapping[str, StructType]
    windows: Mapping[str, tuple[Window | None, ...]]
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    """Of the eddies."""
    movable: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Predicates of selections that can be asked in any order."""

    def timestamp(self, operator: str) -> Column:
        """The result's timestamp, in the type that the query's streams declare."""
        kinds = {
            self._timestamp_type(s).simpleString(): self._timestamp_type(s)
            for s in self._streams_of(operator)
        }
        kind = next(iter(kinds.values())) if len(kinds) == 1 else TimestampType()
        return timestamp_as(kind)

    def _streams_of(self, operator: str) -> set[str]:
        streams: set[str] = set()
        for source in self.network.operators[operator].inputs:
            streams |= (
                {source.stream} if isinstance(source, StreamInput) else self._streams_of(source.operator)
            )
        return streams

    def _timestamp_type(self, stream: str) -> DataType:
        name = self.network.streams[stream].timestamp
        if name is None:
            return TimestampType()
        return next(f.dataType for f in self.raw[stream].fields if f.name.lower() == name.lower())


def timestamp_as(kind: DataType) -> Column:
    """Microseconds in a stream's own type of timestamp; numbers are seconds."""
    name = kind.typeName()
    if name in ("timestamp", "timestamp_ltz", "timestamp_ntz", "date"):
        instant = F.timestamp_micros(TS)
        return instant if name != "timestamp_ntz" else instant.cast("timestamp_ntz")
    if name in ("byte", "short", "integer", "long"):
        return F.expr(f"`{TS}` div 1000000L").cast(kind)
    return (F.col(TS) / F.lit(1_000_000)).cast(kind)


def compile_network(
    spark: SparkSession, network: Network, sources: Sources, functions: Functions
) -> Compiled:
    """Check every source and expression, before anything is written."""
    raw = {name: _raw_schema(spark, sources, name, network) for name in network.streams}
    for name in streams_that_tell_chances(network):
        raw[name] = StructType([*raw[name].fields, StructField(KEEP, DoubleType())])
    relations = {name: _relation(network, sources, name) for name in network.relations}
    _check_utilities(spark, network, raw)
    landing = landing_plans(network)
    shell = Compiled(network, raw, landing, relations, {}, {}, {}, {})
    inputs: dict[str, tuple[StructType, ...]] = {}
    outputs: dict[str, StructType] = {}
    groups: dict[str, StructType] = {}
    layouts: dict[str, Layout] = {}
    movable: dict[str, frozenset[str]] = {}
    windows = {name: _windows(network, operator) for name, operator in network.operators.items()}
    empty: dict[str, DataFrame] = {}
    for name, operator in network.operators.items():
        sides = []
        for source, window in zip(operator.inputs, windows[name], strict=True):
            if isinstance(source, StreamInput):
                stream = spark.createDataFrame(
                    [], stream_schema(raw[source.stream], landing.get(source.stream))
                )
                sides.append(simple.intake(stream, source, window))
            else:
                sides.append(empty[source.operator])
        inputs[name] = tuple(side.schema for side in sides)
        try:
            empty[name] = _empty_output(shell, operator, sides, groups)
            if isinstance(operator, Eddy):
                probed = inputs[_windows_of(operator)] if isinstance(operator, JoinEddy) else ()
                layouts[name] = lay_out(operator, network.functions, sides[0], functions, probed)
            if isinstance(operator, Select) and len(operator.predicates) > 1:
                harmless = (p.text for p in operator.predicates if is_harmless(p, sides[0]))
                movable[name] = frozenset(harmless)
            outputs[name] = empty[name].schema
        except PySparkException as error:
            raise QueryError(f"{name}: {simple.spark_complaint(error)}", _span(operator)) from error
    for query in network.queries.values():
        _check_union(query, empty)
    return Compiled(network, raw, landing, relations, inputs, outputs, groups, windows, layouts, movable)


def _check_utilities(spark: SparkSession, network: Network, raw: Mapping[str, StructType]) -> None:
    for stream, text in network.utilities().items():
        try:
            spark.createDataFrame([], raw[stream]).select(utility_of(text))
        except PySparkException as error:
            raise QueryError(f"utility {text} of stream {stream}: {simple.spark_complaint(error)}") from error


def _check_union(query: QueryDefinition, outputs: Mapping[str, DataFrame]) -> None:
    try:
        union([outputs[name] for name in query.outputs])
    except PySparkException as error:
        complaint = simple.spark_complaint(error)
        raise QueryError(
            f"query {query.name}: the branches of UNION ALL do not go together: {complaint}"
        ) from error


def stream_schema(raw: StructType, landing: LandingPlan | None) -> StructType:
    """A stream's columns as they enter the network."""
    if landing is not None:
        return landed_schema(raw, landing)
    return StructType([*raw.fields, StructField(TS, LongType()), StructField(ARRIVED, LongType())])


def _windows(network: Network, operator: Operator) -> tuple[Window | None, ...]:
    """The window that the tuples of each input will meet, here or further up their path."""
    if isinstance(operator, WindowUpdate):
        return tuple(side.window for side in operator.sides)
    if isinstance(operator, Aggregate):
        return (operator.window,)
    for reader in network.readers(operator.name):
        above = network.operators[reader]
        for source, window in zip(above.inputs, _windows(network, above), strict=True):
            if getattr(source, "operator", None) == operator.name and window is not None:
                return (window,)
    return (None,)


def _raw_schema(spark: SparkSession, sources: Sources, name: str, network: Network) -> StructType:
    definition = network.streams[name]
    sources.check(definition)
    if definition.schema is not None and name not in sources.frames:
        return spark.createDataFrame([], definition.schema.ddl).schema
    return sources.frames[name].schema


def _relation(network: Network, sources: Sources, name: str) -> DataFrame:
    relation = sources.relation(network.relations[name]).persist()
    if relation.count() <= _BROADCAST_RELATION_ROWS:
        return relation.hint("broadcast")
    return relation.hint("shuffle_hash")


def _empty_output(
    compiled: Compiled, operator: Operator, sides: list[DataFrame], groups: dict[str, StructType]
) -> DataFrame:
    if isinstance(operator, Select):
        return simple.select(sides[0], operator.predicates)
    if isinstance(operator, Eddy):
        return _passed_probes(operator, sides[0]) if isinstance(operator, JoinEddy) else sides[0]
    if isinstance(operator, RelationJoin):
        return simple.relation_join(sides[0], operator, compiled.relations[operator.relation])
    if isinstance(operator, Project):
        return simple.project(sides[0], operator, compiled.timestamp(operator.name))
    if isinstance(operator, WindowJoin):
        inputs = []
        for side, tuples in zip(operator.sides, sides, strict=True):
            rows = isinstance(side.window, RowWindow)
            timed = with_expiry(tuples, side.window, None, 0) if rows else tuples  # type: ignore[arg-type]
            inputs.append(JoinInput(timed, 0, 0))
        joined = window_join(operator, inputs, BEGINNING_US, END_US)
        assert joined is not None
        return joined
    if isinstance(operator, WindowUpdate):
        passed_on = arrivals([side.schema for side in sides], sides)
        assert passed_on is not None
        return passed_on
    assert isinstance(operator, Aggregate), f"{operator.name} can be simulated only"
    return _empty_aggregate(operator, sides[0], groups)


def _windows_of(eddy: JoinEddy) -> str:
    assert not isinstance(eddy.input, StreamInput), f"{eddy.name} has no windows below it"
    return eddy.input.operator


def _passed_probes(operator: JoinEddy, tuples: DataFrame) -> DataFrame:
    """Every predicate of the join is asked of a tuple that has all columns."""
    simple.blaming(lambda: tuples.where(simple.all_of(operator.matches)), tuples, operator.matches)
    return tuples.drop(SIDE)


def _empty_aggregate(operator: Aggregate, tuples: DataFrame, groups: dict[str, StructType]) -> DataFrame:
    window = operator.window
    if isinstance(window, UnboundedWindow):
        carried = running.carry(operator, tuples, None)
        assert carried is not None
        groups[operator.name] = carried.schema
        return running.running(operator, tuples, carried)
    if isinstance(window, TimeWindow) and window.slide_us:
        return aggregate.sliding(operator, tuples, 0, window.slide_us)
    if isinstance(window, RowWindow):
        tuples = with_expiry(tuples, window, None, 0)
    return aggregate.per_tuple(operator, tuples, BEGINNING_US)


def _span(operator: Operator):  # type: ignore[no-untyped-def]
    predicates = getattr(operator, "predicates", ())
    return predicates[0].span if predicates else None
