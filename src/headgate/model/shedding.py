"""Drop boxes: which tuples of a stream to keep, the same ones whenever a tuple comes again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.errors import SetupError

# the chance that a tuple had to be kept, as a column of its stream: for those who ask for it
KEEP = "$keep"
# hashes are cut to as many bits as a float tells apart
BITS = 53
_BUCKETS = 1 << BITS


@dataclass(frozen=True)
class Utility:
    """How much the tuples of a stream matter: an expression over its columns."""

    stream: str
    text: str


@dataclass(frozen=True)
class Floor:
    """Tuples of a utility above ``above`` are kept, of those that have just this one a share ``ties``."""

    text: str
    above: float
    ties: float

    @staticmethod
    def of(text: str, keep: float, quantiles: Sequence[float]) -> Floor:
        """The floor that lets a share pass of tuples whose utilities have these evenly spaced quantiles."""
        ordered = sorted(quantiles)
        above = ordered[min(len(ordered) - 1, int((1 - keep) * len(ordered)))]
        more = sum(value > above for value in ordered) / len(ordered)
        equal = sum(value == above for value in ordered) / len(ordered)
        return Floor(text, above, min(1.0, max(0.0, (keep - more) / equal)))


@dataclass(frozen=True)
class DropBox:
    """Keeps a share of a stream, chosen by hash of seed and tuple, or by utility where there is a floor.

    A replay keeps the same tuples; of two boxes with one seed, the smaller keeps a part of the larger.
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
        """A tuple is kept if the last bits of its hash are below this; with a floor, one just on it."""
        return round((self.keep if self.floor is None else self.floor.ties) * _BUCKETS)

    def passes(self, hash_of_tuple: int) -> bool:
        """Whether a tuple is kept; the hash is over seed and tuple."""
        return hash_of_tuple % _BUCKETS < self.threshold

    @property
    def is_open(self) -> bool:
        """Whether nothing is dropped."""
        return self.keep == 1


def boxes_of(keep: Mapping[str, float], seed: int) -> dict[str, DropBox]:
    """A box for every stream of which something is dropped."""
    return {s: DropBox(s, share, seed) for s, share in keep.items() if share < 1}


@dataclass(frozen=True)
class Course:
    """What a tick goes by, fixed before its tuples are read: shares of streams to keep, orders of joins.

    Streams that are not named are kept whole; joins that are not named keep the order of FROM.
    """

    keep: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        boxes_of(self.keep, self.seed)

    def share(self, stream: str) -> float:
        """What is kept of a stream."""
        return self.keep.get(stream, 1.0)

    def to_json(self) -> dict[str, object]:
        """Shares and orders."""
        orders = {name: list(order) for name, order in self.orders.items()}
        return {"keep": dict(self.keep), "orders": orders}

    def boxes(self) -> dict[str, DropBox]:
        """A box for every stream of which something is dropped."""
        return boxes_of(self.keep, self.seed)
