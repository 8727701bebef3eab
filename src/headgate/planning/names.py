"""Names of what is declared: which are taken, and by what."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headgate.cql.statement import PLURALS, CreateQuery, CreateView, DeriveStream, Existing
from headgate.errors import QueryError, Span, unknown_name
from headgate.model.network import FunctionDefinition, PoolDefinition, RelationDefinition, StreamDefinition


class Declared(NamedTuple):
    """Something declared; ``span`` is the position of its name, if it was written."""

    kind: str
    name: str
    span: Span | None


NOTHING = Declared("", "", None)
# kinds whose tables have names as declared for keys; those of the others are in lower case
_BY_SPELLING = ("stream", "relation", "view", "query")


@dataclass(eq=False)
class Names:
    """What is declared, by kind and name; names are unique over all kinds but functions, in any case."""

    streams: dict[str, StreamDefinition] = field(default_factory=dict, init=False)
    """In order of declaration, which breaks ties between equal timestamps."""
    derived: dict[str, DeriveStream] = field(default_factory=dict, init=False)
    """Streams that are results of queries."""
    relations: dict[str, RelationDefinition] = field(default_factory=dict, init=False)
    views: dict[str, CreateView] = field(default_factory=dict, init=False)
    queries: dict[str, CreateQuery] = field(default_factory=dict, init=False)
    functions: dict[str, FunctionDefinition] = field(default_factory=dict, init=False)
    pools: dict[str, PoolDefinition] = field(default_factory=dict, init=False)
    """Functions and pools are by name in lower case."""
    version: int = field(default=0, init=False)
    """Changes with every declaration; plans of an earlier version are out of date."""
    _declared: dict[str, Declared] = field(default_factory=dict, init=False)

    def kinds_of(self, name: str) -> tuple[str, ...]:
        """What is declared under a name: nothing, one thing, or a function beside it."""
        return tuple(kind for kind in (self._holder("", name), self._holder("function", name)) if kind)

    def _holder(self, kind: str, name: str) -> str:
        """The kind of what has a name already; functions have names of their own."""
        if kind == "function":
            return kind if name.lower() in self.functions else ""
        return self._declared.get(name.lower(), NOTHING).kind

    def names(self, kind: str) -> tuple[str, ...]:
        """All that is declared of a kind, in order of declaration."""
        if kind == "stream":
            return (*self.streams, *self.derived)
        found = self._tables[kind]
        return tuple(found) if kind in _BY_SPELLING else tuple(one.name for one in found.values())

    def declared_name(self, kind: str, name: str, span: Span | None = None) -> str:
        """The name as it was declared; a QueryError if there is nothing of that kind and name."""
        kinds = self.kinds_of(name)
        if kinds and kind not in kinds:
            hint = f"write {kinds[0].upper()} {name}"
            raise QueryError(f"{name} is a {kinds[0]}, not a {kind}; {hint}", span)
        if not kinds:
            raise QueryError(unknown_name(kind, name, self.names(kind)), span)
        return self._spelling(kind, name.lower())

    @property
    def readers(self) -> tuple[DeriveStream | CreateView | CreateQuery, ...]:
        """All that reads streams and relations and calls functions."""
        return (*self.derived.values(), *self.views.values(), *self.queries.values())

    def is_query(self, name: str) -> bool:
        return self._declared.get(name.lower(), NOTHING).kind == "query"

    @property
    def _tables(self) -> dict[str, dict[str, Any]]:
        return {kind: getattr(self, plural) for kind, plural in PLURALS.items()}

    def _spelling(self, kind: str, key: str) -> str:
        return self.functions[key].name if kind == "function" else self._declared[key].name

    def _claim(self, name: str, kind: str, span: Span | None, existing: Existing) -> None:
        # names become parts of operator names, column names and paths
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise QueryError(f"{name!r} cannot name a {kind}; use letters, digits and _ only", span)
        if taken := self._declared.get(name.lower()):
            if existing is not Existing.REPLACE:
                raise QueryError(f"{taken.kind} {taken.name} already exists; choose another name", span)
            if taken.kind != kind:
                hint = f"write DROP {taken.kind.upper()} {taken.name} before"
                raise QueryError(f"{taken.name} is a {taken.kind}, not a {kind}; {hint}", span)
            if kind == "stream":
                _rename(self.derived, taken.name, name)
            if kind in _BY_SPELLING:
                _rename(self._tables[kind], taken.name, name)
        self._declared[name.lower()] = Declared(kind, name, span)
        self.version += 1

    def _release(self, kind: str, name: str) -> None:
        """Forget what was declared under a name."""
        table = self.derived if kind == "stream" and name in self.derived else self._tables[kind]
        del table[name if kind in _BY_SPELLING else name.lower()]
        if kind != "function":
            del self._declared[name.lower()]


def _rename(table: dict[str, Any], old: str, new: str) -> None:
    """Give a key another spelling, if it is there; its place among the others stays."""
    if old != new and old in table:
        renamed = {new if key == old else key: value for key, value in table.items()}
        table.clear()
        table.update(renamed)
