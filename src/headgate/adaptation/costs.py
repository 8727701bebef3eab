"""What explains the processor time of the latest ticks: tuples that joins handle, and all else."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from headgate.planning.live import Work
from headgate.runtime.least_squares import held

_TICKS = 20
_MEMORY = 0.85
# how strongly figures are held to the last ones, where ticks cannot tell them apart
_HOLD = 0.2
_LEAST_SECONDS = 1e-9


@dataclass(frozen=True)
class Figures:
    """Seconds of a tick before its first tuple, of a tuple that a join handles; and how many times as much
    all else takes as its profiles say."""

    fixed_s: float = 0.0
    handled_s: float = 5e-7
    other: float = 1.0


class WorkCosts:
    """Learns what work costs. ``figures`` are what is known now."""

    def __init__(self) -> None:
        self._ticks: deque[tuple[Work, float]] = deque(maxlen=_TICKS)
        self.figures = Figures()

    def take_in(self, work: Work, busy_s: float) -> None:
        """A tick that did this work, in so many processor seconds."""
        if busy_s <= 0:
            return
        self._ticks.append((work, busy_s))
        self.figures = self._explained()

    def _explained(self) -> Figures:
        weights = _MEMORY ** np.arange(len(self._ticks) - 1, -1, -1)
        rows = np.array([[1.0, w.handled_per_s, w.other_s_per_s] for w, _ in self._ticks]) * weights[:, None]
        seconds = np.array([busy for _, busy in self._ticks]) * weights
        last = np.array([self.figures.fixed_s, self.figures.handled_s, self.figures.other])
        scale = np.linalg.norm(seconds)
        hold = _HOLD * scale / np.maximum(last, np.array([float(scale), _LEAST_SECONDS, 0.01]))
        # jobs do cost something before their first tuple; a join that handles few tuples cannot tell what
        hold[0] *= 0.1
        found = held(rows, seconds, hold, last)
        return Figures(float(found[0]), max(_LEAST_SECONDS, float(found[1])), max(0.01, float(found[2])))
