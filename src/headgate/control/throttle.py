"""Feedback where the controller's model is wrong: how long ticks are."""

from __future__ import annotations

from dataclasses import dataclass

# a tick that is too long, with no more tuples than usual, may be one long pause of Java
_RISE = 1.3
_USUAL_MEMORY = 0.7
# one that predicts a next one so many times too long leaves no time to find out
_EMERGENCY = 1.5
# boxes open in steps, since twice the tuples of three streams may be eight times the work
_STEP = 1.2
_POWER = 1 / 4
_LEAST_KEEP = 0.01


@dataclass(frozen=True)
class TickLoad:
    """A tick, ``overhead_s`` of which was no work; its tuples arrived within ``arrived_s``."""

    seconds: float
    arrived_s: float
    overhead_s: float
    tuples: float
    share: float = 1.0
    """What drop boxes let through of what keep ratios allow."""

    @property
    def work_s_per_s(self) -> float:
        """Work per second of arrivals."""
        return max(0.0, self.seconds - self.overhead_s) / self.arrived_s


class Throttle:
    """Feedback where a model is wrong: ``keep_ratio`` is the share to keep of what it would keep."""

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._usual_per_s: float | None = None
        self._was_long = False
        self.keep_ratio = 1.0

    def add(self, load: TickLoad) -> str:
        """Adjust the keep ratio to a tick; the reason if it falls."""
        room = self._room(load)
        rate = load.tuples / load.arrived_s if load.arrived_s > 0 else 0.0
        usual = rate if self._usual_per_s is None else self._usual_per_s
        has_risen = rate > _RISE * usual
        self._usual_per_s = _USUAL_MEMORY * usual + (1 - _USUAL_MEMORY) * rate
        is_urgent = room < 1 / _EMERGENCY
        is_long, self._was_long = room < 1 and (has_risen or is_urgent or self._was_long), room < 1
        if is_long:
            self.keep_ratio = max(_LEAST_KEEP, self.keep_ratio * load.share * max(room, _LEAST_KEEP))
            return self._reason(load)
        if room > 1:
            self.keep_ratio = min(1.0, self.keep_ratio * min(room**_POWER, _STEP))
        return ""

    def _reason(self, load: TickLoad) -> str:
        next_s = load.overhead_s + load.work_s_per_s * load.seconds
        return f"the next tick would take {next_s:.2g} s where {self._target_s:.2g} s are wanted"

    def _room(self, load: TickLoad) -> float:
        if load.arrived_s <= 0 or load.seconds <= load.overhead_s:
            return 2.0
        # what arrives during this tick is the work of the next
        return max(0.0, self._target_s - load.overhead_s) / (load.work_s_per_s * load.seconds)
