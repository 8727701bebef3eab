"""What every arrival process offers: the tuples of a stretch of time, the same ones however time is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Arrivals:
    """Tuples in order of arrival; all arrays have the same length."""

    time_us: NDArray[np.int64]
    """Microseconds since the traffic began."""
    flow: NDArray[np.int32]
    id: NDArray[np.int64]
    """Distinct within a process, the same in every replay: what a tuple's values are drawn from."""

    def __len__(self) -> int:
        return len(self.time_us)

    def between(self, start_us: int, end_us: int) -> Arrivals:
        """The tuples of ``[start_us, end_us)``."""
        first, last = np.searchsorted(self.time_us, [start_us, end_us])
        return Arrivals(self.time_us[first:last], self.flow[first:last], self.id[first:last])

    @staticmethod
    def joined(parts: list[Arrivals]) -> Arrivals:
        """One run out of consecutive ones."""
        if not parts:
            return Arrivals(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
        if len(parts) == 1:
            return parts[0]
        return Arrivals(
            np.concatenate([part.time_us for part in parts]),
            np.concatenate([part.flow for part in parts]),
            np.concatenate([part.id for part in parts]),
        )


class ArrivalProcess(Protocol):
    """A replayable process: ``arrivals(a, c)`` is ``arrivals(a, b)`` followed by ``arrivals(b, c)``."""

    def arrivals(self, start_us: int, end_us: int) -> Arrivals:
        """The tuples of ``[start_us, end_us)``."""
        ...

    def blocks(self, start_us: int, end_us: int) -> Iterator[Arrivals]:
        """The same tuples, in consecutive blocks of bounded memory."""
        ...

    def advance(self, start_us: int, end_us: int, max_tuples: int) -> int:
        """The latest time up to ``end_us`` before which at most ``max_tuples`` arrive after ``start_us``."""
        ...

    def cuts(self, start_us: int, end_us: int, parts: int) -> list[int]:
        """Boundaries of up to ``parts`` consecutive stretches that can be generated side by side."""
        ...
