"""Measured or assumed costs of operators and ticks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt


@dataclass(frozen=True)
class Profile:
    """Per-tuple statistics of one operator.

    ``selectivity`` is output tuples per input tuple and may exceed 1 for joins. ``samples`` are the ticks
    that measured the cost, 0 if it is stated or assumed. An ``_error`` is the standard error of a
    measurement.
    """

    seconds_per_tuple: float = 1e-6
    selectivity: float = 1.0
    bytes_per_tuple: float = 64.0
    samples: int = 0
    seconds_per_tuple_error: float = 0.0
    selectivity_error: float = 0.0


# seconds per tuple and selectivity of a predicate
PredicateCost = tuple[float, float]
# another order makes Spark compile the selection anew, so it must save this much of its cost
_LEAST_GAIN = 0.2
_LEAST_GAIN_S = 5e-7


def order_by_rank(costs: Sequence[PredicateCost]) -> list[int]:
    """The predicate order of a selection, as positions in ``costs``; unchanged if another saves too little.

    The rank of a predicate is its cost for each tuple that it drops: the smaller, the earlier.
    """

    def rank(position: int) -> float:
        seconds_per_tuple, selectivity = costs[position]
        return seconds_per_tuple / (1 - selectivity) if selectivity < 1 else inf

    written = list(range(len(costs)))
    ranked = sorted(written, key=rank)
    now_s, then_s = (in_sequence(costs[position] for position in order)[0] for order in (written, ranked))
    return ranked if now_s - then_s > max(_LEAST_GAIN_S, _LEAST_GAIN * now_s) else written


def in_sequence(costs: Iterable[PredicateCost]) -> PredicateCost:
    """Seconds per tuple of predicates evaluated one after the other, and the share that passes all."""
    total_s, passing = 0.0, 1.0
    for seconds, selectivity in costs:
        total_s += passing * seconds
        passing *= selectivity
    return total_s, passing


Profiles = Mapping[str, Profile]


# overhead, intake and work: what a regression finds is off by its noise, the more so the more it finds
_COEFFICIENTS = 3
# standard errors by which an estimate may well be off
_ERRORS = 2.0


@dataclass(frozen=True)
class TickCosts:
    """Wall-clock seconds of a tick: fixed, per tuple of intake, per CPU second of its work.

    ``fixed_busy_s`` is the CPU time of its jobs before their first tuple, ``stored_busy_s`` that of a tuple
    that waits for another tick. Measured ticks differ from this by ``spread``, a standard deviation as a
    share of their length; there were ``samples`` of them, 0 if the costs are stated, and the shortest took
    ``least_s``. ``overhead_error_s`` is the standard error of the fixed seconds, ``work_error`` that of what
    tuples cost in all, as a share of it.
    """

    overhead_s: float
    intake_s: float
    work_s: float
    fixed_busy_s: float = 0.0
    stored_busy_s: float = 0.0
    spread: float = 0.0
    samples: int = 0
    work_error: float = 0.0
    overhead_error_s: float = 0.0
    least_s: float = 0.0

    @property
    def shortest_s(self) -> float:
        """What no tick is shorter than.

        Where ticks do not tell what is fixed, it may seem to be nothing: then it is the shortest one seen.
        """
        return min(self.least_s, self.overhead_s + _ERRORS * self.overhead_error_s)

    @property
    def empty_s(self) -> float:
        """Seconds of a tick with next to no work."""
        return self.overhead_s + self.work_s * self.fixed_busy_s

    @property
    def error(self) -> float:
        """Standard error of the predicted length of ticks, as a share of it."""
        return self.spread * sqrt(_COEFFICIENTS / self.samples) if self.samples else 0.0

    def seconds(self, tuples: float, busy_s: float) -> float:
        return max(self.shortest_s, self.empty_s + self.intake_s * tuples + self.work_s * busy_s)
