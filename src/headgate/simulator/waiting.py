"""When the entries of a queue arrived, read off the queue itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import overload

from headgate.simulator.entry import Entry
from headgate.simulator.grid import Grid


class ArrivalsOf(Sequence[float]):
    """Arrival times of waiting entries, head first: a view that costs nothing until it is read."""

    def __init__(self, waiting: deque[Entry], grid: Grid) -> None:
        self._waiting = waiting
        self._grid = grid

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[float]:
        return (self._grid.seconds(entry.arrival_tick) for entry in self._waiting)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        if isinstance(index, slice):
            return list(self)[index]
        return self._grid.seconds(self._waiting[index].arrival_tick)
