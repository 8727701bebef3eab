"""The catalog: what statements declare, in order of declaration; the meaning of OPTIONS, WITH and INTO."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql.measure import parse_bytes, parse_duration_us
from headgate.cql.statement import (
    Create,
    CreateQuery,
    CreateView,
    Declaration,
    DeriveStream,
    Existing,
    Name,
    Setting,
)
from headgate.errors import QueryError, SetupError, Span, known_names, suggestion, unknown_name
from headgate.model import kafka, network
from headgate.model.expression import Expression
from headgate.model.network import (
    ComputedColumn,
    FunctionDefinition,
    PoolDefinition,
    RelationDefinition,
    StreamDefinition,
)
from headgate.model.shedding import Utility
from headgate.model.sql_tree import column_tree
from headgate.planning.dependencies import callers, readers
from headgate.planning.logical import LogicalPlan, StreamScan, scans
from headgate.planning.names import NOTHING, Declared, Names
from headgate.planning.options import check_generated, relation_options, sink_options, stream_options
from headgate.planning.retention import with_retention
from headgate.planning.type_check import Functions, SessionFunctions, TypeCheck
from headgate.planning.types import Type

SourceDefinition = StreamDefinition | RelationDefinition
SchemaResolver = Callable[[SourceDefinition], network.Schema]
AnySource = TypeVar("AnySource", StreamDefinition, RelationDefinition)
# the first words of the types of timestamps: times, and seconds as whole or decimal numbers
_TIME_WORDS = (
    "TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ DATE TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG "
    "FLOAT REAL DOUBLE DECIMAL DEC NUMERIC"
)
_TIMES = frozenset(_TIME_WORDS.split())
# options of streams that need a timestamp, and the settings that they are
_DELAYS = {"watermark": "watermark_delay_us", "idle_after": "idle_after_us", "max_ahead": "max_ahead_us"}
_KNOWN = ("latency", "memory", "overload", "quality", "utility", "on_error", "retention", "start")
# settings that leave results as they are
_ALTERABLE = ("latency", "memory", "overload", "utility", "on_error")
_FILES = ("parquet", "json", "csv", "orc", "text")


@dataclass(eq=False)
class Catalog(Names):
    """Everything declared so far; names are case-insensitive, and unique over all kinds but functions.

    ``resolver`` finds the columns of sources that were declared without any. If ``known_sources`` or
    ``known_sinks`` are given, other formats are rejected. ``event_times`` has the timestamp column of streams
    of a format that name none. ``session`` is what Spark knows of functions.
    """

    resolver: SchemaResolver | None = None
    known_sources: Collection[str] | None = None
    known_sinks: Collection[str] | None = None
    event_times: Mapping[str, str] = field(default_factory=dict)
    session: SessionFunctions = field(default_factory=SessionFunctions)
    _placed: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    """The pools of functions and probes; all names are in lower case."""

    def declare(self, statement: Declaration) -> None:
        if self.has_no_effect(statement):
            return
        name, span = statement.name.text, statement.name.span
        if isinstance(statement, cql.CreateStream):
            stream = _stream_of(statement, self.known_sources, self.event_times)
            self.add_stream(stream, span, statement.existing)
        elif isinstance(statement, cql.CreateRelation):
            self.add_relation(_relation_of(statement, self.known_sources), span, statement.existing)
        elif isinstance(statement, CreateQuery):
            self._claim(name, "query", span, statement.existing)
            self.queries[name] = statement
        elif isinstance(statement, DeriveStream):
            self._claim(name, "stream", span, statement.existing)
            self.streams.pop(name, None)
            self.derived[name] = statement
        elif isinstance(statement, CreateView):
            self._claim(name, "view", span, statement.existing)
            self.views[name] = statement
        elif isinstance(statement, cql.CreateFunction):
            if name.lower() in self.functions and statement.existing is not Existing.REPLACE:
                raise QueryError(f"function {name} already exists; choose another name", span)
            location, is_aggregate = statement.location.text, statement.is_aggregate
            self.add_function(FunctionDefinition(name, statement.returns, location, is_aggregate))
        elif isinstance(statement, cql.CreatePool):
            self._claim(name, "pool", span, statement.existing)
            self.pools[name.lower()] = PoolDefinition(name, statement.slots)
        elif isinstance(statement, cql.AlterPool):
            self.pools[name.lower()] = replace(self._pool(statement.name), slots=statement.slots)
        elif isinstance(statement, cql.AlterQuery):
            self._alter(statement)
        elif isinstance(statement, cql.Drop):
            self._drop(statement.kind, statement.name)
        else:
            self._place(statement)
        self.version += 1

    def has_no_effect(self, statement: Declaration) -> bool:
        """Whether IF EXISTS or IF NOT EXISTS leaves everything as it is."""
        if isinstance(statement, cql.Drop):
            return statement.if_exists and not self._holder(statement.kind, statement.name.text)
        if isinstance(statement, Create) and statement.existing is Existing.KEEP:
            return self._holder(statement.kind, statement.name.text) == statement.kind
        return False

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo all declarations inside if one of them fails, or anything else does."""
        sources = self.streams, self.derived, self.relations, self.views
        declared = *sources, self.queries, self.functions, self.pools, self._declared, self._placed
        try:
            with restored_on_failure(*declared):
                yield
        except BaseException:
            # not the version of before: plans of the failed declarations may have been kept under this one
            self.version += 1
            raise

    def drop_query(self, name: str) -> None:
        if name not in self.queries:
            raise SetupError(unknown_name("query", name, self.queries))
        self._release("query", name)
        self.version += 1

    def add_stream(
        self, stream: StreamDefinition, span: Span | None = None, existing: Existing = Existing.REFUSE
    ) -> None:
        """Register a stream; ``span`` is the position of its name, if it was written."""
        _check_timestamp(stream, span)
        stream = _resolved(stream, self.known_functions)
        self._claim(stream.name, "stream", span, existing)
        self.derived.pop(stream.name, None)
        self.streams[stream.name] = stream

    def add_relation(
        self, relation: RelationDefinition, span: Span | None = None, existing: Existing = Existing.REFUSE
    ) -> None:
        self._claim(relation.name, "relation", span, existing)
        self.relations[relation.name] = relation

    def add_function(self, function: FunctionDefinition) -> None:
        self.functions[function.name.lower()] = function
        self.version += 1

    @property
    def aggregates(self) -> frozenset[str]:
        """The aggregate functions of the user's, in lower case."""
        return frozenset(name for name, function in self.functions.items() if function.is_aggregate)

    def find_derived(self, name: str) -> DeriveStream | None:
        return self.derived.get(self._declared.get(name.lower(), NOTHING).name)

    def find_view(self, name: str) -> CreateView | None:
        return self.views.get(self._declared.get(name.lower(), NOTHING).name)

    def find(self, name: str) -> SourceDefinition | None:
        """A stream or relation that is read from outside, with its columns."""
        declared = self._declared.get(name.lower(), NOTHING)
        if declared.kind == "stream" and declared.name in self.streams:
            stream = self.streams[declared.name]
            if stream.schema is None:
                stream = _resolved(self._with_schema(stream, declared), self.known_functions)
            self.streams[declared.name] = stream
            return stream
        if declared.kind == "relation":
            relation = self._with_schema(self.relations[declared.name], declared)
            self.relations[declared.name] = relation
            return relation
        return None

    @property
    def known_functions(self) -> Functions:
        """What expressions may call besides the functions of every Spark."""
        returned = {name: Type.declared(function.returns) for name, function in self.functions.items()}
        return Functions(returned, self.session)

    def placed(self, function: str) -> tuple[FunctionDefinition, str] | None:
        pool = self._placed.get(("function", function.lower()))
        return None if pool is None else (self.functions[function.lower()], self.pools[pool].name)

    def pool_of_probe(self, stream: str) -> str | None:
        """The pool on which the windows of a stream are probed; None: in ticks, as other joins do."""
        pool = self._placed.get(("probe", stream.lower()))
        return None if pool is None else self.pools[pool].name

    def served_by(self, pool: str) -> tuple[str, ...]:
        """What is placed on a pool, as messages name it."""
        placed = [thing for thing, key in self._placed.items() if key == pool.lower()]
        return tuple(
            f"function {self._spelling(kind, key)}"
            if kind == "function"
            else f"the probe of stream {self._spelling('stream', key)}"
            for kind, key in placed
        )

    def _drop(self, kind: str, name: Name) -> None:
        spelling, key = self.declared_name(kind, name.text, name.span), name.text.lower()
        if need := self._need_of(kind, spelling):
            raise QueryError(f"{kind} {spelling} {need} first", name.span)
        self._release(kind, spelling)
        self._placed.pop(("probe" if kind == "stream" else kind, key), None)

    def _alter(self, statement: cql.AlterQuery) -> None:
        name = self.declared_name("query", statement.name.text, statement.name.span)
        for setting in statement.settings:
            if (key := setting.key.text.lower()) in _KNOWN and key not in _ALTERABLE:
                message = f"{key} is part of what the query computes; write CREATE OR REPLACE QUERY {name}"
                raise QueryError(message, setting.span)
        query = self.queries[name]
        settings = {**_by_key(query.settings), **_by_key(statement.settings)}
        self.queries[name] = replace(query, settings=tuple(settings.values()))

    def _need_of(self, kind: str, name: str) -> str:
        """Who needs a declaration, and what to drop before it."""
        if kind == "pool":
            users, verb = self.served_by(name), "serves"
        else:
            of_function = kind == "function"
            found = callers(name, self.readers) if of_function else readers(name, self.readers)
            users = tuple(f"{user.kind} {user.name.text}" for user in found)
            verb = f"is {'called' if of_function else 'read'} by"
        return f"{verb} {' and '.join(users)}; drop {'that' if len(users) == 1 else 'them'}" if users else ""

    def _place(self, statement: cql.Place | cql.PlaceProbe) -> None:
        kind, name, shown = self._placeable(statement)
        pool = self._pool(statement.pool).name
        # what is placed there already may be placed again: texts with IF NOT EXISTS can be executed twice
        if (placed := self._placed.get((kind, name))) and placed != pool.lower():
            where = self.pools[placed].name
            raise QueryError(f"{shown} is placed on {where} already; keep one", statement.name.span)
        # a slot runs a call on one tuple, or a job on many
        for (other, _), serving in self._placed.items():
            if serving == pool.lower() and other != kind:
                message = f"pool {pool} serves {other}s; a pool takes functions or probes"
                raise QueryError(f"{message}, so create another one", statement.pool.span)
        self._placed[kind, name] = pool.lower()

    def _placeable(self, statement: cql.Place | cql.PlaceProbe) -> tuple[str, str, str]:
        """What a statement places: its kind, its name, and how messages name it."""
        key = statement.name.text.lower()
        declared = self._declared.get(key, NOTHING)
        if isinstance(statement, cql.Place) and key in self.aggregates:
            message = f"{self.functions[key].name} is an aggregate function; place functions of single tuples"
            raise QueryError(message, statement.name.span)
        if isinstance(statement, cql.Place) and key in self.functions:
            return "function", key, f"function {self.functions[key].name}"
        if isinstance(statement, cql.PlaceProbe) and declared.name in self.derived:
            message = f"{declared.name} is a derived stream, whose probes cannot be placed"
            raise QueryError(f"{message}; place those of the streams that it reads", statement.name.span)
        if isinstance(statement, cql.PlaceProbe) and declared.kind == "stream":
            return "probe", key, f"the probe of {declared.name}"
        functions = ("function", [function.name for function in self.functions.values()])
        kind, known = functions if isinstance(statement, cql.Place) else ("stream", list(self.streams))
        message = f"unknown {kind} {statement.name.text}; known: {known_names(known)}"
        raise QueryError(f"{message}; write CREATE {kind.upper()} before PLACE", statement.name.span)

    def _pool(self, name: Name) -> PoolDefinition:
        found = self.pools.get(name.text.lower())
        if found is None:
            known = known_names([pool.name for pool in self.pools.values()])
            raise QueryError(f"unknown pool {name.text}; known: {known}; write CREATE POOL first", name.span)
        return found

    def _with_schema(self, definition: AnySource, declared: Declared) -> AnySource:
        if definition.schema is not None:
            return definition
        if self.resolver is None:
            problem = f"the columns of {definition.name} are not known"
            raise QueryError(f"{problem}; write {definition.name} (column TYPE, ...)", declared.span)
        resolved = replace(definition, schema=self.resolver(definition))
        if isinstance(resolved, StreamDefinition):
            _check_timestamp(resolved, declared.span)
        return resolved


@contextmanager
def restored_on_failure(*tables: dict[Any, Any]) -> Iterator[None]:
    """Undo all changes of the tables inside if anything fails."""
    before = [dict(table) for table in tables]
    try:
        yield
    except BaseException:
        for table, content in zip(tables, before, strict=True):
            table.clear()
            table.update(content)
        raise


def _stream_of(
    statement: cql.CreateStream, known_formats: Collection[str] | None, event_times: Mapping[str, str]
) -> StreamDefinition:
    source_format = _format_of(statement.format, known_formats, "source")
    options = stream_options(source_format).spelt(statement.options)
    timestamp, old_name = options.pop("timestamp", None), options.pop("slack", None)
    if old_name and options.setdefault("watermark", old_name) is not old_name:
        raise QueryError("slack is the old name of watermark; keep one of them", old_name.span)
    delays = {field: options.pop(key) for key, field in _DELAYS.items() if key in options}
    column = timestamp.value if timestamp else event_times.get(source_format)
    for delay in delays.values():
        if column is None:
            raise QueryError(f"{delay.key.text.lower()} needs timestamp '<column>'", delay.span)
    durations = {field: _measured(delay, parse_duration_us) for field, delay in delays.items()}
    _refuse_own_bad_rows(options)
    check_generated(source_format, options)
    stream = StreamDefinition(
        statement.name.text,
        source_format,
        _schema_of(statement),
        _pairs(options),
        column,
        **durations,
        computed=tuple(_computed(statement)),
        primary_key=tuple(key.text for key in statement.primary_key),
    )
    # without brokers a stream can be planned, but not opened
    if source_format == kafka.KAFKA and kafka.servers(stream):
        with _reported_at(statement.name.span):
            kafka.check_stream(stream)
    _check_timestamp(stream, timestamp.span if timestamp else statement.name.span)
    return stream


@contextmanager
def _reported_at(span: Span | None) -> Iterator[None]:
    """Errors inside name a place in the text."""
    try:
        yield
    except SetupError as error:
        raise QueryError(str(error), span) from None


def _computed(statement: cql.CreateStream) -> Iterator[ComputedColumn]:
    """Computed columns as written."""
    for column in statement.columns:
        if (written := column.computed) is not None:
            value = Expression.parse(written.text, written.span)
            yield ComputedColumn(column.name.text, column.type, value)


def _resolved(stream: StreamDefinition, functions: Functions) -> StreamDefinition:
    """The stream with computed columns in their types, over columns that the source brings."""
    if stream.schema is None:
        return stream
    known: dict[str, exp.Expr] = {name.lower(): column_tree(name) for name in stream.schema.names}
    computed: list[ComputedColumn] = []
    for column in stream.computed:
        value = column.value
        for name in value.columns:
            if name.lower() not in known:
                names = [*stream.schema.names, *(one.name for one in computed)]
                raise QueryError(f"unknown column {name}; columns: {', '.join(names)}", value.span)
        TypeCheck(functions, {}, value.span, is_in_place=False).type_of(value.tree)
        given = value.over({name: known[name.lower()] for name in value.columns})
        text = f"CAST(({given.text}) AS {column.type})"
        computed.append(replace(column, value=Expression.parse(text, value.span)))
        known[column.name.lower()] = computed[-1].value.tree
    return replace(stream, computed=tuple(computed))


def _refuse_own_bad_rows(options: dict[str, Setting]) -> None:
    """Rows of a stream that do not parse are the engine's business."""
    mode, column = options.get("mode"), options.get("columnNameOfCorruptRecord")
    found = column if mode is None or mode.value.upper() == "PERMISSIVE" else mode
    if found is not None:
        written = f"{found.key.text} {found.value}"
        message = f"{written} is not supported; remove it: bad rows go to the dead-letter table"
        raise QueryError(message, found.span)


def _relation_of(statement: cql.CreateRelation, known_formats: Collection[str] | None) -> RelationDefinition:
    source_format = _format_of(statement.format, known_formats, "source")
    options = relation_options(source_format).spelt(statement.options)
    refresh = options.pop("refresh", None)
    return RelationDefinition(
        statement.name.text,
        source_format,
        _schema_of(statement),
        _pairs(options),
        _positive(refresh, parse_duration_us) if refresh else None,
    )


def _schema_of(statement: cql.Source) -> network.Schema | None:
    brought = [column for column in statement.columns if column.computed is None]
    columns = tuple(network.Column(column.name.text, column.type) for column in brought)
    return network.Schema(columns) if columns else None


def _check_timestamp(stream: StreamDefinition, span: Span | None) -> None:
    """Reject a timestamp column that does not exist or carries no time, if columns are known."""
    if stream.timestamp is None or stream.schema is None:
        return
    column = stream.schema.find(stream.timestamp)
    if column is None:
        is_computed = stream.timestamp.lower() in {one.name.lower() for one in stream.computed}
        of_other = "is computed, and must come with the tuple"
        problem = (
            f"timestamp {stream.timestamp} {of_other if is_computed else f'is not a column of {stream.name}'}"
        )
        raise QueryError(f"{problem}; columns: {', '.join(stream.schema.names)}", span)
    word = re.match(r"\w*", column.type.strip().upper())
    if word is None or word[0] not in _TIMES:
        raise QueryError(f"timestamp column {column.name} is {column.type}; declare it TIMESTAMP", span)


def _by_key(settings: Sequence[Setting]) -> dict[str, Setting]:
    """Settings by key in lower case, in the order written; the parser rejects duplicates."""
    return {setting.key.text.lower(): setting for setting in settings}


def _pairs(settings: dict[str, Setting]) -> tuple[tuple[str, str], ...]:
    return tuple((name, setting.value) for name, setting in settings.items())


def _measured(setting: Setting, read: Callable[[str], int]) -> int:
    try:
        return read(setting.value)
    except ValueError as error:
        raise QueryError(f"{setting.key.text}: {error}", setting.span) from None


def _format_of(written: Name, known: Collection[str] | None, role: str) -> str:
    """The format's name; short names are case-insensitive, class names are not."""
    if known is not None and written.text.lower() not in {name.lower() for name in known}:
        message = f"unknown {role} format {written.text}; known: {known_names(list(known))}"
        raise QueryError(message, written.span)
    return written.text if "." in written.text else written.text.lower()


def with_service(plan: LogicalPlan, settings: tuple[Setting, ...], known: Functions) -> LogicalPlan:
    """The plan with the settings of WITH; ``known`` are the functions that an expression may call."""
    by_key = _by_key(settings)
    for key, setting in by_key.items():
        if key not in _KNOWN:
            hint = suggestion(key, _KNOWN, f"known: {known_names(_KNOWN)}")
            raise QueryError(f"unknown setting {setting.key.text}; {hint}", setting.key.span)
    latency, memory, overload, quality, utility, on_error, retention, start = map(by_key.get, _KNOWN)
    if utility and (overload is None or overload.value.lower() != "shed"):
        raise QueryError("utility requires overload = 'shed'; add it", utility.span)
    if utility and quality and quality.value.lower() == "true":
        message = "quality = true cannot be combined with utility: nothing is known about the dropped tuples"
        raise QueryError(f"{message}; leave one out", quality.span)
    query = replace(
        plan.query,
        latency_s=_positive(latency, parse_duration_us) / 1e6 if latency else None,
        memory_bytes=_positive(memory, parse_bytes) if memory else None,
        overload=_one_of(overload, ("backpressure", "shed")) if overload else plan.query.overload,
        utility=_utility_of(utility, plan, known) if utility else None,
        on_error=_one_of(on_error, ("set aside", "stop")) if on_error else plan.query.on_error,
        start=_one_of(start, ("now", "log")) if start else plan.query.start,
    )
    has_quality = quality is not None and _one_of(quality, ("true", "false")) == "true"
    plan = replace(plan, query=query, quality=has_quality)
    if retention is None:
        return plan
    return with_retention(plan, _positive(retention, parse_duration_us), retention.span)


def _one_of(setting: Setting, values: tuple[str, ...]) -> str:
    if setting.value.lower() not in values:
        choice = " or ".join(f"'{value}'" for value in values)
        raise QueryError(f"{setting.key.text} is {choice}, not '{setting.value}'", setting.span)
    return setting.value.lower()


def _positive(setting: Setting, read: Callable[[str], int]) -> int:
    value = _measured(setting, read)
    if value <= 0:
        raise QueryError(f"{setting.key.text} must be more than 0", setting.span)
    return value


def sink_of(clause: cql.SinkClause | None, known_sinks: Collection[str] | None) -> network.SinkDefinition:
    """Where results go; memory if the query does not state it."""
    if clause is None:
        return network.SinkDefinition("memory")
    sink_format = _format_of(clause.format, known_sinks, "sink")
    options = sink_options(sink_format).spelt(clause.options)
    if sink_format in _FILES and "path" not in options:
        raise QueryError(f"{sink_format} needs a path; write OPTIONS (path 'out/')", clause.span)
    mode = options.get("mode")
    if mode is not None and mode.value.strip().lower() not in network.SINK_MODES:
        message = f"mode {mode.value!r} is not known; write 'append' for all results"
        hint = "'latest' for one row of each key, or 'changes' for every change of these"
        raise QueryError(f"{message}, {hint}", mode.span)
    sink = network.SinkDefinition(sink_format, _pairs(options))
    if sink_format == "jdbc":
        if sink.is_latest:
            message = "INTO jdbc, key is enough to keep the last result of each key; leave mode out"
            raise QueryError(message, mode.span if mode else clause.span)
        if not {"url", "dbtable"} <= options.keys():
            message = "jdbc needs a database and a table; write OPTIONS (url 'jdbc:...', dbtable 'name')"
            raise QueryError(message, clause.span)
    elif sink_format == kafka.KAFKA:
        if sink.is_latest:
            raise QueryError("INTO kafka appends; leave mode out", mode.span if mode else clause.span)
        with _reported_at(clause.span):
            kafka.check_sink(sink)
    elif "key" in options and sink.mode == "append":
        message = "a key is for mode 'latest' or 'changes'; write one of them, or leave key out"
        raise QueryError(message, options["key"].span)
    if "partitionBy" in options and sink.is_latest:
        message = "the latest rows are one file, which is replaced; leave partitionBy out"
        raise QueryError(message, options["partitionBy"].span)
    return sink


def _utility_of(setting: Setting, plan: LogicalPlan, known: Functions) -> Utility:
    """The expression over columns of one stream: the query's only one, or that of the one alias in it."""
    own = [scan for branch in plan.branches for scan in scans(branch) if isinstance(scan, StreamScan)]
    streams = {scan.name for scan in own}
    named = {scan.alias.lower(): scan for scan in own}
    used: set[str] = set()

    def change(node: exp.Expr) -> exp.Expr | None:
        is_field = isinstance(node, exp.Dot) and isinstance(node.this, exp.Column)
        scan = named.get(node.this.name.lower()) if is_field else None
        if scan is None:
            return None
        used.add(scan.name)
        return exp.Column(this=node.expression.copy())

    written = Expression.parse(setting.value, setting.span)
    TypeCheck(known, {}, setting.span, is_in_place=False).type_of(written.tree)
    text = written.replace(change).text
    chosen = used or (streams if len(streams) == 1 else set())
    if len(chosen) != 1:
        aliases = known_names(sorted(named))
        message = f"utility is an expression over columns of one stream; write alias.column, of {aliases}"
        raise QueryError(message, setting.span)
    stream = chosen.pop()
    if stream in {plan.query.name for plan in plan.derived}:
        message = f"tuples are dropped as they arrive, and {stream} is a derived stream"
        raise QueryError(f"{message}; leave utility out", setting.span)
    return Utility(stream, text)
