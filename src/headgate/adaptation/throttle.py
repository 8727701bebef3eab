"""The throttle: feedback that keeps ticks short, and memory within its budget, where a model is wrong."""

from __future__ import annotations

from dataclasses import dataclass

# a tick that is longer than it should be, with no more tuples than usual, may be one long pause of Java
_RISE = 1.3
# one that promises a next one so many times as long as wanted leaves no time to find out
_EMERGENCY = 1.5
# opening again goes by steps, since twice the tuples of three streams may be eight times the work
_STEP = 1.2
_POWER = 1 / 4
_LEAST = 0.01
# shares below this are of all streams, not only of those that the model would shed
_HARD = 0.5


@dataclass(frozen=True)
class TickLoad:
    """A tick as the throttle sees it.

    Its tuples came within ``arrived_s`` and took ``seconds``, of which ``overhead_s`` would have been spent
    without any. ``bytes_held`` is what it holds, its windows included.
    """

    seconds: float
    arrived_s: float
    overhead_s: float
    tuples: float
    bytes_held: float

    @property
    def work_s_per_s(self) -> float:
        """What a second of arrivals takes."""
        return max(0.0, self.seconds - self.overhead_s) / self.arrived_s


class Throttle:
    """``share`` is what is kept of what the model would keep."""

    def __init__(self, target_s: float, memory_bytes: float) -> None:
        self._target_s = target_s
        self._memory_bytes = memory_bytes
        self._usual: float | None = None
        self._was_long = False
        self.share = 1.0

    @property
    def is_hard(self) -> bool:
        """Whether it has to do more than correct a model."""
        return self.share < _HARD

    def take_in(self, load: TickLoad) -> str:
        """Keep more or less from now on; if less, why."""
        room = min(self._room_in_time(load), self._room_in_memory(load))
        rate = load.tuples / load.arrived_s if load.arrived_s > 0 else 0.0
        has_risen = self._usual is not None and rate > _RISE * self._usual
        self._usual = rate if self._usual is None else 0.7 * self._usual + 0.3 * rate
        is_urgent = room < 1 / _EMERGENCY
        is_long, self._was_long = room < 1 and (has_risen or is_urgent or self._was_long), room < 1
        if is_long:
            self.share = max(_LEAST, self.share * max(room, _LEAST))
            return self._why(load)
        if room > 1:
            self.share = min(1.0, self.share * min(room**_POWER, _STEP))
        return ""

    def _why(self, load: TickLoad) -> str:
        if self._room_in_memory(load) < 1:
            held, limit = load.bytes_held / 2**20, self._memory_bytes / 2**20
            return f"{held:.3g} MB are held where {limit:.3g} MB are wanted"
        next_s = load.overhead_s + load.work_s_per_s * load.seconds
        return f"the next tick would take {next_s:.2g} s where {self._target_s:.2g} s are wanted"

    def start_anew(self) -> None:
        """The model has found other shares: let it show what they do."""
        self.share = 1.0

    def _room_in_time(self, load: TickLoad) -> float:
        if load.arrived_s <= 0 or load.seconds <= load.overhead_s:
            return 2.0
        # what comes in during this tick is the work of the next
        return max(0.0, self._target_s - load.overhead_s) / (load.work_s_per_s * load.seconds)

    def _room_in_memory(self, load: TickLoad) -> float:
        return self._memory_bytes / load.bytes_held if load.bytes_held > 0 else 2.0
