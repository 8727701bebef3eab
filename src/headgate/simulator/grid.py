"""Virtual time and sizes as whole numbers on a decimal grid.

Sums of floats make 0.1 + 0.2 later than 0.3. On the grid, instants that are equal on paper are equal, a
backlog that is empty is 0, and both loops of the simulator do the same arithmetic to the last digit. The
grid is as fine as floats are sure to hit it: the whole run has fewer than 2**50 ticks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.simulator.scenario import Scenario

# below, a decimal number as a float times a power of ten is off by a quarter at most, and rounds as it should
_EXACT = 2.0**50
# finer sizes would only show the rounding of products of selectivities
_FINEST_SIZE = 12
_FINEST_TIME = 15


@dataclass(frozen=True)
class Grid:
    """Ticks in a second, and units in the size of one arriving tuple: powers of ten."""

    ticks_per_s: float
    units_per_tuple: float

    @staticmethod
    def of(scenario: Scenario) -> Grid:
        """The finest grid on which the whole run is exact."""
        longest_s = scenario.last_arrival_s + scenario.work_s
        largest = sum(load.tuples + 1 for load in scenario.loads.values())
        widest = max((load.bytes for load in scenario.loads.values()), default=0.0)
        narrowest = min((scenario.width(stream) for stream in scenario.network.streams), default=1.0)
        most = max(largest, widest / narrowest * len(scenario.loads))
        return Grid(_power_of_ten(longest_s, _FINEST_TIME), _power_of_ten(most, _FINEST_SIZE))

    def ticks(self, seconds: float) -> int:
        """The nearest tick."""
        return math.floor(seconds * self.ticks_per_s + 0.5)

    def all_ticks(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest ticks."""
        return np.floor(seconds * self.ticks_per_s + 0.5).astype(np.int64)

    def seconds(self, ticks: int) -> float:
        """A tick as seconds: the float nearest to the decimal number."""
        return ticks / self.ticks_per_s

    def units(self, size: float) -> int:
        """The nearest unit of size."""
        return math.floor(size * self.units_per_tuple + 0.5)


def _power_of_ten(largest: float, finest: int) -> float:
    return 10.0 ** min(finest, math.floor(math.log10(_EXACT / max(largest, 1.0))))
