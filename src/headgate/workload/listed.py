"""Arrivals that are written down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.workload.times import Times, check_sorted


@dataclass(frozen=True)
class Listed:
    """Arrivals at these ``times``, in seconds."""

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        self.times_s(seed=0)

    def times_s(self, seed: int) -> Times:
        """The times as they are; the seed changes nothing."""
        del seed
        return check_sorted(np.asarray(self.times, np.float64), "times")
