"""What is known of an operator's cost: measured while it runs, assumed before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Per-tuple figures of one operator.

    ``selectivity`` is output tuples per input tuple and may exceed 1 for joins. An ``_error`` is the standard
    error of a figure that was measured, 0 of one that was not.
    """

    seconds_per_tuple: float = 1e-6
    selectivity: float = 1.0
    bytes_per_tuple: float = 64.0
    samples: int = 0
    seconds_per_tuple_error: float = 0.0
    selectivity_error: float = 0.0


def rank(seconds_per_tuple: float, selectivity: float) -> float:
    """What a predicate costs for each tuple that it takes away: the smaller, the earlier to be asked."""
    return seconds_per_tuple / (1 - selectivity) if selectivity < 1 else float("inf")


def in_a_row(figures: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Seconds that predicates asked one after the other take for a tuple, and the share that passes all.

    ``figures`` are the seconds and the selectivity of each.
    """
    total_s, passing = 0.0, 1.0
    for seconds, selectivity in figures:
        total_s += passing * seconds
        passing *= selectivity
    return total_s, passing


Profiles = Mapping[str, Profile]
