"""Spark SQL as text: names, clauses, and bounds that change from tick to tick."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.model.expression import Expression, NamedExpression


def name(column: str) -> str:
    """A quoted identifier."""
    return "`" + column.replace("`", "``") + "`"


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
    """The conjunction; what is empty holds."""
    return " AND ".join(conditions) if conditions else "TRUE"


def conjunction(predicates: Iterable[Expression]) -> str:
    """Predicates, evaluated in this order."""
    return all_of([f"({predicate.text})" for predicate in predicates])


def select(items: Sequence[str], source: str, where: Sequence[str] = (), hint: str = "") -> str:
    """A query over a view or over the text of another query."""
    condition = f"\nWHERE {all_of(where)}" if where else ""
    return f"SELECT {hint}{', '.join(items)}\nFROM {relation(source)}{condition}"


def relation(source: str) -> str:
    """What may stand behind FROM: a view by its name, or a subquery."""
    return f"(\n{_indented(source)}\n)" if source[:6] in ("SELECT", "WITH w") else source


def union(parts: Sequence[str | None]) -> str | None:
    """All parts that exist, as one; None if there is none."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    return found[0] if len(found) == 1 else "\nUNION ALL\n".join(map(as_query, found))


def as_query(source: str) -> str:
    """A view by its name, or a query, as a query."""
    return source if source.startswith("SELECT") else f"SELECT * FROM {source}"


def _indented(source: str) -> str:
    return "\n".join(f"  {line}" for line in source.splitlines())


@dataclass(frozen=True)
class Bound:
    """A number that differs from tick to tick, as data rather than as a literal.

    Spark writes numeric literals into the code that it generates, and would compile a plan anew for each
    tick. An array is passed to generated code by reference; its index depends on a nullable column, so that
    the optimizer cannot fold the access back into a literal.
    """

    value: int | float | str

    def at(self, anchor: str) -> str:
        """The number, beside a nullable column that is in scope."""
        if isinstance(self.value, str):
            return self.value
        number = f"{self.value}L" if isinstance(self.value, int) else f"{self.value!r}D"
        return f"array({number}, {number})[int(isnull({anchor}))]"
