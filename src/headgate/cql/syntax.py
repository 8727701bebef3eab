"""What statements are made of: names, expressions, windows and SELECT, as typed, immutable values.

Each has its position in the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sqlglot import exp

from headgate.errors import Span
from headgate.model.window import Window


@dataclass(frozen=True)
class Name:
    """An identifier as written, without its quotes."""

    text: str
    span: Span


@dataclass(frozen=True)
class ColumnReference:
    """A column used inside an expression, ``qualifier.name`` or ``name``."""

    qualifier: str | None
    name: str
    span: Span


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function used inside an expression; COUNT(*) has no arguments.

    ``condition`` is that of FILTER (WHERE ...).
    """

    function: str
    arguments: tuple[ScalarExpression, ...]
    distinct: bool
    span: Span
    condition: ScalarExpression | None = None


@dataclass(frozen=True)
class ScalarExpression:
    """A Spark SQL expression: its text as written, and what Headgate needs to know about it.

    ``columns`` are all column references, including those inside aggregate calls;
    ``aggregates`` the outermost aggregate calls. Both are in text order. Names and calls in ``tree`` have
    their offsets in the text.
    """

    text: str
    span: Span
    tree: exp.Expr = field(compare=False, repr=False)
    columns: tuple[ColumnReference, ...]
    aggregates: tuple[AggregateCall, ...] = ()


@dataclass(frozen=True)
class WindowClause:
    """``[...]`` after a stream; the ``keys`` of PARTITION BY are not resolved yet."""

    window: Window
    span: Span
    keys: tuple[ColumnReference, ...] = ()
    time: ColumnReference | None = None
    """The column that ``GROUP BY window(ts, ...)`` names, in place of brackets after the stream."""
    until: ScalarExpression | None = None
    """When a tuple leaves, of UNTIL; its columns are not resolved yet."""
    descriptor: ColumnReference | None = None
    """The column that ``TUMBLE(TABLE s, DESCRIPTOR(ts), ...)`` names; it has to be the timestamp."""


class JoinKind(Enum):
    """How an item of FROM is joined with those before it."""

    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    RIGHT = "RIGHT JOIN"
    FULL = "FULL JOIN"
    SEMI = "SEMI JOIN"
    ANTI = "ANTI JOIN"


@dataclass(frozen=True)
class SubqueryTest:
    """A subquery that is a condition of WHERE, such as ``x NOT IN (SELECT y FROM ...)``."""

    words: str
    name: str
    """What its one source is called inside it."""
    compared: tuple[ScalarExpression, ScalarExpression] | None = None
    """What IN looks for, and the column of the subquery."""


@dataclass(frozen=True)
class Generator:
    """``explode(x)`` and the like: rows that are computed from each tuple.

    The function is explode, posexplode, inline or unnest, which is explode or inline; ``columns`` are as the
    user calls them.
    """

    function: str
    argument: ScalarExpression
    span: Span
    columns: tuple[Name, ...] = ()
    is_outer: bool = False
    """Whether a tuple without rows is kept, with NULLs."""
    is_item: bool = False
    """Whether it stands in the select list, where its columns are the only items that it adds."""


@dataclass(frozen=True)
class FromItem:
    """A stream (with its window) or a stored relation in FROM.

    ``branches`` are the SELECTs of a subquery, or of the WITH clause that ``source`` names.
    """

    source: Name
    window: WindowClause | None
    alias: Name
    branches: tuple[Select, ...] = ()
    join: JoinKind = JoinKind.INNER
    on: tuple[ScalarExpression, ...] = ()
    """The condition of a join that is not inner; that of an inner one is like WHERE."""
    using: tuple[Name, ...] = ()
    test: SubqueryTest | None = None
    """The condition of WHERE that it stands for; names in ``on`` are its own first, then those around it."""
    is_value: bool = False
    """Whether it is a subquery in an expression, of which expressions read the one column of the one row."""
    generator: Generator | None = None
    """What gives its rows, if these are computed from the tuples before it."""

    @property
    def is_added(self) -> bool:
        """Whether the user has written it in an expression, not in FROM."""
        return self.is_value or (self.generator is not None and self.generator.is_item)

    @property
    def join_words(self) -> str:
        """How the user wrote the join."""
        return self.join.value if self.test is None else f"{self.test.words} (SELECT ...)"


@dataclass(frozen=True)
class Star:
    """``*`` or ``alias.*`` in a select list, ``without`` the columns of EXCEPT (...)."""

    qualifier: Name | None
    span: Span
    without: tuple[Name, ...] = ()


@dataclass(frozen=True)
class SelectItem:
    """``expression [AS alias]``."""

    expression: ScalarExpression
    alias: Name | None


class Emission(Enum):
    """What of a relation that changes is shown: what comes into it, what leaves it, or all of it."""

    INSERTED = "ISTREAM"
    DELETED = "DSTREAM"
    WHOLE = "RSTREAM"


@dataclass(frozen=True)
class EmissionClause:
    """``SELECT ISTREAM``, ``DSTREAM`` or ``RSTREAM``; ``span`` is that of the word."""

    kind: Emission
    span: Span


@dataclass(frozen=True)
class RankItem:
    """``ROW_NUMBER() OVER (...) AS name`` in a select list: the rank of the row in ``Select.ranking``."""

    name: Name


@dataclass(frozen=True)
class SortItem:
    """``expression [DESC] [NULLS FIRST|LAST]``."""

    expression: ScalarExpression
    is_descending: bool = False
    nulls: str = ""


@dataclass(frozen=True)
class RankingClause:
    """``QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) <= rows``, or ``ORDER BY ... LIMIT rows``.

    ``rows`` is None as long as nothing limits a rank in the select list.
    """

    function: str
    keys: tuple[ScalarExpression, ...]
    order: tuple[SortItem, ...]
    rows: int | None
    span: Span


@dataclass(frozen=True)
class Select:
    """One SELECT; ``conjuncts`` are the terms of WHERE (and of JOIN ... ON) split at AND."""

    items: tuple[SelectItem | RankItem | Star, ...]
    sources: tuple[FromItem, ...]
    conjuncts: tuple[ScalarExpression, ...]
    group_by: tuple[ScalarExpression, ...]
    having: ScalarExpression | None
    span: Span
    is_distinct: bool = False
    emission: EmissionClause | None = None
    ranking: RankingClause | None = None
    distinct_on: tuple[ScalarExpression, ...] = ()
    """What distinguishes tuples, if it is not all that is selected."""
    all_keys: tuple[ScalarExpression, ...] = ()
    """The keys of all groupings of GROUPING SETS, of which this SELECT is one; others are NULL in it."""

    @property
    def aggregates(self) -> tuple[AggregateCall, ...]:
        expressions = [item.expression for item in self.items if isinstance(item, SelectItem)]
        having = [] if self.having is None else [self.having]
        ranked = [] if self.ranking is None else [key.expression for key in self.ranking.order]
        return tuple(call for one in (*expressions, *having, *ranked) for call in one.aggregates)

    @property
    def is_aggregate(self) -> bool:
        return bool(self.group_by or self.all_keys or self.aggregates or self.window_key)

    @property
    def window_key(self) -> WindowClause | None:
        """The window that GROUP BY makes, as in Spark."""
        windows = (source.window for source in self.sources if source.window is not None)
        return next((window for window in windows if window.time is not None), None)

    @property
    def emits_departures(self) -> bool:
        """Whether results are tuples as they leave a window."""
        return self.emission is not None and self.emission.kind is Emission.DELETED

    @property
    def summarizes_windows(self) -> bool:
        """Whether results are those of a window, at each of its steps, rather than of a tuple."""
        is_shown_whole = self.emission is not None and self.emission.kind is Emission.WHOLE
        return self.is_aggregate or self.is_distinct or self.ranking is not None or is_shown_whole
