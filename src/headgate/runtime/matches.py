"""How often tuples of two streams match, counted in samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# an older sample counts less, by this factor a sample
_MEMORY = 0.5


@dataclass(frozen=True)
class Sampled:
    """Pairs of a sample of two window contents, and those of them for which all predicates hold."""

    pairs: float
    matches: float

    @property
    def selectivity(self) -> float:
        """Share of the cross product; half a match stands for none, which nobody can tell from few."""
        return max(self.matches, 0.5) / self.pairs if self.pairs else 1.0


# operator, and the places of the predicates that look at the same two of its sides
Link = tuple[str, tuple[int, ...]]


class Matches:
    """Selectivities of join predicates, from the latest samples."""

    def __init__(self) -> None:
        self._sampled: dict[Link, Sampled] = {}

    def add(self, found: Mapping[Link, Sampled]) -> None:
        """Take in a tick's samples."""
        for link, new in found.items():
            old = self._sampled.get(link, Sampled(0.0, 0.0))
            self._sampled[link] = Sampled(
                _MEMORY * old.pairs + new.pairs, _MEMORY * old.matches + new.matches
            )

    def selectivities(self) -> dict[str, dict[int, float]]:
        """By operator and place of the predicate; the first of a link has its figure, the others 1."""
        found: dict[str, dict[int, float]] = {}
        for (operator, places), sampled in self._sampled.items():
            figures = [sampled.selectivity, *(1.0 for _ in places[1:])]
            found.setdefault(operator, {}).update(zip(places, figures, strict=True))
        return found
