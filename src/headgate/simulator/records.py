"""What a loop writes down: flat records on the grid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Records:
    """A run. Every change of the backlog, every output, and the work of every operator."""

    change_ticks: Integers
    change_units: Integers
    """What the backlog grew by, in units of size; negative when it shrank."""
    change_streams: Integers
    """Whose tuples they are."""
    output_ticks: Integers
    output_queries: Integers
    output_amounts: Floats
    output_arrival_ticks: Integers
    busy_ticks: Integers
    """By operator."""
    turns: Integers
    """By operator: entries it has finished."""

    def in_order_of_time(self) -> Records:
        """The same, with changes of the backlog sorted."""
        order = np.argsort(self.change_ticks, kind="stable")
        changed = (self.change_ticks[order], self.change_units[order], self.change_streams[order])
        return replace(self, change_ticks=changed[0], change_units=changed[1], change_streams=changed[2])


class Notebook:
    """Records while they are being written."""

    def __init__(self, operators: int) -> None:
        self._changes: list[tuple[int, int, int]] = []
        self._outputs: list[tuple[int, int, float, int]] = []
        self._busy = [0] * operators
        self._turns = [0] * operators

    def change(self, tick: int, units: int, stream: int) -> None:
        """The backlog grew, or shrank."""
        self._changes.append((tick, units, stream))

    def output(self, tick: int, query: int, amount: float, arrival_tick: int) -> None:
        """A result left the system."""
        self._outputs.append((tick, query, amount, arrival_tick))

    def worked(self, operator: int, ticks: int) -> None:
        """A processor was busy with an operator."""
        self._busy[operator] += ticks

    def finished(self, operator: int) -> None:
        """An operator is done with an entry."""
        self._turns[operator] += 1

    def records(self) -> Records:
        """All that was written."""
        changes = np.array(self._changes, np.int64).reshape(-1, 3)
        ticks, queries, amounts, arrivals = zip(*self._outputs, strict=True) if self._outputs else ((),) * 4
        return Records(
            changes[:, 0],
            changes[:, 1],
            changes[:, 2],
            np.array(ticks, np.int64),
            np.array(queries, np.int64),
            np.array(amounts, np.float64),
            np.array(arrivals, np.int64),
            np.array(self._busy, np.int64),
            np.array(self._turns, np.int64),
        )
