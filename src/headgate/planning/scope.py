"""The sources of one SELECT, and what the columns in its expressions refer to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.cql.statement import ColumnReference, FromItem, ScalarExpression
from headgate.errors import QueryError, Span, known_names
from headgate.model.expression import Expression, column_of
from headgate.model.network import RelationDefinition, StreamDefinition
from headgate.model.schema import Column, Schema
from headgate.planning.text import Replacement, on_one_line, quoted, replaced


@dataclass(frozen=True)
class Source:
    """A stream or relation in FROM, with its columns known."""

    item: FromItem
    definition: StreamDefinition | RelationDefinition
    schema: Schema

    @property
    def alias(self) -> str:
        """The name that the query calls it by: an alias as written, or its own as declared."""
        written = self.item.alias.text
        return self.definition.name if written.lower() == self.definition.name.lower() else written

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream, and not a stored relation."""
        return isinstance(self.definition, StreamDefinition)

    def is_timestamp(self, column: Column) -> bool:
        """Whether the column carries the stream's event time."""
        timestamp = self.definition.timestamp if isinstance(self.definition, StreamDefinition) else None
        return timestamp is not None and timestamp.lower() == column.name.lower()


@dataclass(frozen=True)
class BoundColumn:
    """What a reference means: a column of a source, or a field of such a column."""

    source: Source
    column: Column
    field: str | None = None

    @property
    def plan_column(self) -> str:
        """The column's name inside of the plan."""
        return column_of(self.source.alias, self.column.name)

    @property
    def text(self) -> str:
        """The reference as Spark reads it."""
        field = f".{quoted(self.field)}" if self.field is not None else ""
        return quoted(self.plan_column) + field

    @property
    def shown(self) -> str:
        """The reference as a user would write it in full."""
        return f"{self.source.alias}.{self.column.name}"


class Scope:
    """The sources of one SELECT by alias; aliases and columns match without regard to case."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self._by_alias: dict[str, Source] = {}
        plan_columns: set[str] = set()
        for source in self.sources:
            alias = source.item.alias
            if self._by_alias.setdefault(alias.text.lower(), source) is not source:
                message = f"{alias.text} is in FROM twice; write {source.item.source.text} AS another_name"
                raise QueryError(message, alias.span)
            columns = {column_of(source.alias, name).lower() for name in source.schema.names}
            if columns & plan_columns:
                raise QueryError(f"{alias.text} is too much like another alias; choose another", alias.span)
            plan_columns |= columns

    @property
    def streams(self) -> tuple[Source, ...]:
        """The streams, in order of FROM."""
        return tuple(source for source in self.sources if source.is_stream)

    @property
    def relations(self) -> tuple[Source, ...]:
        """The stored relations, in order of FROM."""
        return tuple(source for source in self.sources if not source.is_stream)

    def bind(self, expression: ScalarExpression) -> Expression:
        """The expression over plan columns."""
        bound = [self.resolve(reference) for reference in expression.columns]
        changes = [Replacement(r.span, b.text) for r, b in zip(expression.columns, bound, strict=True)]
        text, _ = replaced(expression.span, changes)
        columns = tuple(dict.fromkeys(b.plan_column for b in bound))
        return Expression(on_one_line(text), columns, expression.span)

    def resolve(self, reference: ColumnReference) -> BoundColumn:
        """What the reference means; a QueryError says why it means nothing."""
        if reference.qualifier is None:
            found = self.find(reference.name, reference.span)
            if found is None:
                raise self._unknown_column(reference)
            return found
        source = self._by_alias.get(reference.qualifier.lower())
        if source is not None:
            return BoundColumn(source, column_of_source(source, reference))
        struct = self.find(reference.qualifier, reference.span)
        if struct is None:
            raise self._unknown_alias(reference.qualifier, reference.span)
        return BoundColumn(struct.source, struct.column, reference.name)

    def source(self, alias: str, span: Span) -> Source:
        """The source of that alias."""
        found = self._by_alias.get(alias.lower())
        if found is None:
            raise self._unknown_alias(alias, span)
        return found

    def find(self, name: str, span: Span) -> BoundColumn | None:
        """The one column of that name over all sources, if there is any."""
        found = [
            BoundColumn(source, column) for source in self.sources if (column := source.schema.find(name))
        ]
        if len(found) > 1:
            candidates = " or ".join(candidate.shown for candidate in found)
            raise QueryError(f"{name} is ambiguous; write {candidates}", span)
        return found[0] if found else None

    def _unknown_column(self, reference: ColumnReference) -> QueryError:
        several = len(self.sources) > 1
        columns = [f"{s.alias}.{name}" if several else name for s in self.sources for name in s.schema.names]
        return QueryError(f"unknown column {reference.name}; columns: {', '.join(columns)}", reference.span)

    def _unknown_alias(self, alias: str, span: Span) -> QueryError:
        renamed = next((s for s in self.sources if s.item.source.text.lower() == alias.lower()), None)
        if renamed is not None:
            return QueryError(f"{alias} is called {renamed.alias} here; write {renamed.alias}", span)
        known = known_names([source.alias for source in self.sources])
        return QueryError(f"unknown alias {alias}; known: {known}", span)


def column_of_source(source: Source, reference: ColumnReference) -> Column:
    """The column of that name in one source."""
    column = source.schema.find(reference.name)
    if column is None:
        columns = ", ".join(source.schema.names)
        raise QueryError(f"{source.alias} has no column {reference.name}; columns: {columns}", reference.span)
    return column
