"""What a CQL text says: statements as typed, immutable values with their places in the text."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import Span


@dataclass(frozen=True)
class Name:
    """An identifier as written, without its quotes."""

    text: str
    span: Span


@dataclass(frozen=True)
class Setting:
    """``key 'value'`` of OPTIONS, or ``key = value`` of WITH."""

    key: Name
    value: str
    span: Span


@dataclass(frozen=True)
class ColumnDefinition:
    """``name TYPE`` of a stream; the type is Spark's own DDL text."""

    name: Name
    type: str


@dataclass(frozen=True)
class ColumnReference:
    """A column used inside an expression, ``qualifier.name`` or ``name``."""

    qualifier: str | None
    name: str
    span: Span


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function used inside an expression; ``argument`` is None for COUNT(*)."""

    function: str
    argument: ScalarExpression | None
    distinct: bool
    span: Span


@dataclass(frozen=True)
class ScalarExpression:
    """A Spark SQL expression: its text as written, and what Headgate has to know about it.

    ``columns`` are all column references, those inside of aggregate calls included;
    ``aggregates`` the outermost aggregate calls. Both are in text order.
    """

    text: str
    span: Span
    columns: tuple[ColumnReference, ...]
    aggregates: tuple[AggregateCall, ...] = ()


@dataclass(frozen=True)
class Rows:
    """``[ROWS n]``: the latest n tuples."""

    rows: int
    span: Span


@dataclass(frozen=True)
class Range:
    """``[RANGE t]`` or ``[RANGE t SLIDE s]``: the tuples of the last t, seen at multiples of s."""

    range_us: int
    slide_us: int | None
    span: Span


@dataclass(frozen=True)
class PartitionedRows:
    """``[PARTITION BY k ROWS n]``: the latest n tuples of every key."""

    keys: tuple[ColumnReference, ...]
    rows: int
    span: Span


@dataclass(frozen=True)
class Now:
    """``[NOW]``: the tuples of this very instant."""

    span: Span


@dataclass(frozen=True)
class Unbounded:
    """``[UNBOUNDED]``: all tuples so far."""

    span: Span


Window = Rows | Range | PartitionedRows | Now | Unbounded


@dataclass(frozen=True)
class FromItem:
    """A stream (with its window) or a stored relation in FROM."""

    source: Name
    window: Window | None
    alias: Name


@dataclass(frozen=True)
class Star:
    """``*`` or ``alias.*`` in a select list."""

    qualifier: Name | None
    span: Span


@dataclass(frozen=True)
class SelectItem:
    """``expression [AS alias]``."""

    expression: ScalarExpression
    alias: Name | None


@dataclass(frozen=True)
class Select:
    """One SELECT; ``conjuncts`` are the terms of WHERE (and of JOIN ... ON) split at AND."""

    items: tuple[SelectItem | Star, ...]
    sources: tuple[FromItem, ...]
    conjuncts: tuple[ScalarExpression, ...]
    group_by: tuple[ScalarExpression, ...]
    having: ScalarExpression | None
    span: Span


@dataclass(frozen=True)
class SinkClause:
    """``INTO format OPTIONS (...)``."""

    format: Name
    options: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True)
class CreateStream:
    """``CREATE STREAM name (columns) FROM format OPTIONS (...)``; columns may be left out."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    format: Name
    options: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True)
class CreateRelation:
    """``CREATE RELATION name (columns) FROM format OPTIONS (...)``; columns may be left out."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    format: Name
    options: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True)
class CreateQuery:
    """``CREATE QUERY name WITH (...) AS SELECT ... [UNION ALL SELECT ...] INTO ...``."""

    name: Name
    settings: tuple[Setting, ...]
    branches: tuple[Select, ...]
    sink: SinkClause | None
    span: Span


@dataclass(frozen=True)
class CreateFunction:
    """``CREATE FUNCTION name AS 'file.py:callable' RETURNS type``; the type is Spark's own DDL text."""

    name: Name
    location: str
    location_span: Span
    returns: str
    span: Span


@dataclass(frozen=True)
class CreatePool:
    """``CREATE POOL name SLOTS n``: a capacity of its own, for so many calls at a time."""

    name: Name
    slots: int
    span: Span


@dataclass(frozen=True)
class AlterPool:
    """``ALTER POOL name SLOTS n``."""

    name: Name
    slots: int
    span: Span


@dataclass(frozen=True)
class Place:
    """``PLACE function ON pool``: calls of the function in WHERE take slots of the pool."""

    name: Name
    pool: Name
    span: Span


@dataclass(frozen=True)
class PlaceProbe:
    """``PLACE PROBE OF stream ON pool``: looking into its windows takes slots of the pool."""

    name: Name
    pool: Name
    span: Span


Source = CreateStream | CreateRelation
Statement = Source | CreateQuery | CreateFunction | CreatePool | AlterPool | Place | PlaceProbe
