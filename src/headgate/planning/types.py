"""Types of columns and expressions, as far as they are known without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from headgate.planning.functions import Kind, kind_names

_KINDS = {
    exp.DType.TINYINT: "y",
    exp.DType.SMALLINT: "h",
    exp.DType.INT: "i",
    exp.DType.BIGINT: "l",
    exp.DType.FLOAT: "f",
    exp.DType.DOUBLE: "d",
    exp.DType.DECIMAL: "m",
    exp.DType.TEXT: "s",
    exp.DType.VARCHAR: "s",
    exp.DType.CHAR: "s",
    exp.DType.BINARY: "x",
    exp.DType.BOOLEAN: "b",
    exp.DType.DATE: "D",
    exp.DType.TIMESTAMPTZ: "t",
    exp.DType.TIMESTAMPLTZ: "t",
    exp.DType.TIMESTAMPNTZ: "n",
    exp.DType.ARRAY: "a",
    exp.DType.MAP: "p",
    exp.DType.STRUCT: "r",
    exp.DType.VARIANT: "v",
}


@dataclass(frozen=True)
class Type:
    """The type of an expression; ``tree`` has the parts of a nested one, where they are known."""

    kind: Kind = None
    tree: exp.DataType | None = None

    @staticmethod
    @cache
    def declared(ddl: str) -> Type:
        """A type as Spark writes it, such as ``ARRAY<INT>``."""
        try:
            return Type.of(exp.DataType.build(ddl, dialect=Spark))
        except SqlglotError:
            return UNKNOWN

    @staticmethod
    def of(tree: object) -> Type:
        if not isinstance(tree, exp.DataType):
            return UNKNOWN
        if isinstance(tree.this, exp.Interval):
            is_long = re.search("YEAR|MONTH", tree.this.sql().upper())
            return Type("Y" if is_long else "V")
        return Type(_KINDS.get(tree.this), tree)

    @property
    def element(self) -> Type:
        """The type of an array's elements, or of a map's values."""
        if self.tree is None or self.kind not in ("a", "p") or not self.tree.expressions:
            return UNKNOWN
        return Type.of(self.tree.expressions[-1])

    @property
    def key(self) -> Type:
        """The type of a map's keys."""
        parts = self.tree.expressions if self.tree is not None and self.kind == "p" else ()
        return Type.of(parts[0]) if parts else UNKNOWN

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of a struct's fields, as far as they are known."""
        parts = self.tree.expressions if self.tree is not None and self.kind == "r" else ()
        return tuple(part.name for part in parts)

    def field(self, name: str) -> Type:
        """The type of a struct's field, or of a map's values."""
        if self.kind == "p":
            return self.element
        parts = self.tree.expressions if self.tree is not None and self.kind == "r" else ()
        found = (part.args.get("kind") for part in parts if part.name.lower() == name.lower())
        return Type.of(next(found, None))

    def __str__(self) -> str:
        if self.tree is not None:
            return self.tree.sql(dialect=Spark).upper()
        return "?" if self.kind is None else kind_name(self.kind)


UNKNOWN = Type()


def kind_name(kind: str) -> str:
    """A kind of types by its name, without parameters."""
    return re.split(r"[(<]", kind_names()[kind])[0]
