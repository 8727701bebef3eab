"""Estimators of ratios, and the one regression, which finds the costs that explain how long ticks took.

``DecayedRatio`` and its subclasses pass the checks of ``tests/statistics/test_estimators.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from headgate.model.profile import Profile, TickCosts
from headgate.model.status import TickRecord

Floats = NDArray[np.float64]
# one more than the coefficients of a tick's wall-clock time
_LEAST_TICKS = 4
_RECENT_TICKS = 100
# with less left over, noise may seem a tenth of what it is
_LEAST_FREEDOM = 2.0
_LEAST_SECONDS = 1e-8
# of operators: about as much as the times of equal ticks differ
HOLD = 0.3
_HOLD_JOIN = 0.2
_JOIN_MEMORY = 0.85


class DecayedRatio:
    """The sum of amounts by that of what they refer to; an observation counts ``memory`` times the next one.

    A ``known`` ratio counts as much as an observation of ``known_per``.
    """

    def __init__(self, memory: float = 0.5, known: float = 0.0, known_per: float = 0.0) -> None:
        self._memory = memory
        self._known = known
        self._forget()
        self._amount, self._per = known * known_per, known_per

    def _forget(self) -> None:
        self._count = self._amount = self._per = 0.0
        # of squared amounts, of products, of squared divisors
        self._squares = [0.0, 0.0, 0.0]

    def add(self, amount: float, per: float) -> None:
        """Observe a ratio of ``amount`` to ``per``; nothing is learnt where ``per`` is 0."""
        if per <= 0:
            return
        self._count = self._memory * self._count + 1
        self._amount = self._memory * self._amount + amount
        self._per = self._memory * self._per + per
        new = (amount**2, amount * per, per**2)
        self._squares = [self._memory * old + n for old, n in zip(self._squares, new, strict=True)]

    @property
    def value(self) -> float:
        return self._amount / self._per if self._per > 0 else self._known

    @property
    def error(self) -> float:
        """Standard error, from how observations differ; at least that of independent tuples."""
        if self._per <= 0:
            return inf
        ratio = self.value
        amounts, products, divisors = self._squares
        spread = max(0.0, amounts - 2 * ratio * products + ratio**2 * divisors)
        correction = self._count / (self._count - 1) if self._count > 1 else 1.0
        by_observation = sqrt(spread * correction) / self._per
        return max(by_observation, self._error_by_tuple(ratio))

    def _error_by_tuple(self, ratio: float) -> float:
        if ratio > 1:
            return sqrt(ratio / self._per)
        # half a tuple more on either side: that none has passed does not show that none ever will
        share = (self._amount + 0.5) / (self._per + 1)
        return sqrt(max(0.0, share * (1 - share)) / self._per)


class MatchRatio(DecayedRatio):
    """The share of pairs that match; a sample that chance does not explain replaces all earlier ones."""

    # pairs share tuples, which makes errors larger than those of independent pairs
    _ERRORS = 6.0

    def add(self, amount: float, per: float) -> None:
        if self._per and per:
            share = (self._amount + amount) / (self._per + per)
            error = sqrt(share * (1 - share) * (1 / self._per + 1 / per))
            if abs(self._amount / self._per - amount / per) > self._ERRORS * error:
                self._forget()
        super().add(amount, per)

    @property
    def value(self) -> float:
        """The share; no match counts as half a one, since a sample cannot distinguish it from a few."""
        return max(self._amount, 0.5) / self._per if self._per else 1.0


class ResultRatio(DecayedRatio):
    """Results as a multiple of those expected; 1 until there are enough, found or expected, to judge by."""

    _ENOUGH = 50

    def __init__(self) -> None:
        super().__init__(memory=0.7)

    @property
    def value(self) -> float:
        """The multiple; no result counts as one."""
        is_known = self._per > 0 and max(self._amount, self._per) >= self._ENOUGH
        return max(self._amount, 1.0) / self._per if is_known else 1.0


@dataclass(frozen=True)
class Term:
    """How strongly a coefficient is held, relative to the data.

    One with a ``previous`` estimate, of at least ``least``, is held to it: being off by all of it counts as
    much as missing the share ``hold`` of all seconds. Any other is held to zero, on the scale of its column.
    ``error`` is the standard error of the previous estimate; None if nothing was measured before.
    """

    hold: float = 0.0
    previous: float = 0.0
    least: float = 0.0
    error: float | None = None

    def strength(self, column: Floats, seconds: Floats) -> float:
        """Weight of the regularisation in the units of the data."""
        if self.least > 0:
            return self.hold * float(np.linalg.norm(seconds)) / max(self.previous, self.least)
        return self.hold * float(np.linalg.norm(column))

    def previous_error(self, column: Floats, seconds: Floats) -> float:
        """How far off the previous estimate may be: half of what would explain all seconds, if not known."""
        if self.error is not None:
            return self.error
        total = float(column.sum())
        return 0.5 * float(seconds.sum()) / total if total > 0 else self.previous


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients, none of them negative, and their covariance.

    It is infinite while the data leave too little to judge the noise by, once they are explained.
    """

    coefficients: tuple[float, ...]
    covariance: Floats

    @property
    def errors(self) -> tuple[float, ...]:
        """Standard errors of the coefficients."""
        return tuple(np.sqrt(np.diag(self.covariance)).tolist())

    def error_of_sum(self, amounts: Sequence[float]) -> float:
        """Standard error of the first coefficients' sum, each times its amount."""
        covariance = self.covariance[: len(amounts), : len(amounts)]
        if not np.isfinite(covariance).all():
            return inf
        return sqrt(max(0.0, float(np.array(amounts) @ covariance @ np.array(amounts))))


def fit(
    amounts: Sequence[Sequence[float]], seconds: Sequence[float], terms: Sequence[Term], memory: float = 1.0
) -> Fit:
    """Non-negative least squares, regularised toward the previous estimate.

    A row of ``amounts`` is what a tick did, by term. A tick weighs ``memory`` times the one after it.
    """
    # imported here: it takes half a second, and most commands do not need it
    from scipy.optimize import nnls

    weights = np.power(memory, np.arange(len(seconds) - 1, -1, -1, dtype=np.float64))
    rows = np.array(amounts, dtype=np.float64) * weights[:, None]
    wanted = np.array(seconds, dtype=np.float64) * weights
    strength = np.array([t.strength(rows[:, i], wanted) for i, t in enumerate(terms)])
    design = np.vstack([rows, np.diag(strength)])
    target = np.concatenate([wanted, strength * np.array([term.previous for term in terms])])
    # coefficients differ by orders of magnitude
    scale = np.maximum(np.linalg.norm(design, axis=0), 1e-12)
    found: Floats = nnls(design / scale, target)[0] / scale
    off = np.array([t.previous_error(rows[:, i], wanted) for i, t in enumerate(terms)])
    left = wanted - rows @ found
    covariance = _covariance(rows / scale, left, weights, strength / scale, off * scale)
    return Fit(tuple(found.tolist()), covariance / np.outer(scale, scale))


def _covariance(
    rows: Floats, left: Floats, weights: Floats, strength: Floats, previous_errors: Floats
) -> Floats:
    """Covariance of coefficients: by the noise in the data, and by the errors of previous estimates.

    What the ticks do not separate rests on the previous estimates, and is no better known than they are.
    """
    squares, weighted = rows.T @ rows, (rows * weights[:, None] ** 2).T @ rows
    inverse = np.linalg.pinv(squares + np.diag(strength**2))
    by_noise = inverse @ weighted @ inverse
    # as many ticks as would be left over if coefficients explained the others exactly
    freedom = weights @ weights - 2 * np.trace(inverse @ weighted) + np.trace(by_noise @ squares)
    moved = inverse * strength**2 * previous_errors
    by_previous = moved @ moved.T
    if freedom < _LEAST_FREEDOM:
        return np.diag(np.where(np.diag(by_noise) > 0, inf, np.diag(by_previous)))
    found: Floats = by_noise * float(left @ left) / freedom + by_previous
    # rounding may leave a diagonal slightly below zero
    np.fill_diagonal(found, np.maximum(0.0, np.diag(found)))
    return found


def tick_costs(
    histories: Iterable[Sequence[TickRecord]], known: TickCosts | None = None, processors: int | None = None
) -> TickCosts | None:
    """Costs that explain the wall-clock time of the latest ticks of runs, held to those ``known`` before.

    If too few ticks did any work, those known before, or None. Work is not done faster than by all of so many
    processors, however little the lengths of ticks tell what it adds to them.
    """
    fastest_s = 0.0 if processors is None else 1 / processors  # of a processor second
    amounts, seconds = [], []
    for history in histories:
        for before, tick in pairwise(history[-_RECENT_TICKS:]):
            if tick.busy_s > 0:
                amounts.append((1.0, float(tick.rows_in), tick.busy_s))
                # trials are rare, and not part of the work
                waited_s = before.phases_s.get("rest", 0.0) + tick.phases_s.get("try", 0.0)
                seconds.append(tick.at_s - before.at_s - waited_s)
    if len(seconds) < _LEAST_TICKS:
        return known
    # under a steady load, work grows with the number of tuples: what the ticks do not separate is work
    terms = [Term(), Term(hold=0.01), Term()]
    if known is not None:
        costs = (known.overhead_s, known.intake_s, max(0.0, known.work_s - fastest_s))
        terms = [Term(HOLD, cost, _LEAST_SECONDS) for cost in costs]
    slower = [own_s - fastest_s * busy_s for own_s, (_, _, busy_s) in zip(seconds, amounts, strict=True)]
    found = fit(amounts, slower, terms)
    overhead_s, intake_s, slower_s = found.coefficients
    costs = (overhead_s, intake_s, fastest_s + slower_s)
    error_s = found.errors[0]
    return TickCosts(
        *costs,
        spread=_spread(amounts, seconds, costs),
        samples=len(seconds),
        overhead_error_s=error_s if isfinite(error_s) else max(seconds),
        least_s=min(seconds),
    )


def _spread(
    amounts: Sequence[Sequence[float]], seconds: Sequence[float], coefficients: Sequence[float]
) -> float:
    """Standard deviation of ticks from what explains them, as a share of their mean length."""
    left = np.array(seconds) - np.array(amounts) @ np.array(coefficients)
    mean_s = float(np.mean(seconds))
    variance = float(left @ left) / (len(seconds) - len(coefficients))
    return sqrt(variance) / mean_s if mean_s > 0 else 0.0


@dataclass(frozen=True)
class TickWork:
    """CPU time of a tick for a group of queries, tuples that operators took, and those stored or read."""

    tuples: Mapping[str, float]
    stored: float
    seconds: float


# seconds per tuple and their standard error; None if they are assumed
Cost = tuple[float, float | None]


@dataclass(frozen=True)
class OperatorCosts:
    """Seconds per tuple and their errors by operator; ``fixed_s`` per tick, ``stored_s`` per stored tuple.

    ``all_s`` is what the tuples of a tick cost on average, and ``all_error_s`` its standard error: errors of
    operators that ticks do not separate cancel each other.
    """

    operators: Mapping[str, tuple[float, float]]
    fixed_s: float
    stored_s: float
    all_s: float
    all_error_s: float

    def profile(self, operator: str, known: Profile) -> Profile:
        seconds, error = self.operators[operator]
        return replace(known, seconds_per_tuple=seconds, seconds_per_tuple_error=error)


_HOLD_REST = Term(hold=0.1)


def operator_costs(
    works: Iterable[TickWork], previous: Mapping[str, Cost], memory: float, hold: float = HOLD
) -> OperatorCosts:
    """Costs that explain the processor time of ticks, held to ``previous`` ones by operator."""
    works, names = list(works), tuple(previous)
    seconds = [work.seconds for work in works]
    # what the ticks do not separate keeps its proportions: all operators became faster or slower alike
    expected = [(sum(work.tuples[name] * previous[name][0] for name in names), 1.0) for work in works]
    factor = max(_LEAST_SECONDS, fit(expected, seconds, (Term(), _HOLD_REST), memory).coefficients[0])
    held = [
        Term(hold, factor * cost, _LEAST_SECONDS, None if error is None else factor * error)
        for cost, error in previous.values()
    ]
    amounts = [(*(work.tuples[name] for name in names), work.stored, 1.0) for work in works]
    found = fit(amounts, seconds, (*held, _HOLD_REST, _HOLD_REST), memory)
    *costs, stored_s, fixed_s = found.coefficients
    costs = [max(_LEAST_SECONDS, cost) for cost in costs]
    operators = dict(zip(names, zip(costs, found.errors[:-2], strict=True), strict=True))
    tuples = [sum(work.tuples[name] for work in works) / len(works) for name in names]
    all_s = sum(count * cost for count, cost in zip(tuples, costs, strict=True))
    return OperatorCosts(operators, fixed_s, stored_s, all_s, found.error_of_sum(tuples))


class JoinCosts:
    """Costs of joins in processor time, beside those of the other operators.

    ``fixed_s`` is spent before a tick's first tuple, ``handled_s`` per tuple that a join handles. The other
    operators take ``other`` times what their profiles predict.
    """

    def __init__(self) -> None:
        self._ticks: deque[tuple[tuple[float, float, float], float]] = deque(maxlen=20)
        self._known: tuple[float, float] | None = None
        self.fixed_s, self.handled_s, self.other = 0.0, 5e-7, 1.0

    def hold_to(self, fixed_s: float, handled_s: float) -> None:
        """Begin with costs that an earlier run has measured, and stay near them.

        Ticks under a steady load are alike, and tell what they take in all but not of what it is made up.
        """
        self._known = self.fixed_s, self.handled_s = fixed_s, handled_s

    def add(self, handled: float, other_s: float, busy_s: float) -> None:
        """Add a tick in which joins handled so many tuples; profiles predict ``other_s`` for the rest."""
        if busy_s <= 0:
            return
        self._ticks.append(((1.0, handled, other_s), busy_s))
        amounts, seconds = zip(*self._ticks, strict=True)
        self.fixed_s, handled_s, other = fit(amounts, seconds, self._terms(), _JOIN_MEMORY).coefficients
        self.handled_s, self.other = max(1e-9, handled_s), max(0.01, other)

    def _terms(self) -> tuple[Term, Term, Term]:
        if self._known is not None:
            fixed_s, handled_s = self._known
            fixed, other = Term(_HOLD_JOIN, fixed_s, 0.01), 1.0
        else:
            # a join that handles few tuples cannot tell what a tick costs before its first tuple
            fixed, handled_s, other = Term(_HOLD_JOIN / 10), self.handled_s, self.other
        return fixed, Term(_HOLD_JOIN, handled_s, 1e-9), Term(_HOLD_JOIN, other, 0.01)
