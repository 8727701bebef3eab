"""On/off flows as a list of times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.workload.onoff import OnOff
from headgate.workload.rates import RatePhases
from headgate.workload.times import Times, check_expected, check_positive


@dataclass(frozen=True)
class Superposed:
    """The sum of ``flows`` on/off flows (see ``OnOff``): ``rate`` tuples a second, until ``until``.

    Several rates hold for equal parts of it. On- and off-times last ``shortest`` to ``longest`` seconds.
    """

    rate: tuple[float, ...]
    until: float
    flows: int = 64
    on_shape: float = 1.4
    off_shape: float = 1.2
    shortest: float = 0.05
    longest: float = 100.0

    def __post_init__(self) -> None:
        check_positive(until=self.until)
        check_expected(max(self.rate, default=0.0) * self.until)
        # the process checks the rest
        self.process(seed=0)

    def process(self, seed: int) -> OnOff:
        """The traffic itself."""
        starts = tuple(round(i * self.until / len(self.rate) * 1e6) for i in range(len(self.rate)))
        return OnOff(
            seed=seed,
            rate=RatePhases(starts, self.rate),
            flows=self.flows,
            on_shape=self.on_shape,
            off_shape=self.off_shape,
            shortest_us=round(self.shortest * 1e6),
            longest_us=round(self.longest * 1e6),
        )

    def times_s(self, seed: int) -> Times:
        """Arrival times in seconds, in order."""
        return np.asarray(self.process(seed).arrivals(0, round(self.until * 1e6)).time_us / 1e6)
