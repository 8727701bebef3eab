"""SELECTs over stored relations alone, whose rows are a stored relation, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from headgate.model.expression import Expression
from headgate.model.table import Step


@dataclass(frozen=True, repr=False)
class StoredSide:
    """A relation in FROM, by name, or a subquery; ``join`` and ``on`` say how it is joined with those before.

    Its columns become ``alias__column``.
    """

    source: str | tuple[StoredSelect, ...]
    alias: str
    columns: tuple[str, ...]
    join: str
    on: tuple[Expression, ...]
    generated: Expression | None = None
    """The call that gives its rows for each of those before it."""

    @property
    def names(self) -> Iterator[str]:
        """The relations that are read, at whatever depth."""
        if self.generated is not None:
            return
        if isinstance(self.source, str):
            yield self.source
        else:
            yield from (name for select in self.source for name in select.names)

    def __repr__(self) -> str:
        # part of the fingerprint of checkpoints, which are older than generated rows
        known = ((one.name, getattr(self, one.name)) for one in fields(self))
        shown = (f"{name}={value!r}" for name, value in known if name != "generated" or value is not None)
        return f"StoredSide({', '.join(shown)})"


@dataclass(frozen=True)
class StoredSelect:
    """One SELECT: its sources, and steps over the rows of their join; the last one is the select list."""

    sides: tuple[StoredSide, ...]
    steps: tuple[Step, ...]

    @property
    def names(self) -> Iterator[str]:
        """The relations that are read, at whatever depth."""
        yield from (name for side in self.sides for name in side.names)
