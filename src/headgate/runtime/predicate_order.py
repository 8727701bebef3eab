"""The order in which a selection evaluates its predicates: by rank, once their costs are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby

from headgate.model.expression import Expression
from headgate.model.operator import Select
from headgate.model.profile import Profiles, order_by_rank
from headgate.statistics.store import PredicateEstimates


class PredicateOrder:
    """Predicate orders of selections.

    ``movable`` are the predicates, by operator, that can be evaluated for any tuple. The others keep their
    positions, and predicates move only between them.
    """

    def __init__(
        self,
        selects: Mapping[str, Select],
        movable: Mapping[str, frozenset[str]],
        estimates: PredicateEstimates,
    ) -> None:
        self._movable = movable
        self._estimates = estimates
        self._orders = {
            name: select.predicates
            for name, select in selects.items()
            if any(len(run) > 1 for run in self._runs(name, select.predicates))
        }
        self._sort()

    def order(self, select: Select) -> tuple[Expression, ...]:
        return self._orders.get(select.name, select.predicates)

    def wants_trial(self) -> bool:
        return self._estimates.wants_trial() and bool(self._orders)

    def to_try(self, select: Select) -> tuple[Expression, ...]:
        runs = self._runs(select.name, self._orders.get(select.name, ()))
        return tuple(predicate for run in runs if len(run) > 1 for predicate in run)

    def add_trials(self, profiles: Mapping[str, Profiles]) -> None:
        """Add the trials of this tick; if there are none, the next tick tries again."""
        for operator, own in profiles.items():
            self._estimates.add(operator, own)
        if profiles:
            self._estimates.end_trial()
            self._sort()

    def _sort(self) -> None:
        known = self._estimates.profiles
        for operator, predicates in self._orders.items():
            runs = [_by_rank(run, known.get(operator, {})) for run in self._runs(operator, predicates)]
            self._orders[operator] = tuple(chain.from_iterable(runs))

    def _runs(self, operator: str, predicates: Sequence[Expression]) -> Iterator[list[Expression]]:
        """Consecutive predicates that may change positions."""
        movable = self._movable.get(operator, frozenset())
        for can_move, group in groupby(predicates, key=lambda predicate: predicate.text in movable):
            run = list(group)
            yield from [run] if can_move else [[predicate] for predicate in run]


def _by_rank(run: list[Expression], profiles: Profiles) -> list[Expression]:
    if any(predicate.text not in profiles for predicate in run):
        return run
    known = [profiles[predicate.text] for predicate in run]
    positions = order_by_rank([(profile.seconds_per_tuple, profile.selectivity) for profile in known])
    return [run[position] for position in positions]
