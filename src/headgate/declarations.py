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
from headgate.cql.statement import (
    PLURALS,
    Create,
    CreateFunction,
    CreateQuery,
    Declaration,
    Drop,
    Existing,
    Place,
    PlaceProbe,
    Question,
    Source,
    Statement,
)
from headgate.errors import SetupError
from headgate.model.kafka import KAFKA
from headgate.model.network import FunctionDefinition, Network, RelationDefinition, StreamDefinition
from headgate.model.profile import Profiles
from headgate.model.sql_tree import quote
from headgate.placed import located_function, plain_function
from headgate.planning.catalog import Catalog, restored_on_failure
from headgate.planning.explain import STAGES, Explanation, explain_sql, explain_stages
from headgate.planning.listing import Answer, Description, Listing, describe, show
from headgate.planning.logical import LogicalPlan
from headgate.planning.lower import Stages, lower
from headgate.planning.queries import bind
from headgate.planning.rules import optimize
from headgate.planning.type_check import SessionFunctions
from headgate.run_options import RunOptions
from headgate.spark.application.extras import NO_EXTRAS, Extras
from headgate.spark.failures import spark_errors
from headgate.statements import perform
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import PredicateEstimates

if TYPE_CHECKING:
    from headgate.spark import DataFrame, DataType, SparkSession

Own = TypeVar("Own", bound="Declarations")
# by name in lower case: a name, a function and the type of its values; None if it is dropped
_Functions = dict[str, tuple[str, Callable[..., Any], str] | None]

# task slots for pools, in addition to the processors: two jobs of an eddy overlap, besides those of another
POOL_TASKS = 4


class Declarations(ABC):
    """Everything declared for one Spark application, which is started when it is first needed.

    A declaration that fails changes nothing.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        extras: Extras = NO_EXTRAS,
    ) -> None:
        from headgate.spark.application.cluster import check_session
        from headgate.spark.sinks import SINK_FORMATS
        from headgate.spark.sources import EVENT_TIMES, RELATION_FORMATS, STREAM_FORMATS

        if spark is not None:
            check_session(spark)
        self._given = spark
        self._extras = extras
        self._master = arguments.text("master", master, "'local[*]' or 'spark://host:7077'")
        self._registered: dict[str, tuple[Callable[..., Any], str | None]] = {}
        self.catalog = Catalog(
            lambda source: self._sources.schema_of(source),
            known_sources=sorted({*STREAM_FORMATS, *RELATION_FORMATS}),
            known_sinks=SINK_FORMATS,
            event_times=EVENT_TIMES,
            session=SessionFunctions() if spark is None else _functions_of(spark),
        )
        self._callbacks: dict[str, Callable[[Any, int], None]] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._measured: Measured | None = None
        self._planned: tuple[int, Stages] | None = None
        self.options = RunOptions()
        """Options of runs that SET has given."""
        self.answers: tuple[Answer, ...] = ()
        """What SHOW and DESCRIBE of the last text gave, in order."""
        self.warnings: tuple[str, ...] = ()
        """What admission could not check, and queries that it admits although they do not fit."""

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
            extras = self._extras.with_kafka() if self._uses_kafka() else self._extras
            found = private_session(self._given or own_session(self._master, tasks, extras))
            for name, (fn, returns) in self._registered.items():
                found.udf.register(name, fn, returns)
        return found

    def _uses_kafka(self) -> bool:
        sinks = (query.sink.format.text.lower() for query in self.catalog.queries.values() if query.sink)
        return KAFKA in {*(stream.format for stream in self.catalog.streams.values()), *sinks}

    @cached_property
    def _sources(self) -> Any:
        from headgate.spark.file_system import Files
        from headgate.spark.sources import Sources

        return Sources(self._spark, Files(self._spark))

    def _processors(self) -> int | None:
        """How many runs will have; None if Spark would have to be started to know."""
        from headgate.spark.application.cluster import local_threads, processors

        spark = vars(self).get("_spark", self._given)
        return local_threads(self._master) if spark is None else processors(spark)

    def _on_spark(self) -> Any:
        """A context in which Spark may be called; it is not started just for that."""
        return spark_errors(vars(self).get("_spark"))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        own = self._registered, self._functions, self.options.given, self._frames
        with self._on_spark(), restored_on_failure(*own), self.catalog.all_or_nothing():
            yield

    @property
    def _frames(self) -> dict[str, DataFrame]:
        """The DataFrames that were passed in, for which Spark has been started."""
        found: dict[str, DataFrame] = self._sources.frames if "_sources" in vars(self) else {}
        return found

    def execute(self: Own, text: str, origin: str = "<cql>", force: bool = False) -> Own:
        """Execute the statements of a CQL text in order: all of them, or none if one is wrong.

        Queries are checked at once; Spark is started for that only if they read a source whose columns are
        not declared. While a run is on, nothing can be declared or set. What SHOW and DESCRIBE give is in
        ``answers``; SET applies to all runs that are started later. ``origin`` is named in errors.

        Raises ``Refused`` if, according to a profile, a query would exceed its latency or memory bound, or
        make another one exceed its own. ``force`` admits them all the same.
        """
        self._check_open()
        given = arguments.text("text", text, "'CREATE STREAM ...; CREATE QUERY ...'")
        statements = cql.parse(given, arguments.name("origin", origin, "'queries.sql'"))
        is_forced = arguments.flag("force", force)
        if not all(isinstance(statement, Question) for statement in statements):
            self._check_idle("execute")
        with self._all_or_nothing():
            answers, functions = self._perform(statements)
            # some may have been dropped or replaced again
            left = {s.name.text: s for s in statements if isinstance(s, CreateQuery)}
            new = [query for name, query in left.items() if self.catalog.queries.get(name) is query]
            self._check_plans(statements, new)
            warnings = self.warnings
            if self._measured is not None and new and not is_forced:
                names = [query.name.text for query in new]
                warnings = check_admission(self.network(), names, self._measured, self._processors())
            for name, found in functions.items():
                self._unregister(name) if found is None else self._register(*found)
        self.answers, self.warnings = answers, warnings
        return self

    def _perform(self, statements: Sequence[Statement]) -> tuple[tuple[Answer, ...], _Functions]:
        """Change the catalog and the options; return the answers, and how functions change."""
        answers, functions = [], _Functions()
        for statement in statements:
            has_effect = isinstance(statement, Declaration) and not self.catalog.has_no_effect(statement)
            if answer := perform(statement, self.catalog, self.options):
                answers.append(answer)
            if has_effect and isinstance(statement, CreateFunction):
                found = located_function(statement.location.text, statement.location.span)
                name = statement.name.text
                functions[name.lower()] = name, found, statement.returns
            elif has_effect and isinstance(statement, Drop) and statement.kind == "function":
                functions[statement.name.text.lower()] = None
            elif has_effect and isinstance(statement, (Source, Drop)):
                self._drop_frames()
        return tuple(answers), functions

    def _drop_frames(self) -> None:
        """Forget the DataFrames of streams and relations that are gone, or declared anew by a statement."""
        tables = (self.catalog.streams, self.catalog.relations)
        declared = {name for table in tables for name, s in table.items() if s.format == "dataframe"}
        for name in self._frames.keys() - declared:
            del self._frames[name]

    def _check_plans(self, statements: Sequence[Statement], new: Sequence[CreateQuery]) -> None:
        """Raise if a query cannot be planned: a new one, or one that reads or calls something new."""
        are_all_new = len(new) == len(self.catalog.queries)
        if are_all_new or any(map(_changes_others, statements)):
            self._stages()
        else:
            # of thousands of queries, executed one by one, each is planned once
            lower([optimize(bind(query, self.catalog)) for query in new], self.catalog)

    def show(self, what: str) -> Listing:
        """Streams, relations, queries, functions, pools or settings, as SHOW lists them."""
        self._check_open()
        known = (*PLURALS.values(), "settings")
        wanted = arguments.text("what", what, "'streams'").lower()
        if wanted not in known:
            raise arguments.wrong("what", what, f"write one of {', '.join(map(repr, known))}")
        return self.options.listing() if wanted == "settings" else show(self.catalog, wanted)

    def describe(self, name: str, kind: str | None = None) -> Description:
        """What has a name, as DESCRIBE shows it; ``kind`` tells a function from a stream of its name.

        Spark is started if it is a source whose columns are not declared, or a query that reads one.
        """
        self._check_open()
        if kind is not None and arguments.text("kind", kind, "'function'") not in PLURALS:
            raise arguments.wrong("kind", kind, f"write one of {', '.join(map(repr, PLURALS))}")
        with self._on_spark():
            return describe(self.catalog, arguments.name("name", name, "'packets'"), kind)

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
        name = arguments.name("name", name, "'packets'")
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
        name = arguments.name("name", name, "'hosts'")
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
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", arguments.name("name", name, "'parity_of'")):
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
        self._forget(name)
        self._registered[name] = (fn, None) if is_udf else (declared(name, fn, returns), returns)
        if "_spark" in vars(self):
            self._spark.udf.register(name, *self._registered[name])
        self._functions[name.lower()] = plain_function(fn)

    def _unregister(self, name: str) -> None:
        self._forget(name)
        if "_spark" in vars(self):
            self._spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {quote(name)}")

    def _forget(self, name: str) -> None:
        self._functions.pop(name.lower(), None)
        for registered in [known for known in self._registered if known.lower() == name.lower()]:
            del self._registered[registered]

    def callback(
        self: Own, name: str, fn: Callable[[Any, int], None], timeout: str | float | None = None
    ) -> Own:
        """Register a function for INTO callback: called with an Arrow table and its batch id.

        A run fails if a call takes longer than ``timeout`` (a number of seconds, or '60 s'). Without a
        timeout it waits, and gives a call up only ten seconds after ``Run.stop``.
        """
        from headgate.spark.sinks import TimedCallback

        self._check_idle("callback")
        name = arguments.name("name", name, "'collect'")
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


def _changes_others(statement: Statement) -> bool:
    """Whether queries that there are already may have to be planned in another way."""
    is_replaced = isinstance(statement, Create) and statement.existing is Existing.REPLACE
    return is_replaced or isinstance(statement, (CreateFunction, Place, PlaceProbe))


def _functions_of(spark: SparkSession) -> SessionFunctions:
    """Functions that the user of a session has registered there, and how strict it is about types."""
    is_ansi = str(spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    return SessionFunctions(lambda name: bool(spark.catalog.functionExists(name)), is_ansi)
