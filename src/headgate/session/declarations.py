"""Declaring streams, relations, functions, callbacks and queries, by statements and from Python."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from headgate import cql
from headgate.control.admission import check_admission
from headgate.cql.statement import (
    PLURALS,
    AlterPool,
    AlterQuery,
    Create,
    CreateFunction,
    CreateQuery,
    Declaration,
    DeriveStream,
    Drop,
    Existing,
    PauseQuery,
    Place,
    PlaceProbe,
    ResumeQuery,
    SetOption,
    Source,
    Statement,
)
from headgate.errors import QueryError, SetupError
from headgate.model.network import FunctionDefinition, RelationDefinition, StreamDefinition
from headgate.model.sql_tree import quote
from headgate.planning.catalog import restored_on_failure
from headgate.planning.listing import Answer, Description, Listing, describe, show
from headgate.planning.lower import lower
from headgate.planning.queries import bind, bind_stream
from headgate.planning.rules import optimize
from headgate.session import arguments
from headgate.session.placed import is_grouped, located_function, plain_function
from headgate.session.state import SessionState
from headgate.session.statements import perform

if TYPE_CHECKING:
    from headgate.spark import DataFrame, DataType

Own = TypeVar("Own", bound="Declarations")
# by name in lower case: a name, a function and the type of its values; None if it is dropped
_Functions = dict[str, tuple[str, Callable[..., Any], str, bool] | None]


class Declarations(SessionState):
    """Declares by statements and from Python; a declaration that fails changes nothing."""

    @abstractmethod
    def _check_idle(self, method: str) -> None:
        """Raise if nothing can be declared now."""

    @property
    @abstractmethod
    def _is_running(self) -> bool:
        """Whether a run is on."""

    @property
    @abstractmethod
    def _paused(self) -> Collection[str] | None:
        """The paused queries of the run that is on; None if there is none."""

    @abstractmethod
    def _admit_to_run(self, new: Sequence[str], is_forced: bool) -> tuple[str, ...]:
        """Let what is declared now take effect in the run that is on; returns warnings."""

    @abstractmethod
    def _pause(self, query: str, is_paused: bool) -> None:
        """Pause or resume a query of the run that is on."""

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        with self.turn:
            own = self._registered, self._functions, self.options.given, self._frames, self._texts
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
        not declared. While a run is on, it goes on with what is declared then from the next tick on, and
        this returns once it does; nothing can be set. What SHOW and DESCRIBE give is in ``answers``; SET
        applies to all runs that are started later. ``origin`` is named in errors.

        Raises ``Refused`` if, according to a profile, a query would exceed its latency or memory bound, or
        make another one exceed its own. ``force`` admits them all the same.
        """
        self._check_open()
        given = arguments.text("text", text, "'CREATE STREAM ...; CREATE QUERY ...'")
        origin = arguments.name("origin", origin, "'queries.sql'")
        parsed = cql.parse_with_texts(given, origin, self.catalog.aggregates)
        statements = [statement for statement, _ in parsed]
        is_forced = arguments.flag("force", force)
        is_running = self._is_running
        if is_running and any(isinstance(statement, SetOption) for statement in statements):
            now = "run.change, the dashboard and POST /settings change the one that is on"
            raise SetupError(f"SET is for runs that are started later; {now}")
        with self._all_or_nothing():
            pausing = self._pausing(statements)
            answers, functions = self._perform(statements, [own for _, own in parsed])
            # some may have been dropped or replaced again
            left = {s.name.text: s for s in statements if isinstance(s, CreateQuery)}
            new = [query for name, query in left.items() if self.catalog.queries.get(name) is query]
            with self._blaming_others(given):
                self._check_plans(statements, new)
            warnings = self.warnings
            names = [query.name.text for query in new]
            if self._measured is not None and new and not is_forced and not is_running:
                warnings = check_admission(self.network(), names, self._measured, self._processors())
            for name, found in functions.items():
                self._unregister(name) if found is None else self._register(*found)
            if is_running and any(isinstance(statement, Declaration) for statement in statements):
                warnings = self._admit_to_run(names, is_forced)
        for query, is_paused in pausing.items():
            self._pause(query, is_paused)
        self.answers, self.warnings = answers, warnings
        return self

    @contextmanager
    def _blaming_others(self, text: str) -> Iterator[None]:
        """Name the query of an earlier text that could not go on: its place is not in this one."""
        try:
            yield
        except QueryError as error:
            span = error.span
            if span is None or span.text == text:
                raise
            names = (query.name for query in self.catalog.queries.values())
            before = [n for n in names if n.span.text == span.text and n.span.start <= span.start]
            if not before:
                raise
            name = max(before, key=lambda one: one.span.start).text
            raise QueryError(f"query {name} could not go on: {error.message}") from error

    @property
    def script(self) -> str:
        """The statements that declare all that there is now, but for what was declared from Python."""
        gone = {key for key in self._texts if key[-2] == "query" and not self.catalog.is_query(key[-1])}
        return "".join(f"{text};\n" for key, text in self._texts.items() if key not in gone)

    def _pausing(self, statements: Sequence[Statement]) -> dict[str, bool]:
        """The queries to pause or resume, whether they are declared already or by these statements."""
        created = {s.name.text.lower(): s.name.text for s in statements if isinstance(s, CreateQuery)}
        found = {}
        for statement in statements:
            if isinstance(statement, (PauseQuery, ResumeQuery)):
                name, span = statement.name.text, statement.name.span
                if not self._is_running:
                    raise QueryError(
                        "there is no active run whose query could be paused; start one first", span
                    )
                query = created.get(name.lower()) or self.catalog.declared_name("query", name, span)
                found[query] = isinstance(statement, PauseQuery)
        return found

    def _perform(
        self, statements: Sequence[Statement], texts: Sequence[str] = ()
    ) -> tuple[tuple[Answer, ...], _Functions]:
        """Change the catalog and the options; return the answers, and how functions change.

        ``texts`` are those of the statements, where what they declare is to last.
        """
        answers, functions = [], _Functions()
        for statement, text in zip(statements, texts or [""] * len(statements), strict=True):
            if isinstance(statement, (PauseQuery, ResumeQuery)):
                continue
            has_effect = isinstance(statement, Declaration) and not self.catalog.has_no_effect(statement)
            if answer := perform(statement, self.catalog, self.options, self._paused):
                answers.append(answer)
            if has_effect and isinstance(statement, Declaration):
                self._keep_text(statement, text)
            if has_effect and isinstance(statement, CreateFunction):
                found = located_function(statement.location.text, statement.location.span)
                name = statement.name.text
                functions[name.lower()] = name, found, statement.returns, statement.is_aggregate
            elif has_effect and isinstance(statement, Drop) and statement.kind == "function":
                functions[statement.name.text.lower()] = None
            elif has_effect and isinstance(statement, (Source, Drop)):
                self._drop_frames()
        return tuple(answers), functions

    def _keep_text(self, declaration: Declaration, text: str) -> None:
        name = declaration.name.text.lower()
        if isinstance(declaration, (Create, Drop)):
            kind = declaration.kind
            if isinstance(declaration, Drop) or kind == "query":
                # what was altered since belongs to the one that goes
                for key in [k for k in self._texts if k[1:] == (kind, name)]:
                    del self._texts[key]
            if isinstance(declaration, Drop):
                self._texts.pop((kind, name), None)
            else:
                self._texts[kind, name] = text
        elif isinstance(declaration, (AlterPool, AlterQuery)):
            kind = "pool" if isinstance(declaration, AlterPool) else "query"
            key = ("alter", kind, name)
            self._texts[key] = f"{self._texts[key]};\n{text}" if key in self._texts else text
        else:
            self._texts["place", "stream" if isinstance(declaration, PlaceProbe) else "function", name] = text

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
        # what no query reads yet, no query checks
        for statement in statements:
            if isinstance(statement, DeriveStream) and statement in self.catalog.derived.values():
                bind_stream(statement, self.catalog)

    def show(self, what: str) -> Listing:
        """Streams, relations, queries, functions, pools or settings, as SHOW lists them."""
        self._check_open()
        known = (*PLURALS.values(), "settings")
        wanted = arguments.text("what", what, "'streams'").lower()
        if wanted not in known:
            raise arguments.wrong("what", what, f"write one of {', '.join(map(repr, known))}")
        return self.options.listing() if wanted == "settings" else show(self.catalog, wanted, self._paused)

    def describe(self, name: str, kind: str | None = None) -> Description:
        """What has a name, as DESCRIBE shows it; ``kind`` distinguishes a function from a stream of its name.

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

    def function(
        self: Own,
        name: str,
        fn: Callable[..., Any],
        returns: str | DataType = "string",
        in_processes: bool = False,
    ) -> Own:
        """Register a Python function (or a Spark UDF) for use in expressions.

        ``returns`` is the type of its values: text of Spark SQL, or a type of PySpark. A UDF has its own. A
        pandas UDF of Series that returns a single value is an aggregate function. With ``in_processes``,
        calls on a pool are made in processes, in parallel, which suits a function that is CPU-bound.
        """
        return self._declare_function(name, fn, returns, is_grouped(fn), in_processes)

    def aggregate(self: Own, name: str, fn: Callable[..., Any], returns: str | DataType = "double") -> Own:
        """Register an aggregate function: called for each group, with a pandas Series for each argument."""
        return self._declare_function(name, fn, returns, is_aggregate=True)

    def _declare_function(
        self: Own,
        name: str,
        fn: Callable[..., Any],
        returns: str | DataType,
        is_aggregate: bool,
        in_processes: bool = False,
    ) -> Own:
        self._check_idle("function")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", arguments.name("name", name, "'parity_of'")):
            raise SetupError(f"{name!r} cannot name a function; use letters, digits and _ only")
        arguments.function(f"function {name}", fn)
        declared_type = arguments.data_type("returns", getattr(fn, "returnType", returns))
        with self._all_or_nothing():
            self.catalog.add_function(
                FunctionDefinition(name, declared_type, None, is_aggregate, in_processes)
            )
            self._stages()
            self._register(name, fn, declared_type, is_aggregate)
        return self

    def _register(self, name: str, fn: Callable[..., Any], returns: str, is_aggregate: bool) -> None:
        from headgate.spark.user_functions import registration

        self._forget(name)
        self._registered[name] = registration(name, fn, returns, is_aggregate)
        if "_spark" in vars(self):
            self._registered[name](self._spark)
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

    def partition_callback(self: Own, name: str, fn: Callable[[Iterator[Any], int, int], None]) -> Own:
        """Register a function for INTO callback that executors call, as with ``foreachPartition``.

        It is called with an iterator of Arrow record batches, the batch id and the number of the partition.
        """
        from headgate.spark.outbox import PartitionCallback

        self._check_idle("partition_callback")
        name = arguments.name("name", name, "'store'")
        self._callbacks[name] = PartitionCallback(name, arguments.function(f"callback {name}", fn))
        return self


def _changes_others(statement: Statement) -> bool:
    """Whether queries that there are already may have to be planned in another way."""
    is_replaced = isinstance(statement, Create) and statement.existing is Existing.REPLACE
    return is_replaced or isinstance(statement, (AlterQuery, CreateFunction, Place, PlaceProbe))
