"""Events in order of time: a binary heap in rows."""

from __future__ import annotations

from headgate.simulator.eddies.lean import inlined
from headgate.simulator.eddies.world import Rows


@inlined
def push(events: Rows, size: int, time: float, kind: int, which: int, number: int) -> int:
    """Add an event; how many there are then."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if events[above].time <= time:
            break
        events[place] = events[above]
        place = above
    event = events[place]
    event.time = time
    event.kind = kind
    event.which = which
    event.number = number
    return size + 1


@inlined
def pop(events: Rows, size: int) -> int:
    """Take the first event away; how many are left."""
    last = size - 1
    time = events[last].time
    place = 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        if below + 1 < last and events[below + 1].time < events[below].time:
            below += 1
        if events[below].time >= time:
            break
        events[place] = events[below]
        place = below
    events[place] = events[last]
    return last
