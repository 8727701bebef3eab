"""Capacities of runs of operators: tuples that pass a second, bytes that are freed a second."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headgate.model.profile import Profiles


def processing_per_s(operators: Sequence[str], profiles: Profiles) -> float:
    """Tuples a second that a processor takes from the first queue through all of them."""
    seconds, surviving = 0.0, 1.0
    for name in operators:
        seconds += surviving * profiles[name].seconds_per_tuple
        surviving *= profiles[name].selectivity
    return 1.0 / seconds if seconds > 0 else math.inf


def release_per_s(operators: Sequence[str], readers: Sequence[str], profiles: Profiles) -> float:
    """Bytes a second by which these operators shrink what is queued.

    ``readers`` take the output; without any, it leaves the system and counts as nothing.
    """
    surviving = math.prod(profiles[name].selectivity for name in operators)
    left = surviving * profiles[readers[0]].bytes_per_tuple if readers else 0.0
    released = profiles[operators[0]].bytes_per_tuple - left
    capacity = processing_per_s(operators, profiles)
    # work that takes no time and frees nothing is as good as idle
    return 0.0 if released == 0 else released * capacity
