"""What is declared in a session: streams, relations, functions, callbacks and queries; and their plans."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from headgate import arguments, cql
from headgate.control.admission import check_admission
from headgate.cql.statement import CreateFunction, CreateQuery, Place, PlaceProbe, Statement
from headgate.errors import SetupError
from headgate.model.network import FunctionDefinition, Network, RelationDefinition, StreamDefinition
from headgate.model.profile import Profiles
from headgate.placed import located_function, plain_function
from headgate.planning.bind import bind
from headgate.planning.catalog import Catalog, restored_on_failure
from headgate.planning.explain import STAGES, Explanation, explain_sql, explain_stages
from headgate.planning.logical import LogicalPlan
from headgate.planning.lower import Stages, lower
from headgate.planning.rules import optimize
from headgate.spark.failures import spark_errors
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import PredicateEstimates

if TYPE_CHECKING:
    from headgate.spark import DataFrame, DataType, SparkSession

Own = TypeVar("Own", bound="Declarations")

# task slots for pools, in addition to the processors: two jobs of an eddy overlap, besides those of another
POOL_TASKS = 4


class Declarations(ABC):
    """Everything declared for one Spark application, which is started when it is first needed.

    A declaration that fails changes nothing.
    """

    def __init__(self, spark: SparkSession | None = None, master: str = "local[*]") -> None:
        from headgate.spark.application.cluster import check_session
        from headgate.spark.sinks import SINK_FORMATS
        from headgate.spark.sources import EVENT_TIMES, RELATION_FORMATS, STREAM_FORMATS

        if spark is not None:
            check_session(spark)
        self._given = spark
        self._master = arguments.text("master", master, "'local[*]' or 'spark://host:7077'")
        self._registered: dict[str, tuple[Callable[..., Any], str | None]] = {}
        self.catalog = Catalog(
            lambda source: self._sources.schema_of(source),
            known_sources=sorted({*STREAM_FORMATS, *RELATION_FORMATS}),
            known_sinks=SINK_FORMATS,
            event_times=EVENT_TIMES,
        )
        self._callbacks: dict[str, Callable[[Any, int], None]] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._measured: Measured | None = None
        self._planned: tuple[int, Stages] | None = None

    @property
    def measured(self) -> Measured | None:
        """Statistics of an earlier run or profile; with them, queries are admitted by their bounds."""
        return self._measured

    @measured.setter
    def measured(self, measured: Measured | None) -> None:
        if measured is not None and not isinstance(measured, Measured):
            raise arguments.wrong("measured", measured, "pass Measured.read(file), or what profile returns")
        self._measured = measured

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if nothing can be asked any more."""

    @abstractmethod
    def _check_idle(self, method: str) -> None:
        """Raise if nothing can be declared now."""

    @cached_property
    def _spark(self) -> Any:
        """Started on first use, when it is known whether there are pools."""
        from headgate.spark.application.cluster import own_session, private_session

        tasks = POOL_TASKS if self.catalog.pools else 0
        with spark_errors(self._given):
            found = private_session(self._given or own_session(self._master, tasks))
            for name, (fn, returns) in self._registered.items():
                found.udf.register(name, fn, returns)
        return found

    @cached_property
    def _sources(self) -> Any:
        from headgate.spark.file_system import Files
        from headgate.spark.sources import Sources

        return Sources(self._spark, Files(self._spark))

    def _on_spark(self) -> Any:
        """A context in which Spark may be called; it is not started just for that."""
        return spark_errors(vars(self).get("_spark"))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        functions = restored_on_failure(self._registered, self._functions)
        with self._on_spark(), functions, self.catalog.all_or_nothing():
            yield

    def execute(self: Own, text: str, origin: str = "<cql>", force: bool = False) -> Own:
        """Declare the streams, relations and queries of a CQL text: all of them, or none if one is wrong.

        Queries are checked at once; Spark is started for that only if they read a source whose columns are
        not declared. While a run is on, nothing can be declared. ``origin`` is named in errors.

        Raises ``Refused`` if, according to a profile, a query would exceed its latency or memory bound, or
        make another one exceed its own. ``force`` admits them all the same.
        """
        self._check_idle("execute")
        given = arguments.text("text", text, "'CREATE STREAM ...; CREATE QUERY ...'")
        statements = cql.parse(given, arguments.text("origin", origin, "'queries.sql'"))
        is_forced = arguments.flag("force", force)
        with self._all_or_nothing():
            functions = []
            for statement in statements:
                self.catalog.declare(statement)
                if isinstance(statement, CreateFunction):
                    found = located_function(statement.location.text, statement.location.span)
                    functions.append((statement.name.text, found, statement.returns))
            self._check_plans(statements)
            new = [statement.name.text for statement in statements if isinstance(statement, CreateQuery)]
            if self._measured is not None and new and not is_forced:
                from headgate.spark.application.cluster import processors

                check_admission(self.network(), new, self._measured, processors(self._spark))
            for name, fn, returns in functions:
                self._register(name, fn, returns)
        return self

    def _check_plans(self, statements: Sequence[Statement]) -> None:
        """Raise if a query cannot be planned: a new one, or one whose functions or probes are new."""
        new = [statement for statement in statements if isinstance(statement, CreateQuery)]
        are_all_new = len(new) == len(self.catalog.queries)
        if are_all_new or any(isinstance(s, (CreateFunction, Place, PlaceProbe)) for s in statements):
            self._stages()
        else:
            # of thousands of queries, executed one by one, each is planned once
            lower([optimize(bind(query, self.catalog)) for query in new], self.catalog)

    def stream(
        self: Own,
        name: str,
        df: DataFrame,
        timestamp: str | None = None,
        watermark: str | float = "0 s",
        idle_after: str | float = "10 s",
        slack: str | float | None = None,
    ) -> Own:
        """Declare a streaming DataFrame as a stream; ``slack`` is the old name of ``watermark``."""
        from headgate.spark.sources import schema_of_frame

        self._check_idle("stream")
        name = arguments.text("name", name, "'packets'")
        if timestamp is not None:
            arguments.text("timestamp", timestamp, "'ts', the name of a column")
        with self._on_spark():
            declared = StreamDefinition(
                name=name,
                format="dataframe",
                schema=schema_of_frame(f"stream {name}", df, is_streaming=True),
                timestamp=timestamp,
                watermark_delay_us=arguments.duration_us("watermark", watermark if slack is None else slack),
                idle_after_us=arguments.duration_us("idle_after", idle_after),
            )
            frames = self._sources.frames
        self.catalog.add_stream(declared)
        frames[name] = df
        return self

    def relation(self: Own, name: str, df: DataFrame) -> Own:
        """Declare a DataFrame as a stored relation."""
        from headgate.spark.sources import schema_of_frame

        self._check_idle("relation")
        name = arguments.text("name", name, "'hosts'")
        with self._on_spark():
            schema = schema_of_frame(f"relation {name}", df, is_streaming=False)
            frames = self._sources.frames
        self.catalog.add_relation(RelationDefinition(name, "dataframe", schema))
        frames[name] = df
        return self

    def function(self: Own, name: str, fn: Callable[..., Any], returns: str | DataType = "string") -> Own:
        """Register a Python function (or a Spark UDF) for use in expressions.

        ``returns`` is the type of its values: text of Spark SQL, or a type of PySpark. A UDF has its own.
        """
        self._check_idle("function")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", arguments.text("name", name, "'parity_of'")):
            raise SetupError(f"{name!r} cannot name a function; use letters, digits and _ only")
        arguments.function(f"function {name}", fn)
        declared_type = arguments.data_type("returns", getattr(fn, "returnType", returns))
        with self._all_or_nothing():
            self.catalog.add_function(FunctionDefinition(name, declared_type))
            self._stages()
            self._register(name, fn, declared_type)
        return self

    def _register(self, name: str, fn: Callable[..., Any], returns: str) -> None:
        from headgate.spark.user_functions import declared

        is_udf = hasattr(fn, "returnType")
        self._registered[name] = (fn, None) if is_udf else (declared(name, fn, returns), returns)
        if "_spark" in vars(self):
            self._spark.udf.register(name, *self._registered[name])
        self._functions[name.lower()] = plain_function(fn)

    def callback(
        self: Own, name: str, fn: Callable[[Any, int], None], timeout: str | float | None = None
    ) -> Own:
        """Register a function for INTO callback: called with an Arrow table and its batch id.

        A run fails if a call takes longer than ``timeout`` (a number of seconds, or '60 s'). Without a
        timeout it waits, and gives a call up only ten seconds after ``Run.stop``.
        """
        from headgate.spark.sinks import TimedCallback

        self._check_idle("callback")
        name = arguments.text("name", name, "'collect'")
        found = arguments.function(f"callback {name}", fn)
        limit_s = None if timeout is None else arguments.positive_seconds("timeout", timeout)
        self._callbacks[name] = found if limit_s is None else TimedCallback(found, limit_s)
        return self

    def plans(self) -> list[LogicalPlan]:
        """The bound queries."""
        return list(self._stages().bound)

    def network(self) -> Network:
        """The operators that would run."""
        return self._stages().lowered

    def explain(self, after: str | None = None) -> Explanation:
        """The plans of all queries after each stage, or ``after`` bind, optimize or lower; nothing runs.

        After 'sql', it is the Spark SQL of a tick.
        """
        known = f"{', '.join(map(repr, STAGES))} or 'sql'"
        if after is not None and arguments.text("after", after, known) not in (*STAGES, "sql"):
            raise arguments.wrong("after", after, f"write {known}")
        self._check_queries("explain")
        if after == "sql":
            return explain_sql(self.sql())
        return explain_stages(self._stages(), after)

    def _check_queries(self, deed: str) -> None:
        self._check_open()
        if not self.catalog.queries:
            raise SetupError(f"nothing to {deed}: no CREATE QUERY was executed")

    def _stages(self) -> Stages:
        """All queries, planned anew only if the catalog has changed."""
        self._check_open()
        version = self.catalog.version
        if self._planned is None or self._planned[0] != version:
            with self._on_spark():
                self._planned = version, Stages.of(self.catalog)
        return self._planned[1]

    def sql(self) -> dict[str, str]:
        """The Spark SQL of every query as a tick runs it, by name; no query runs.

        ``:old`` and ``:new`` stand for an operator's progress before and after the tick, in microseconds.
        """
        from headgate.spark.render import query_texts

        network, predicates = self.network(), PredicateEstimates(self._known_predicates())
        with spark_errors(self._spark):
            return query_texts(self._spark, network, self._sources, self._functions, predicates)

    def _known_predicates(self) -> Mapping[str, Profiles]:
        return {} if self._measured is None else self._measured.predicates
