"""The catalog: what statements declare, in order of declaration; the meaning of OPTIONS, WITH and INTO."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql.measure import parse_bytes, parse_duration_us
from headgate.cql.statement import CreateQuery, Name, Setting, Statement
from headgate.errors import QueryError, Span, known_names, suggestion
from headgate.model import network
from headgate.model.expression import Expression
from headgate.model.network import FunctionDefinition, PoolDefinition, RelationDefinition, StreamDefinition
from headgate.model.shedding import Utility
from headgate.planning.logical import LogicalPlan, StreamScan, scans
from headgate.planning.options import check_burst, relation_options, sink_options, stream_options
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
_KNOWN = ("latency", "memory", "overload", "quality", "utility")
_FILES = ("parquet", "json", "csv", "orc", "text")


class _Declared(NamedTuple):
    kind: str
    name: str
    span: Span | None


_NOTHING = _Declared("", "", None)


@dataclass(eq=False)
class Catalog:
    """Everything declared so far; names are case-insensitive, and unique over all kinds but functions.

    ``resolver`` finds the columns of sources that were declared without any. If ``known_sources`` or
    ``known_sinks`` are given, other formats are rejected. ``session`` is what Spark knows of functions.
    """

    resolver: SchemaResolver | None = None
    known_sources: Collection[str] | None = None
    known_sinks: Collection[str] | None = None
    session: SessionFunctions = field(default_factory=SessionFunctions)
    streams: dict[str, StreamDefinition] = field(default_factory=dict, init=False)
    """In order of declaration, which breaks ties between equal timestamps."""
    relations: dict[str, RelationDefinition] = field(default_factory=dict, init=False)
    queries: dict[str, CreateQuery] = field(default_factory=dict, init=False)
    functions: dict[str, FunctionDefinition] = field(default_factory=dict, init=False)
    pools: dict[str, PoolDefinition] = field(default_factory=dict, init=False)
    """Functions and pools are by name in lower case."""
    version: int = field(default=0, init=False)
    """Changes with every declaration; plans of an earlier version are out of date."""
    _declared: dict[str, _Declared] = field(default_factory=dict, init=False)
    _placed: dict[tuple[str, str], str] = field(default_factory=dict, init=False)

    def declare(self, statement: Statement) -> None:
        name, span = statement.name.text, statement.name.span
        if isinstance(statement, cql.CreateStream):
            self.add_stream(_stream_of(statement, self.known_sources), span)
        elif isinstance(statement, cql.CreateRelation):
            self.add_relation(_relation_of(statement, self.known_sources), span)
        elif isinstance(statement, CreateQuery):
            self._claim(name, "query", span)
            self.queries[name] = statement
        elif isinstance(statement, cql.CreateFunction):
            if name.lower() in self.functions:
                raise QueryError(f"function {name} already exists; choose another name", span)
            self.add_function(FunctionDefinition(name, statement.returns, statement.location.text))
        elif isinstance(statement, cql.CreatePool):
            self._claim(name, "pool", span)
            self.pools[name.lower()] = PoolDefinition(name, statement.slots)
        elif isinstance(statement, cql.AlterPool):
            self.pools[name.lower()] = replace(self._pool(statement.name), slots=statement.slots)
        else:
            self._place(statement)
        self.version += 1

    def drop_query(self, name: str) -> None:
        del self.queries[name], self._declared[name.lower()]
        self.version += 1

    def add_stream(self, stream: StreamDefinition, span: Span | None = None) -> None:
        """Register a stream; ``span`` is the position of its name, if it was written."""
        _check_timestamp(stream, span)
        self._claim(stream.name, "stream", span)
        self.streams[stream.name] = stream

    def add_relation(self, relation: RelationDefinition, span: Span | None = None) -> None:
        self._claim(relation.name, "relation", span)
        self.relations[relation.name] = relation

    def add_function(self, function: FunctionDefinition) -> None:
        self.functions[function.name.lower()] = function
        self.version += 1

    def find(self, name: str) -> SourceDefinition | None:
        declared = self._declared.get(name.lower(), _NOTHING)
        if declared.kind == "stream":
            self.streams[declared.name] = stream = self._with_schema(self.streams[declared.name], declared)
            return stream
        if declared.kind == "relation":
            relation = self._with_schema(self.relations[declared.name], declared)
            self.relations[declared.name] = relation
            return relation
        return None

    def has_columns_of(self, query: str) -> bool:
        """Whether the columns of all sources of a query are known, without asking the resolver."""
        names = {item.source.text for select in self.queries[query].branches for item in select.sources}
        declared = (self._declared.get(name.lower(), _NOTHING).name for name in names)
        sources: dict[str, SourceDefinition] = {**self.streams, **self.relations}
        return all(name in sources and sources[name].schema is not None for name in declared)

    @property
    def known_functions(self) -> Functions:
        """What expressions may call besides the functions of every Spark."""
        returned = {name: Type.declared(function.returns) for name, function in self.functions.items()}
        return Functions(returned, self.session)

    def is_query(self, name: str) -> bool:
        return self._declared.get(name.lower(), _NOTHING).kind == "query"

    def placed(self, function: str) -> tuple[FunctionDefinition, str] | None:
        pool = self._placed.get(("function", function.lower()))
        return None if pool is None else (self.functions[function.lower()], pool)

    def pool_of_probe(self, stream: str) -> str | None:
        """The pool on which the windows of a stream are probed; None: in ticks, as other joins do."""
        return self._placed.get(("probe", stream))

    def _place(self, statement: cql.Place | cql.PlaceProbe) -> None:
        kind, name, shown = self._placeable(statement)
        if placed := self._placed.get((kind, name)):
            raise QueryError(f"{shown} is placed on {placed} already; keep one", statement.name.span)
        pool = self._pool(statement.pool).name
        # a slot runs a call on one tuple, or a job on many
        for (other, _), serving in self._placed.items():
            if serving == pool and other != kind:
                message = f"pool {pool} serves {other}s; a pool takes functions or probes"
                raise QueryError(f"{message}, so create another one", statement.pool.span)
        self._placed[kind, name] = pool

    def _placeable(self, statement: cql.Place | cql.PlaceProbe) -> tuple[str, str, str]:
        """What a statement places: its kind, its name, and how messages name it."""
        key = statement.name.text.lower()
        declared = self._declared.get(key, _NOTHING)
        if isinstance(statement, cql.Place) and key in self.functions:
            return "function", key, f"function {self.functions[key].name}"
        if isinstance(statement, cql.PlaceProbe) and declared.kind == "stream":
            return "probe", declared.name, f"the probe of {declared.name}"
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

    def _claim(self, name: str, kind: str, span: Span | None) -> None:
        # names become parts of operator names, column names and paths
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise QueryError(f"{name!r} cannot name a {kind}; use letters, digits and _ only", span)
        if taken := self._declared.get(name.lower()):
            raise QueryError(f"{taken.kind} {taken.name} already exists; choose another name", span)
        self._declared[name.lower()] = _Declared(kind, name, span)
        self.version += 1

    def _with_schema(self, definition: AnySource, declared: _Declared) -> AnySource:
        if definition.schema is not None:
            return definition
        if self.resolver is None:
            problem = f"the columns of {definition.name} are not known"
            raise QueryError(f"{problem}; write {definition.name} (column TYPE, ...)", declared.span)
        resolved = replace(definition, schema=self.resolver(definition))
        if isinstance(resolved, StreamDefinition):
            _check_timestamp(resolved, declared.span)
        return resolved


def _stream_of(statement: cql.CreateStream, known_formats: Collection[str] | None) -> StreamDefinition:
    source_format = _format_of(statement.format, known_formats, "source")
    options = stream_options(source_format).spelt(statement.options)
    timestamp, old_name = options.pop("timestamp", None), options.pop("slack", None)
    if old_name and options.setdefault("watermark", old_name) is not old_name:
        raise QueryError("slack is the old name of watermark; keep one of them", old_name.span)
    delays = {field: options.pop(key) for key, field in _DELAYS.items() if key in options}
    for delay in delays.values():
        if timestamp is None:
            raise QueryError(f"{delay.key.text.lower()} needs timestamp '<column>'", delay.span)
    durations = {field: _measured(delay, parse_duration_us) for field, delay in delays.items()}
    _refuse_own_bad_rows(options)
    if source_format == "burst":
        check_burst(options)
    column, written = timestamp.value if timestamp else None, _pairs(options)
    stream = StreamDefinition(
        statement.name.text, source_format, _schema_of(statement), written, column, **durations
    )
    _check_timestamp(stream, timestamp.span if timestamp else None)
    return stream


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
    return RelationDefinition(statement.name.text, source_format, _schema_of(statement), _pairs(options))


def _schema_of(statement: cql.Source) -> network.Schema | None:
    columns = tuple(network.Column(column.name.text, column.type) for column in statement.columns)
    return network.Schema(columns) if columns else None


def _check_timestamp(stream: StreamDefinition, span: Span | None) -> None:
    """Reject a timestamp column that does not exist or carries no time, if columns are known."""
    if stream.timestamp is None or stream.schema is None:
        return
    column = stream.schema.find(stream.timestamp)
    if column is None:
        problem = f"timestamp {stream.timestamp} is not a column of {stream.name}"
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
    latency, memory, overload, quality, utility = map(by_key.get, _KNOWN)
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
    )
    has_quality = quality is not None and _one_of(quality, ("true", "false")) == "true"
    return replace(plan, query=query, quality=has_quality)


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
    return network.SinkDefinition(sink_format, _pairs(options))


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
    return Utility(chosen.pop(), text)
