"""Statements of CQL as typed, immutable values with their positions in the text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from headgate.cql.syntax import Name, ScalarExpression, Select
from headgate.errors import Span


@dataclass(frozen=True)
class Setting:
    """``key 'value'`` of OPTIONS, or ``key = value`` of WITH."""

    key: Name
    value: str
    span: Span


@dataclass(frozen=True)
class ColumnDefinition:
    """``name TYPE [AS (expression)]`` of a stream; the type is Spark's own DDL text."""

    name: Name
    type: str
    computed: ScalarExpression | None = None
    """What the column is computed from; None if the source brings it."""


@dataclass(frozen=True)
class SinkClause:
    """``INTO format OPTIONS (...)``."""

    format: Name
    options: tuple[Setting, ...]
    span: Span


class Existing(Enum):
    """What CREATE does if something of its name exists."""

    REFUSE = ""
    REPLACE = "OR REPLACE"
    KEEP = "IF NOT EXISTS"


@dataclass(frozen=True, kw_only=True)
class _CreateStatement:
    kind: ClassVar[str]
    existing: Existing = Existing.REFUSE


@dataclass(frozen=True)
class _SourceStatement(_CreateStatement):
    """``CREATE ... name (columns) FROM format OPTIONS (...)``; columns may be left out."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    format: Name
    options: tuple[Setting, ...]
    primary_key: tuple[Name, ...] = ()


class CreateStream(_SourceStatement):
    """``CREATE STREAM``."""

    kind = "stream"


class CreateRelation(_SourceStatement):
    """``CREATE RELATION``."""

    kind = "relation"


@dataclass(frozen=True)
class DeriveStream(_CreateStatement):
    """``CREATE STREAM name AS SELECT ... [UNION ALL SELECT ...]``: the results of a query, as a stream."""

    kind = "stream"
    name: Name
    branches: tuple[Select, ...]


@dataclass(frozen=True)
class CreateView(_CreateStatement):
    """``CREATE VIEW name AS SELECT ... [UNION ALL SELECT ...]``: a text that stands for what it selects."""

    kind = "view"
    name: Name
    branches: tuple[Select, ...]


@dataclass(frozen=True)
class CreateQuery(_CreateStatement):
    """``CREATE QUERY name WITH (...) AS SELECT ... [UNION ALL SELECT ...] INTO ...``."""

    kind = "query"
    name: Name
    settings: tuple[Setting, ...]
    branches: tuple[Select, ...]
    sink: SinkClause | None


@dataclass(frozen=True)
class CreateFunction(_CreateStatement):
    """``CREATE [AGGREGATE] FUNCTION name AS 'file.py:callable' RETURNS type [IN PROCESSES]``.

    The type is one of Spark's DDL.
    """

    kind = "function"
    name: Name
    location: Name
    returns: str
    is_aggregate: bool = False
    in_processes: bool = False


@dataclass(frozen=True)
class CreatePool(_CreateStatement):
    """``CREATE POOL name SLOTS n``: a pool that serves n calls at a time."""

    kind = "pool"
    name: Name
    slots: int


@dataclass(frozen=True)
class AlterPool:
    """``ALTER POOL name SLOTS n``."""

    name: Name
    slots: int


@dataclass(frozen=True)
class AlterQuery:
    """``ALTER QUERY name SET (latency = ...)``: settings that leave results as they are."""

    name: Name
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class _PauseStatement:
    name: Name


class PauseQuery(_PauseStatement):
    """``PAUSE QUERY name``: its tuples wait until it is resumed."""


class ResumeQuery(_PauseStatement):
    """``RESUME QUERY name``."""


@dataclass(frozen=True)
class _PlaceStatement:
    name: Name
    pool: Name


class Place(_PlaceStatement):
    """``PLACE function ON pool``: calls of the function in WHERE take slots of the pool."""


class PlaceProbe(_PlaceStatement):
    """``PLACE PROBE OF stream ON pool``: probing its windows takes slots of the pool."""


@dataclass(frozen=True)
class Drop:
    """``DROP kind [IF EXISTS] name``; the kind is in lower case."""

    kind: str
    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class SetOption:
    """``SET name = value``: an option of runs; without a value, its default."""

    name: Name
    value: str | None
    span: Span


@dataclass(frozen=True)
class Show:
    """``SHOW STREAMS``, or another plural in lower case."""

    what: str


@dataclass(frozen=True)
class Describe:
    """``DESCRIBE [kind] name``; the kind is in lower case."""

    name: Name
    kind: str | None = None


Source = CreateStream | CreateRelation
Create = Source | DeriveStream | CreateView | CreateQuery | CreateFunction | CreatePool
Declaration = Create | AlterPool | AlterQuery | Place | PlaceProbe | Drop
Question = Show | Describe
Pausing = PauseQuery | ResumeQuery
Statement = Declaration | Pausing | SetOption | Question

# a kind of declaration, and how SHOW calls all of them
PLURALS = {
    "stream": "streams",
    "relation": "relations",
    "view": "views",
    "query": "queries",
    "function": "functions",
    "pool": "pools",
}
