"""Drop boxes: which tuples of a stream to keep, the same ones in every replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headgate.errors import SetupError
from headgate.model.join_order import JoinOrder
from headgate.model.productivity import KeyTables

# a column of every stream: the inclusion probability of a tuple, for operators that read it
KEEP = "$keep"
# hashes are truncated to the bits of a float's mantissa
BITS = 53
_BUCKETS = 1 << BITS
# boxes are not closed further for a few rows
_SLACK = 1.1


@dataclass(frozen=True)
class Utility:
    """An expression over the columns of a stream that ranks its tuples.

    Without a stream it is productivity, of all streams that the query joins.
    """

    stream: str
    text: str


@dataclass(frozen=True)
class Floor:
    """Tuples with a utility above ``above`` are kept, and a share ``ties`` of those that equal it."""

    text: str
    above: float
    ties: float

    @staticmethod
    def of(text: str, keep: float, quantiles: Sequence[float]) -> Floor:
        """The floor that keeps a share of tuples whose utilities have these evenly spaced quantiles."""
        ordered = sorted(quantiles)
        above = ordered[min(len(ordered) - 1, int((1 - keep) * len(ordered)))]
        more = sum(value > above for value in ordered) / len(ordered)
        equal = sum(value == above for value in ordered) / len(ordered)
        return Floor(text, above, min(1.0, max(0.0, (keep - more) / equal)))


@dataclass(frozen=True)
class DropBox:
    """Keeps a share of a stream, chosen by a hash of seed and tuple, or by utility if there is a floor.

    A replay keeps the same tuples. Of two boxes with the same seed, the smaller keeps a subset of the larger.
    """

    stream: str
    keep: float
    seed: int = 0
    floor: Floor | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.keep <= 1:
            raise SetupError(f"a drop box of {self.stream} keeps {self.keep:g}; write a share from 0 to 1")

    @property
    def threshold(self) -> int:
        """A tuple is kept if the last bits of its hash are below this; with a floor, one that equals it."""
        return round((self.keep if self.floor is None else self.floor.ties) * _BUCKETS)


@dataclass(frozen=True)
class TickSettings:
    """Settings of a tick, fixed before it reads: keep ratios (else 1) and join orders (else as in FROM).

    Drop boxes that would let clearly more than ``most_rows`` through are closed as far as that takes.
    """

    keep: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    orders: Mapping[str, JoinOrder] = field(default_factory=dict)
    most_rows: int | None = None
    key_tables: KeyTables = field(default_factory=dict)
    """How often keys occur in the windows of joins, by which tuples are ranked."""

    def __post_init__(self) -> None:
        self.boxes()

    def keep_ratio(self, stream: str) -> float:
        return self.keep.get(stream, 1.0)

    def share_that_fits(self, rows: Mapping[str, int], others: int = 0) -> float:
        """The share of what boxes let through of these rows that fits beside others, which are all kept."""
        total = sum(count * self.keep_ratio(stream) for stream, count in rows.items())
        if self.most_rows is None or not total or total + others <= _SLACK * self.most_rows:
            return 1.0
        return max(0, self.most_rows - others) / total

    def closed_to(self, rows: Mapping[str, int], others: int = 0) -> TickSettings:
        """Settings for a tick in which so many rows of these streams arrive, beside others."""
        share = self.share_that_fits(rows, others)
        if share == 1.0:
            return self
        return replace(self, keep={**self.keep, **{s: share * self.keep_ratio(s) for s in rows}})

    def chooses_like(self, other: TickSettings) -> bool:
        """Whether both have the same keep ratios, seed and join orders."""
        return replace(self, most_rows=other.most_rows, key_tables=other.key_tables) == other

    def to_json(self) -> dict[str, object]:
        orders = {name: order.to_json() for name, order in self.orders.items()}
        return {"keep": dict(self.keep), "orders": orders}

    def boxes(self) -> dict[str, DropBox]:
        return {s: DropBox(s, share, self.seed) for s, share in self.keep.items() if share < 1}
