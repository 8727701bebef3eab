"""Spark SQL as text: names, clauses, system columns, and bounds that change from tick to tick.

User columns never start with ``$``. Timestamps are microseconds in a BIGINT: cheaper to compare than
TIMESTAMP, and independent of the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headgate.model.expression import TIMESTAMP_US, Expression, NamedExpression
from headgate.model.sql_tree import quote

TS = TIMESTAMP_US
"""Timestamp of the tuple, microseconds."""

SEQ = "$seq"
"""Number of the tuple in its stream, in timestamp order; only on streams whose order matters."""

UNTIL = "$until"
"""When the tuple leaves its window, microseconds; only where each tuple brings that time."""

POSITION = "$pos"
"""Number of the tuple in order of arrival, while it waits for its number in the stream."""

SIDE = "$side"
"""Number of the join side that a tuple comes from, on its way through the placed probes of an eddy."""

ROW = "$row"
"""Place of the row in its source file."""

FILE = "$file"
"""Name of the source file."""

BEGINNING_US = -(2**62)
"""A timestamp before all others."""

END_US = 2**62
"""A timestamp after all others."""

IN_ONE_TASK = "/*+ COALESCE(1) */ "
"""A hint: partitions become one, without a shuffle."""
# longer lists are broken into lines, for people who read the text of a plan
_LINE_LENGTH = 100


def window_key(position: int) -> str:
    """Column that carries a key of [PARTITION BY ...] through a plan."""
    return f"$key{position}"


def is_system(column: str) -> bool:
    """Whether a column is ours rather than the user's."""
    return column.startswith("$")


def name(column: str) -> str:
    """A quoted identifier."""
    return quote(column)


def names(columns: Iterable[str]) -> list[str]:
    """Quoted identifiers."""
    return [name(column) for column in columns]


def text(value: str) -> str:
    """A quoted string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def aliased(item: NamedExpression) -> str:
    """An item of a select list."""
    return f"{item.expression.text} AS {name(item.name)}"


def all_of(conditions: Sequence[str]) -> str:
    """The conjunction; an empty one is true."""
    return _joined(conditions, " AND ", "\n  AND ") if conditions else "TRUE"


def conjunction(predicates: Iterable[Expression]) -> str:
    """Predicates, evaluated in this order."""
    return all_of([f"({predicate.text})" for predicate in predicates])


def select(items: Sequence[str], source: str, where: Sequence[str] = (), hint: str = "") -> str:
    """A query over a view or over the text of another query."""
    condition = f"\nWHERE {all_of(where)}" if where else ""
    return f"SELECT {hint}{listed(items)}\nFROM {relation(source)}{condition}"


def listed(items: Sequence[str]) -> str:
    """A select list."""
    return _joined(items, ", ", ",\n  ")


def _joined(parts: Sequence[str], on_one_line: str, over_lines: str) -> str:
    line = on_one_line.join(parts)
    return line if len(line) <= _LINE_LENGTH else over_lines.join(parts)


def relation(source: str) -> str:
    """An item of a FROM clause: a view by name, or a subquery."""
    return f"(\n  {indented(source)}\n)" if source.startswith("SELECT") else source


def union(parts: Sequence[str | None]) -> str | None:
    """UNION ALL of the parts that are not None; None if all are."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    return found[0] if len(found) == 1 else "\nUNION ALL\n".join(map(as_query, found))


class Slices(str):
    """A union of queries, each worth a job of its own: Spark plans jobs side by side."""

    parts: tuple[str, ...]

    def __new__(cls, parts: Sequence[str]) -> Slices:
        """At least one query."""
        made = super().__new__(cls, union(parts))
        made.parts = tuple(parts)
        return made


def by_slice(source: str, apply: Callable[[str], str]) -> str:
    """Apply to every slice what handles tuples one by one; to the whole where there are no slices."""
    return Slices([apply(part) for part in source.parts]) if isinstance(source, Slices) else apply(source)


def as_query(source: str) -> str:
    """A view by its name, or a query, as a query."""
    return source if source.startswith("SELECT") else f"SELECT * FROM {source}"


def indented(source: str) -> str:
    """The text with every line but the first indented; no literal spans lines."""
    return source.replace("\n", "\n  ")


class Symbol(int):
    """A number that SQL text shows by name, such as ``:old``; arithmetic on it yields symbols.

    The code that builds a tick can thus also build the text that ``explain`` prints.
    """

    text: str

    def __new__(cls, value: int, text: str) -> Symbol:
        """Create a number with a name."""
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __add__(self, other: int) -> Symbol:
        return Symbol(int(self) + int(other), f"{self.text} + {_text(other)}")

    def __sub__(self, other: int) -> Symbol:
        return Symbol(int(self) - int(other), f"{self.text} - {_text(other, in_brackets=True)}")

    def __neg__(self) -> Symbol:
        return Symbol(-int(self), f"-({self.text})")

    def __mod__(self, other: int) -> Symbol:
        return Symbol(int(self) % int(other), f"pmod({self.text}, {_text(other)})")


def _text(number: int, in_brackets: bool = False) -> str:
    if not isinstance(number, Symbol):
        return f"{number}L"
    return f"({number.text})" if in_brackets else number.text


@dataclass(frozen=True)
class Bound:
    """A number that differs from tick to tick, as data rather than as a literal.

    Spark writes numeric literals into the code that it generates, and would compile a plan anew for each
    tick. An array is passed to generated code by reference; its index depends on a nullable column, so that
    the optimizer cannot fold the access back into a literal.
    """

    value: int | float

    def at(self, anchor: str) -> str:
        """The number, beside a nullable column that is in scope."""
        if isinstance(self.value, Symbol):
            return self.value.text
        number = f"{self.value}L" if isinstance(self.value, int) else f"{self.value!r}D"
        return f"array({number}, {number})[int(isnull({anchor}))]"
