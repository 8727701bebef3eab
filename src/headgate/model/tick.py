"""What a tick of the Spark engine takes in wall-clock time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TickCosts:
    """Wall-clock seconds of a tick: to begin with, by tuple taken in, by processor second of its work.

    ``fixed_busy_s`` are processor seconds of its jobs before their first tuple, ``stored_busy_s`` those of
    a tuple that has to wait for another tick.
    """

    overhead_s: float
    intake_s: float
    work_s: float
    fixed_busy_s: float = 0.0
    stored_busy_s: float = 0.0

    @property
    def empty_s(self) -> float:
        """What a tick takes that has next to nothing to do."""
        return self.overhead_s + self.work_s * self.fixed_busy_s

    def seconds(self, tuples: float, busy_s: float) -> float:
        """How long a tick takes that takes in so many tuples and works on them so long."""
        return self.empty_s + self.intake_s * tuples + self.work_s * busy_s
