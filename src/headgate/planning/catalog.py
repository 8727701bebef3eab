"""The catalog: what streams, relations and queries there are, and the order they were declared in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from headgate.cql.statement import (
    AlterPool,
    CreateFunction,
    CreatePool,
    CreateQuery,
    CreateRelation,
    CreateStream,
    Place,
    PlaceProbe,
    Statement,
)
from headgate.errors import QueryError, Span, known_names
from headgate.model.network import RelationDefinition, StreamDefinition
from headgate.model.pool import FunctionDefinition
from headgate.model.schema import Schema
from headgate.planning.declaration import check_timestamp, relation_of, stream_of
from headgate.planning.placements import Placements

SourceDefinition = StreamDefinition | RelationDefinition
SchemaResolver = Callable[[SourceDefinition], Schema]
AnySource = TypeVar("AnySource", StreamDefinition, RelationDefinition)


class Catalog:
    """Everything declared so far; names are unique over all kinds and match without regard to case.

    ``resolver`` finds the columns of sources that were declared without. Where ``known_sources`` or
    ``known_sinks`` are given, other formats are refused.
    """

    def __init__(
        self,
        resolver: SchemaResolver | None = None,
        known_sources: Collection[str] | None = None,
        known_sinks: Collection[str] | None = None,
    ) -> None:
        self._resolver = resolver
        self._known_sources = known_sources
        self.known_sinks = known_sinks
        self._kinds: dict[str, tuple[str, str]] = {}
        self._streams: dict[str, StreamDefinition] = {}
        self._relations: dict[str, RelationDefinition] = {}
        self._queries: dict[str, CreateQuery] = {}
        self._spans: dict[str, Span] = {}
        self.placements = Placements()
        self._changes = 0

    @property
    def version(self) -> int:
        """Another number after every change: plans of an earlier version are out of date."""
        return self._changes + self.placements.version

    @property
    def streams(self) -> Mapping[str, StreamDefinition]:
        """Streams in order of declaration, which breaks ties between equal timestamps."""
        return MappingProxyType(self._streams)

    @property
    def relations(self) -> Mapping[str, RelationDefinition]:
        """Stored relations in order of declaration."""
        return MappingProxyType(self._relations)

    @property
    def queries(self) -> Mapping[str, CreateQuery]:
        """Queries in order of declaration."""
        return MappingProxyType(self._queries)

    def declare(self, statement: Statement) -> None:
        """Register what a statement creates."""
        name = statement.name
        if isinstance(statement, CreateStream):
            self.add_stream(stream_of(statement, self._known_sources), name.span)
        elif isinstance(statement, CreateRelation):
            self.add_relation(relation_of(statement, self._known_sources), name.span)
        elif isinstance(statement, CreateQuery):
            self._claim(name.text, "query", name.span)
            self._queries[name.text] = statement
        elif isinstance(statement, CreateFunction):
            function = FunctionDefinition(name.text, statement.returns, statement.location)
            self.placements.create_function(function, name.span)
        elif isinstance(statement, CreatePool):
            self._claim(name.text, "pool", name.span)
            self.placements.create_pool(name.text, statement.slots)
        elif isinstance(statement, AlterPool):
            self.placements.alter_pool(name.text, statement.slots, name.span)
        elif isinstance(statement, PlaceProbe):
            self._place_probe(statement)
        else:
            assert isinstance(statement, Place)
            self.placements.place(name.text, statement.pool.text, name.span, statement.pool.span)

    def _place_probe(self, statement: PlaceProbe) -> None:
        kind, stream = self._kinds.get(statement.name.text.lower(), ("", ""))
        if kind != "stream":
            known = known_names(list(self._streams))
            message = (
                f"unknown stream {statement.name.text}; known: {known}; write CREATE STREAM before PLACE"
            )
            raise QueryError(message, statement.name.span)
        self.placements.place_probe(stream, statement.pool.text, statement.name.span, statement.pool.span)

    def drop_query(self, name: str) -> None:
        """Forget a query."""
        del self._queries[name], self._kinds[name.lower()]
        self._spans.pop(name, None)
        self._changes += 1

    def add_stream(self, stream: StreamDefinition, span: Span | None = None) -> None:
        """Register a stream; ``span`` is where its name was written, if it was."""
        check_timestamp(stream, span)
        self._claim(stream.name, "stream", span)
        self._streams[stream.name] = stream

    def add_relation(self, relation: RelationDefinition, span: Span | None = None) -> None:
        """Register a stored relation; ``span`` is where its name was written, if it was."""
        self._claim(relation.name, "relation", span)
        self._relations[relation.name] = relation

    def find(self, name: str) -> SourceDefinition | None:
        """The stream or relation of that name, whatever its case, with its columns."""
        kind, declared = self._kinds.get(name.lower(), ("", name))
        if kind == "stream":
            self._streams[declared] = stream = self._with_schema(self._streams[declared])
            return stream
        if kind == "relation":
            self._relations[declared] = relation = self._with_schema(self._relations[declared])
            return relation
        return None

    def is_query(self, name: str) -> bool:
        """Whether a query has that name."""
        return self._kinds.get(name.lower(), ("", ""))[0] == "query"

    def stream_index(self, name: str) -> int:
        """How many streams were declared before this one."""
        return list(self._streams).index(name)

    def _claim(self, name: str, kind: str, span: Span | None) -> None:
        # names become parts of operator names, column names and paths
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise QueryError(f"{name!r} cannot name a {kind}; use letters, digits and _ only", span)
        if name.lower() in self._kinds:
            taken_kind, taken_name = self._kinds[name.lower()]
            raise QueryError(f"there is a {taken_kind} {taken_name} already; choose another name", span)
        self._kinds[name.lower()] = (kind, name)
        self._changes += 1
        if span is not None:
            self._spans[name] = span

    def _with_schema(self, definition: AnySource) -> AnySource:
        if definition.schema is not None:
            return definition
        span = self._spans.get(definition.name)
        if self._resolver is None:
            message = (
                f"the columns of {definition.name} are not known; write {definition.name} (column TYPE, ...)"
            )
            raise QueryError(message, span)
        resolved = replace(definition, schema=self._resolver(definition))
        if isinstance(resolved, StreamDefinition):
            check_timestamp(resolved, span)
        return resolved
