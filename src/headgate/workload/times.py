"""What every named arrival process is: settings that give arrival times, the same ones for a seed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError

Times = NDArray[np.float64]

# 8 bytes each: more would not be simulated in a lifetime, but fill the memory
MOST_TUPLES = 50_000_000


class TimesProcess(Protocol):
    """An arrival process with all of its settings."""

    def times_s(self, seed: int) -> Times:
        """Arrival times in seconds, in order."""


def check_positive(**settings: float) -> None:
    """Raise if a setting is not a number above 0."""
    for name, value in settings.items():
        if not 0 < value < float("inf"):
            raise SetupError(f"{name} = {value:g} is out of range; write a number above 0")


def check_expected(tuples: float) -> None:
    """Raise if so many tuples would not fit."""
    if tuples > MOST_TUPLES:
        raise SetupError(f"about {tuples:,.0f} arrivals are too many; keep below {MOST_TUPLES:,}")


def check_sorted(times_s: Times, what: str) -> Times:
    """The times, unless one is negative, infinite or before its predecessor."""
    if not np.all(np.isfinite(times_s)):
        raise SetupError(f"{what} hold a value that is no finite number")
    if len(times_s) and times_s[0] < 0:
        raise SetupError(f"{what} begin at {times_s[0]:g}; write times of 0 or more")
    falls = np.flatnonzero(np.diff(times_s) < 0)
    if len(falls):
        at = int(falls[0])
        raise SetupError(f"{what} are not sorted: {times_s[at + 1]:g} comes after {times_s[at]:g}; sort them")
    return times_s
