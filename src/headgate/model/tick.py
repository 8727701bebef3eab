"""What a tick of the Spark engine takes in wall-clock time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TickCosts:
    """Wall-clock seconds of a tick: to begin with, by tuple taken in, by processor second of its work."""

    overhead_s: float
    intake_s: float
    work_s: float

    def seconds(self, tuples: float, busy_s: float) -> float:
        """How long a tick takes that takes in so many tuples and works so long."""
        return self.overhead_s + self.intake_s * tuples + self.work_s * busy_s
