"""Drop boxes: which tuples of a stream to keep, the same ones whenever a tuple comes again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.errors import SetupError

# hashes are cut to as many bits as a float tells apart
BITS = 53
_BUCKETS = 1 << BITS


@dataclass(frozen=True)
class DropBox:
    """Keeps a share of a stream, chosen by hash of seed and tuple.

    A replay keeps the same tuples; of two boxes with one seed, the smaller keeps a part of the larger.
    """

    stream: str
    keep: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.keep <= 1:
            raise SetupError(f"a drop box of {self.stream} keeps {self.keep:g}; write a share from 0 to 1")

    @property
    def threshold(self) -> int:
        """A tuple is kept if the last bits of its hash are below this."""
        return round(self.keep * _BUCKETS)

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
