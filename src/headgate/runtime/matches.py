"""How often tuples of two streams match, counted in samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from headgate.model.network import Network
from headgate.model.operator import WindowJoin
from headgate.model.profile import Profile

# an older sample counts less, by this factor a sample
_MEMORY = 0.5
# figures so many standard errors apart are others; pairs share tuples, which makes errors larger
_ERRORS = 6.0


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


def _differ(old: Sampled, new: Sampled) -> bool:
    """Whether chance alone would hardly explain the difference: then what was is over."""
    if not old.pairs or not new.pairs:
        return False
    share = (old.matches + new.matches) / (old.pairs + new.pairs)
    error = sqrt(share * (1 - share) * (1 / old.pairs + 1 / new.pairs))
    return abs(old.matches / old.pairs - new.matches / new.pairs) > _ERRORS * error


class Matches:
    """Selectivities of join predicates, from the latest samples."""

    def __init__(self) -> None:
        self._sampled: dict[Link, Sampled] = {}

    def add(self, found: Mapping[Link, Sampled]) -> None:
        """Take in a tick's samples."""
        for link, new in found.items():
            old = self._sampled.get(link, Sampled(0.0, 0.0))
            if _differ(old, new):
                old = Sampled(0.0, 0.0)
            self._sampled[link] = Sampled(
                _MEMORY * old.pairs + new.pairs, _MEMORY * old.matches + new.matches
            )

    def predicates(self, network: Network) -> dict[str, dict[str, Profile]]:
        """The same by operator and text, as measured profiles have it."""
        found = {}
        for name, by_place in self.selectivities().items():
            join = network.operators[name]
            assert isinstance(join, WindowJoin)
            own = {join.predicates[place].text: figure for place, figure in sorted(by_place.items())}
            found[name] = {text: Profile(0.0, figure) for text, figure in own.items()}
        return found

    def selectivities(self) -> dict[str, dict[int, float]]:
        """By operator and place of the predicate; the first of a link has its figure, the others 1."""
        found: dict[str, dict[int, float]] = {}
        for (operator, places), sampled in self._sampled.items():
            figures = [sampled.selectivity, *(1.0 for _ in places[1:])]
            found.setdefault(operator, {}).update(zip(places, figures, strict=True))
        return found
