"""Where operators take their tuples from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.model.expression import Expression


@dataclass(frozen=True)
class Start:
    """Where a query begins that joins a running network: it sees tuples from a timestamp on.

    ``epoch`` counts the changes of the network: queries of different epochs share no operator, even if they
    begin at the same timestamp.
    """

    us: int
    epoch: int


@dataclass(frozen=True)
class StreamInput:
    """Tuples straight from a stream, its ``columns`` renamed to ``alias__column``."""

    stream: str
    alias: str
    columns: tuple[str, ...]
    # no part of fingerprints, which old checkpoints have without it
    since: Start | None = field(default=None, repr=False)
    """None for all tuples."""

    def __str__(self) -> str:
        return aliased(self.stream, self.alias)


@dataclass(frozen=True)
class OperatorInput:
    """The output of another operator."""

    operator: str

    def __str__(self) -> str:
        return self.operator


@dataclass(frozen=True)
class DerivedInput(OperatorInput):
    """Tuples of a derived stream: results of a query, their ``columns`` renamed to ``alias__column``."""

    stream: str
    alias: str
    columns: tuple[str, ...]
    since: Start | None = field(default=None, repr=False)
    """None for all tuples."""

    def __str__(self) -> str:
        return aliased(self.stream, self.alias)


Input = StreamInput | OperatorInput


def aliased(name: str, alias: str) -> str:
    return name if alias == name else f"{name} AS {alias}"


def conjunction(predicates: Iterable[Expression]) -> str:
    return " AND ".join(p.text for p in predicates) or "TRUE"


@dataclass(frozen=True)
class Unary:
    """An operator with one streaming input."""

    name: str
    input: Input

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)
