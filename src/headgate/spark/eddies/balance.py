"""Slots that move: from pools that could do with fewer to the one that cannot keep up."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.spark.eddies.pools import PoolStatus

# between two moves, so that what the last one did shows
_EVERY_S = 5.0
# a pool this busy cannot keep up
_BUSY = 0.9
# one that gives a slot away must not become the next of those
_STAYS_BELOW = 0.8


class Balance:
    """Moves a slot at a time; the total stays."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._busy_s: dict[str, float] = {}

    def move(self, pools: Mapping[str, PoolStatus], now_s: float) -> dict[str, int]:
        """The pools whose slots change, with their new numbers; none if all is well or it is too early."""
        if self._last_s is not None and now_s - self._last_s < _EVERY_S:
            return {}
        used = {}
        if self._last_s is not None:
            seconds = now_s - self._last_s
            used = {name: (pool.busy_s - self._busy_s[name]) / seconds for name, pool in pools.items()}
        self._last_s, self._busy_s = now_s, {name: pool.busy_s for name, pool in pools.items()}
        return _move(pools, used) if used else {}


def _move(pools: Mapping[str, PoolStatus], used: Mapping[str, float]) -> dict[str, int]:
    taker = max(pools, key=lambda name: used[name] / pools[name].slots)
    if used[taker] / pools[taker].slots < _BUSY:
        return {}
    left = {
        name: used[name] / (pool.slots - 1)
        for name, pool in pools.items()
        if name != taker and pool.slots > 1
    }
    giver = min(left, key=lambda name: left[name], default=None)
    if giver is None or left[giver] > _STAYS_BELOW:
        return {}
    return {taker: pools[taker].slots + 1, giver: pools[giver].slots - 1}
