"""How fast streams come: by their own time, which fills windows, and by the clock, which loads processors."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.event import TickCommitted

# an older tick counts less, by this factor a tick
_MEMORY = 0.5


@dataclass
class _Rate:
    """Tuples by seconds."""

    tuples: float = 0.0
    seconds: float = 0.0

    def add(self, tuples: float, seconds: float) -> None:
        self.tuples = _MEMORY * self.tuples + tuples
        self.seconds = _MEMORY * self.seconds + seconds

    @property
    def value(self) -> float:
        return self.tuples / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Stretch:
    """The time that a tick's tuples came in: by the clock, and of the streams themselves."""

    arrived_s: float
    own_s: float
    tuples_per_own_s: dict[str, float]


class Rates:
    """Rates of all streams, over the latest ticks."""

    def __init__(self) -> None:
        self._started_s: float | None = None
        self._until_s: dict[str, float] = {}
        self._by_own_time: dict[str, _Rate] = {}
        self._by_clock = _Rate()
        self._speed = _Rate()

    def take_in(self, tick: TickCommitted) -> Stretch | None:
        """The stretch that a tick stands for; None of the first, of which nobody knows when it began."""
        started_s = tick.now_s - tick.seconds
        before_s, self._started_s = self._started_s, started_s
        before_until, self._until_s = self._until_s, {**self._until_s, **tick.until_s}
        if before_s is None or started_s <= before_s:
            return None
        arrived_s = started_s - before_s
        moved = {s: until - before_until[s] for s, until in tick.until_s.items() if s in before_until}
        # of streams that have just begun, the clock is all there is to go by
        own_s = max(moved.values(), default=0.0) or arrived_s
        rows = {stream: counts.rows_in for stream, counts in tick.streams.items()}
        self._by_clock.add(sum(rows.values()), arrived_s)
        self._speed.add(own_s, arrived_s)
        for stream, count in rows.items():
            self._by_own_time.setdefault(stream, _Rate()).add(count, own_s)
        return Stretch(arrived_s, own_s, {stream: count / own_s for stream, count in rows.items()})

    @property
    def tuples_per_own_s(self) -> dict[str, float]:
        """Tuples of each stream in a second of its own time."""
        return {stream: rate.value for stream, rate in self._by_own_time.items()}

    @property
    def tuples_per_s(self) -> float:
        """Tuples of all streams in a second by the clock."""
        return self._by_clock.value

    @property
    def speed(self) -> float:
        """Seconds of the streams' own time in a second by the clock."""
        return self._speed.value or 1.0
