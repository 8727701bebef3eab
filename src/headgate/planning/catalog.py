"""The catalog: what statements declare, in order of declaration; the meaning of OPTIONS, WITH and INTO."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from headgate.cql import statement as cql
from headgate.cql.statement import Create, CreateQuery, CreateView, Declaration, DeriveStream, Existing
from headgate.cql.syntax import Name
from headgate.errors import QueryError, SetupError, Span, known_names, unknown_name
from headgate.model import network
from headgate.model.network import FunctionDefinition, PoolDefinition, RelationDefinition, StreamDefinition
from headgate.planning.dependencies import callers, readers
from headgate.planning.names import NOTHING, Declared, Names
from headgate.planning.query_settings import ALTERABLE_SETTINGS, QUERY_SETTINGS
from headgate.planning.setting_values import by_key
from headgate.planning.source_definitions import check_timestamp, relation_of, resolved, stream_of
from headgate.planning.type_check import Functions, SessionFunctions
from headgate.planning.types import Type

SourceDefinition = StreamDefinition | RelationDefinition
SchemaResolver = Callable[[SourceDefinition], network.Schema]
AnySource = TypeVar("AnySource", StreamDefinition, RelationDefinition)


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
            stream = stream_of(statement, self.known_sources, self.event_times)
            self.add_stream(stream, span, statement.existing)
        elif isinstance(statement, cql.CreateRelation):
            self.add_relation(relation_of(statement, self.known_sources), span, statement.existing)
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
            in_processes = statement.in_processes
            self.add_function(
                FunctionDefinition(name, statement.returns, location, is_aggregate, in_processes)
            )
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
        check_timestamp(stream, span)
        stream = resolved(stream, self.known_functions)
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
                stream = resolved(self._with_schema(stream, declared), self.known_functions)
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
            if (key := setting.key.text.lower()) in QUERY_SETTINGS and key not in ALTERABLE_SETTINGS:
                message = f"{key} is part of what the query computes; write CREATE OR REPLACE QUERY {name}"
                raise QueryError(message, setting.span)
        query = self.queries[name]
        settings = {**by_key(query.settings), **by_key(statement.settings)}
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
            check_timestamp(resolved, declared.span)
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
