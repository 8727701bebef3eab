"""In which order the predicates of a selection are asked: by rank, as soon as their figures are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headgate.model.expression import Expression
from headgate.model.operator import Select
from headgate.model.profile import Profile, Profiles, in_a_row, rank

# another order makes Spark compile the selection anew, so it must save this much of its cost
_LEAST_GAIN = 0.2
_LEAST_GAIN_S = 5e-7
# how much what was found before counts beside a new trial
_MEMORY = 0.5
# ticks in which predicates are tried out: once Java is warm, then ever more seldom
_FIRST_TRIAL = 4
_LATER = 4


class Asking:
    """The orders of selections, as figures of an earlier run or of trials say.

    ``movable`` are predicates that can be asked of any tuple, by operator; the others keep their places, and
    predicates are moved between them only.
    """

    def __init__(
        self,
        selects: Mapping[str, Select],
        movable: Mapping[str, frozenset[str]],
        known: Mapping[str, Profiles],
    ) -> None:
        self._movable = movable
        self._orders = {
            name: select.predicates
            for name, select in selects.items()
            if any(len(run) > 1 for run in self._runs(name, select.predicates))
        }
        self._figures: dict[str, dict[str, Profile]] = {}
        self._ticks = 0
        self._next_trial = _FIRST_TRIAL
        for name in self._orders:
            self.learn(name, known.get(name, {}))

    @property
    def figures(self) -> Mapping[str, Profiles]:
        """What is known of predicates, by operator and text."""
        return {name: own for name, own in self._figures.items() if own}

    def order(self, select: Select) -> tuple[Expression, ...]:
        """Its predicates, in the order to ask them."""
        return self._orders.get(select.name, select.predicates)

    def go_on_from(self, earlier: Asking) -> None:
        """Remember what a run of the same network has found out, and that Java is warm."""
        self._ticks, self._next_trial = earlier._ticks, earlier._next_trial
        self._orders, self._figures = earlier._orders, earlier._figures

    def wants_trial(self) -> bool:
        """Whether predicates should be tried out one by one in the tick that begins."""
        self._ticks += 1
        return bool(self._orders) and self._ticks >= self._next_trial

    def to_try(self, select: Select) -> tuple[Expression, ...]:
        """The predicates of a selection that it is worth to know more of."""
        runs = self._runs(select.name, self._orders.get(select.name, ()))
        return tuple(predicate for run in runs if len(run) > 1 for predicate in run)

    def take_in(self, found: Mapping[str, Profiles]) -> None:
        """What the trials of this tick say; if nothing, the next one tries again."""
        for operator, figures in found.items():
            self.learn(operator, figures)
        if found:
            self._next_trial = _LATER * self._ticks

    def learn(self, operator: str, found: Profiles) -> None:
        """What is known of an operator's predicates."""
        figures = self._figures.setdefault(operator, {})
        for text, new in found.items():
            figures[text] = _mixed(figures[text], new) if text in figures else new
        ordered: list[Expression] = []
        for run in self._runs(operator, self._orders[operator]):
            ordered += _by_rank(run, figures)
        self._orders[operator] = tuple(ordered)

    def _runs(self, operator: str, predicates: Sequence[Expression]) -> Iterator[list[Expression]]:
        """Predicates in a row that may change places."""
        movable = self._movable.get(operator, frozenset())
        run: list[Expression] = []
        for predicate in predicates:
            if run and not (predicate.text in movable and run[-1].text in movable):
                yield run
                run = []
            run.append(predicate)
        yield run


def _by_rank(run: list[Expression], figures: Profiles) -> list[Expression]:
    if any(predicate.text not in figures for predicate in run):
        return run
    ordered = sorted(run, key=lambda p: rank(figures[p.text].seconds_per_tuple, figures[p.text].selectivity))
    now_s = _seconds(run, figures)
    return ordered if now_s - _seconds(ordered, figures) > max(_LEAST_GAIN_S, _LEAST_GAIN * now_s) else run


def _seconds(predicates: Sequence[Expression], figures: Profiles) -> float:
    """What predicates take for a tuple, one after the other."""
    asked = (figures[predicate.text] for predicate in predicates)
    return in_a_row((one.seconds_per_tuple, one.selectivity) for one in asked)[0]


def _mixed(old: Profile, new: Profile) -> Profile:
    return Profile(
        _MEMORY * old.seconds_per_tuple + (1 - _MEMORY) * new.seconds_per_tuple,
        _MEMORY * old.selectivity + (1 - _MEMORY) * new.selectivity,
        new.bytes_per_tuple,
        old.samples + new.samples,
    )
