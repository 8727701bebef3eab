"""Columns and schemas; types are Spark's own DDL words, never interpreted here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A named column; ``type`` is Spark DDL text such as ``INT`` or ``ARRAY<STRING>``."""

    name: str
    type: str


@dataclass(frozen=True)
class Schema:
    """The columns of a stream or relation, in order; names match without regard to case."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Column names as declared."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of that name, whatever its case."""
        wanted = name.lower()
        return next((c for c in self.columns if c.name.lower() == wanted), None)

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it."""
        return ", ".join(f"`{c.name}` {c.type}" for c in self.columns)
