"""Queues of relational operators, built from what their work consists of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.queueing.faults import WrongFigure, check_amount
from headgate.queueing.mg1 import MG1, md1
from headgate.queueing.service import Discrete, Exponential


@dataclass(frozen=True)
class Rows:
    """A window of the latest ``count`` tuples."""

    count: int


Window = float | Rows
"""A window of a join: a number of seconds, or ``Rows``."""

Conditions = Sequence[tuple[float, float]]
"""Conjuncts in the order of their evaluation: (seconds, selectivity) each."""


def select(rate: float, seconds: float | None = None, conditions: Conditions = ()) -> MG1:
    """A selection: one condition of constant time, or conjuncts of which the first that fails is the last.

    Conjuncts give the exact mixture: a tuple takes the time of the first, of the first two, and so on.
    """
    if (seconds is None) == (not conditions):
        raise WrongFigure(
            "give either the seconds of one condition, or conditions=[(seconds, selectivity), ...]"
        )
    if seconds is not None:
        return md1(rate, seconds)
    return MG1(rate, stopping_early(conditions))


def select_exponential(rate: float, conditions: Conditions) -> MG1:
    """A selection by conjuncts whose time is taken to be exponential, of the same mean."""
    return MG1(rate, Exponential(stopping_early(conditions).moments[0]))


def project(rate: float, seconds: float) -> MG1:
    """A projection that keeps duplicates: constant time."""
    return md1(rate, seconds)


def relation_join(rate: float, seconds: float, page_seconds: float = 0.0) -> MG1:
    """A join with a stored relation: constant time, and ``page_seconds`` more if it is paged from disk."""
    return md1(rate, check_amount("seconds", seconds) + check_amount("page_seconds", page_seconds))


def window_join(
    rates: tuple[float, float],
    windows: tuple[Window, Window],
    hash_seconds: float,
    compare_seconds: float,
    buckets: tuple[int, int] = (1, 1),
    output_seconds: float = 0.0,
    selectivity: float = 0.0,
    overhead: float = 1.0,
) -> MG1:
    """A symmetric hash join of two windows, as one queue of two classes, first come first served.

    A tuple is hashed twice (into its own table, and into the other), compared with one bucket of the other
    window, and passes on its matches: ``selectivity`` times the other window, at ``output_seconds`` each.
    ``overhead`` is a factor for accepting and expiring tuples.
    """
    return two_class(
        rates,
        join_seconds(
            rates, windows, hash_seconds, compare_seconds, buckets, output_seconds, selectivity, overhead
        ),
    )


def join_seconds(
    rates: tuple[float, float],
    windows: tuple[Window, Window],
    hash_seconds: float,
    compare_seconds: float,
    buckets: tuple[int, int] = (1, 1),
    output_seconds: float = 0.0,
    selectivity: float = 0.0,
    overhead: float = 1.0,
) -> tuple[float, float]:
    """What a tuple of the left and of the right stream takes in a window join."""
    hashing = 2 * check_amount("hash_seconds", hash_seconds)
    comparing = check_amount("compare_seconds", compare_seconds)
    passing_on = check_amount("output_seconds", output_seconds) * check_amount("selectivity", selectivity)
    factor = check_amount("overhead", overhead)
    left, right = (
        factor * (hashing + tuples * (comparing / _bucket_count(count) + passing_on))
        # each probes the window of the other
        for tuples, count in (
            (tuples_in(windows[1], rates[1]), buckets[1]),
            (tuples_in(windows[0], rates[0]), buckets[0]),
        )
    )
    return left, right


def two_class(rates: tuple[float, float], seconds: tuple[float, float]) -> MG1:
    """Two streams that share one queue and one server, each with its own constant time."""
    first, second = (check_amount("rate", rate) for rate in rates)
    total = first + second
    if total == 0:
        return MG1(0.0, Discrete(((0.5, seconds[0]), (0.5, seconds[1]))))
    return MG1(total, Discrete(((first / total, seconds[0]), (second / total, seconds[1]))))


def stopping_early(conditions: Conditions) -> Discrete:
    """Service times of conjuncts that are evaluated in order until one fails."""
    points, reached, spent_s = [], 1.0, 0.0
    for place, (seconds, selectivity) in enumerate(conditions):
        if check_amount("selectivity", selectivity) > 1:
            raise WrongFigure(f"selectivity {selectivity!r} of a condition is wrong; write 0 to 1")
        spent_s += check_amount("seconds", seconds)
        stops = 1.0 if place == len(conditions) - 1 else 1 - selectivity
        points.append((reached * stops, spent_s))
        reached *= selectivity
    if not points:
        raise WrongFigure("a selection needs a condition; write conditions=[(seconds, selectivity), ...]")
    return Discrete(tuple(points))


def tuples_in(window: Window, rate: float) -> float:
    """Tuples that a window holds once it is full."""
    if isinstance(window, Rows):
        return check_amount("rows of a window", window.count)
    return check_amount("rate", rate) * check_amount("seconds of a window", window)


def transition_seconds(rates: tuple[float, float], windows: tuple[Window, Window]) -> float:
    """How long it takes until both windows are full and the steady state begins."""
    lengths = []
    for rate, window in zip(rates, windows, strict=True):
        if isinstance(window, Rows):
            lengths.append(window.count / rate if rate > 0 else math.inf)
        else:
            lengths.append(window)
    return max(lengths)


def _bucket_count(count: int) -> int:
    if not count >= 1:
        raise WrongFigure(f"buckets = {count!r} is wrong; write a whole number of 1 or more")
    return count
