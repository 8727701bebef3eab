"""How much a tick may take on: little while nothing is known of costs, then as much as ticks have shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean

# of a tick of a second, while nothing is known of what a tuple costs
_FIRST_ROWS_PER_S = 10_000
_FIRST_ROWS = (1_000, 50_000)
# a tick that was short may be followed by one so many times as large, a long one by one so much smaller
_GROWTH = 8.0
# until Java is warm, a tick that is a little too long proves nothing either
_COLD_TICKS = 2
# where a tick is long for other reasons than its amount
_CAREFUL_GROWTH = 2.0
_TICKS_COMPARED = 6
_NO_TIME_S = 1e-9
# amounts that differ by less do not tell what the amount has to do with the time
_LEAST_SPREAD = 0.2
# of the first amount
_LEAST_SHARE = 0.1
# where costs are known from an earlier run
_KNOWN_FACTOR = _GROWTH**2
# taking in a few rows costs some tenths of a second by itself
_LEAST_INTAKE_S = 0.5
# the intake may take longer than a tick should: rows that have to wait in their source are late anyway
_INTAKE_WEIGHT = 0.25
# drop boxes follow what a tick has shown with a delay of one tick
_TICKS_TO_LEARN = 1
# a source may have no place to stop at exactly its limit
_ALL = 0.95


def first_rows(target_s: float) -> int:
    """Rows of a first tick that should take so many seconds."""
    least, most = _FIRST_ROWS
    return round(min(max(_FIRST_ROWS_PER_S * target_s, least), most))


def growth(room: float) -> float:
    """How many times as much a tick may take on as one that could have been ``room`` times as long.

    Not as many: twice as much may take more than twice as long.
    """
    return min(sqrt(room), _GROWTH)


class Allowance:
    """An amount that a tick may take on, so that its work takes ``target_s``."""

    def __init__(self, first: float, target_s: float, is_known: bool = False) -> None:
        self._least = _LEAST_SHARE * first
        self.target_s = target_s
        self._seen: deque[tuple[float, float]] = deque(maxlen=_TICKS_COMPARED)
        self._ticks = 0
        self._fixed_s = 0.0
        """Seconds of a tick that takes nothing on, as far as ticks have shown."""
        self.amount = first * (_KNOWN_FACTOR if is_known else 1.0)

    def add(self, used: float, seconds: float) -> None:
        """Learn from a tick that has taken ``used`` on, and so many seconds.

        A tick that had little to do proves nothing about a full one, so only one that has used its amount
        raises it. One that was too long lowers it, unless it would have been as long with next to nothing.
        """
        self._seen.append((used, seconds))
        self._ticks += used > 0
        is_told = self._learn_fixed()
        room = self.target_s / max(seconds - self._fixed_s, _NO_TIME_S)
        if seconds <= self.target_s:
            self.amount = max(self.amount, used * growth(room))
        elif self._ticks <= _COLD_TICKS and seconds < _GROWTH * self.target_s:
            return
        elif room > _CAREFUL_GROWTH or (self.amount <= self._least and not is_told):
            # where smaller ticks are not possible, larger ones must tell
            self.amount = max(self.amount, used * _CAREFUL_GROWTH)
        else:
            self.cap(max(used * room, self.amount / _GROWTH))

    def _learn_fixed(self) -> bool:
        """Draw a line through the latest ticks, if they differ in size, and return whether they do."""
        amounts, seconds = zip(*self._seen, strict=True)
        middle, mean_s = fmean(amounts), fmean(seconds)
        spread = sum((amount - middle) ** 2 for amount in amounts)
        if spread <= len(amounts) * (_LEAST_SPREAD * middle) ** 2:
            return False
        slope: float = sum((a - middle) * (s - mean_s) for a, s in self._seen) / spread
        self._fixed_s = max(0.0, mean_s - max(0.0, slope) * middle)
        return True

    def cap(self, most: float) -> None:
        """Allow no more than this; but a tick that takes nothing on would never end a backlog."""
        self.amount = max(self._least, min(self.amount, most))


@dataclass(frozen=True)
class Portion:
    """What a tick may take from a source while nothing is known: so many files, or so many rows."""

    amount: int
    of_files: bool = False


@dataclass(frozen=True)
class TakenIn:
    """What a tick has taken from sources, in files or rows, and what it has cost.

    ``work_s`` is 0 where operators leave what they have no time for in their queues.
    """

    amounts: Mapping[str, float]
    intake_s: float
    work_s: float
    arrived_bytes: float
    backlog_bytes: float


class SourceLimits:
    """Limits of what the next tick takes from each source; the rest waits there.

    All of them grow and shrink by the same factor. Where tuples are shed, what they cost is learnt first, and
    then nothing waits longer than it takes to take it in.
    """

    def __init__(
        self,
        portions: Mapping[str, Portion],
        target_s: float,
        memory_bytes: float = inf,
        sheds: bool = False,
        is_known: bool = False,
    ) -> None:
        self.portions = portions
        self._factor = Allowance(1.0, max(target_s, _LEAST_INTAKE_S), is_known)
        self.memory_bytes = memory_bytes
        self._sheds = sheds
        self._ticks_to_learn = 0 if is_known else _TICKS_TO_LEARN
        self._is_full = False

    def aim_at(self, target_s: float) -> None:
        """Let ticks take another time from now on."""
        self._factor.target_s = max(target_s, _LEAST_INTAKE_S)

    def limits(self) -> dict[str, int]:
        """Files or rows by stream; never none, since a stream that brings nothing would be taken for idle."""
        factor = 0.0 if self._is_full else self._factor.amount
        return {name: max(1, round(factor * portion.amount)) for name, portion in self.portions.items()}

    def add(self, taken: TakenIn) -> None:
        """Learn from a tick."""
        self._is_full = taken.backlog_bytes >= self.memory_bytes
        used = max(
            (taken.amounts[name] / portion.amount for name, portion in self.portions.items()), default=0
        )
        if self._sheds and self._ticks_to_learn:
            self._ticks_to_learn -= used > 0
            return
        self._factor.add(used, _INTAKE_WEIGHT * taken.intake_s + (0.0 if self._sheds else taken.work_s))
        if used and taken.arrived_bytes:
            self._factor.cap(used * (self.memory_bytes - taken.backlog_bytes) / taken.arrived_bytes)

    def waiting(self, amounts: Mapping[str, float]) -> frozenset[str]:
        """Streams that have brought as much as they could, so that more may wait in their sources."""
        return frozenset(name for name, most in self.limits().items() if amounts[name] >= _ALL * most)
