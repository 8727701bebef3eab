"""Profiling: what a sample of the streams tells about the operators of a network."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from headgate.model.measured import Measured
from headgate.model.network import Network, SinkDefinition, StreamDefinition
from headgate.model.tick import TickCosts
from headgate.runtime.least_squares import in_scale
from headgate.status import RunStatus, TickRecord

# enough of a run to be worth its start
_LEAST_S = 2.0
_WARM_UP_SHARE = 0.75
_APART_SHARE = 1 / 3
# a machine that is too slow to tell in so many rounds will not in more
_MOST_ROUNDS = 5
_HOLD = 0.01
_RECENT_TICKS = 100
# one more than the figures that have to be told apart
_LEAST_TICKS = 4
_FILES_PER_TICK = (1, 3)
# of the length of a tick; after a long wait comes a long tick, and after that another
_RESTS = (0.0, 1.0, 0.0, 3.0, 0.0, 2.0)


def sampled(network: Network, files_per_tick: int = 1) -> Network:
    """The same operators, with results that go nowhere and files that come by and by."""
    return network.changed(
        streams=tuple(_by_and_by(stream, files_per_tick) for stream in network.streams.values()),
        queries=tuple(replace(query, sink=SinkDefinition("memory")) for query in network.queries.values()),
    )


def _by_and_by(stream: StreamDefinition, files_per_tick: int) -> StreamDefinition:
    """One tick over everything would say what Java's compiler takes."""
    options = {name.lower() for name, _ in stream.options}
    if "path" not in options or options & {"maxfilespertrigger", "maxbytespertrigger"}:
        return stream
    return replace(stream, options=(*stream.options, ("maxFilesPerTrigger", str(files_per_tick))))


def tick_costs(histories: Iterable[Sequence[TickRecord]]) -> TickCosts | None:
    """What explains the length of the latest ticks best; None if there are too few that worked."""
    rows, seconds = [], []
    for history in histories:
        for before, tick in pairwise(history[-_RECENT_TICKS:]):
            if tick.busy_s > 0:
                rows.append([1.0, float(tick.rows_in), tick.busy_s])
                # trials are few, and no part of the work
                waited_s = before.phases_s.get("rest", 0.0) + tick.phases_s.get("try", 0.0)
                seconds.append(tick.at_s - before.at_s - waited_s)
    if len(rows) < _LEAST_TICKS:
        return None
    # under a steady load work grows with tuples: what cannot be told apart is work, not intake
    overhead_s, intake_s, work_s = map(float, in_scale(np.array(rows), seconds, (0.0, _HOLD, 0.0)))
    return TickCosts(overhead_s, intake_s, work_s)


class Rests:
    """How long to wait after a tick. Ticks of several sizes tell what each of them costs anyway."""

    def __init__(self) -> None:
        self._ticks = 0

    def __call__(self, tick_s: float) -> float:
        """A few times the length of the last tick, or not at all."""
        self._ticks += 1
        return _RESTS[self._ticks % len(_RESTS)] * tick_s


class Profiler:
    """Adds up rounds over a sample until a time is over.

    The first one warms Java up and does not count. Then come rounds that tell operators apart, in ticks in
    which some of them rest; and then rounds of whole ticks of several sizes, as they will be run.
    """

    def __init__(self, network: Network, seconds: float) -> None:
        self._seconds = seconds
        self._end_s = time.monotonic() + _WARM_UP_SHARE * seconds
        self.rounds = 0
        self._whole_since: int | None = None
        self._found = Measured({})
        self._rows = dict.fromkeys(network.streams, 0)
        self._ran_s = 0.0
        self._histories: list[list[TickRecord]] = []

    @property
    def tells_apart(self) -> bool:
        """Whether operators take turns at resting in this round."""
        return self._whole_since is None

    @property
    def files_per_tick(self) -> int:
        """Streams that wait for nobody come in ticks of several sizes, too."""
        return _FILES_PER_TICK[(self.rounds - self._whole_since) % 2] if self._whole_since is not None else 1

    @property
    def goes_on(self) -> bool:
        """Whether this round has to remember the ticks of those before it."""
        return self.rounds != self._whole_since

    @property
    def seconds_left(self) -> float:
        """Until this kind of round is over."""
        return max(_LEAST_S, self._end_s - time.monotonic())

    def wants_more(self) -> bool:
        """Whether there is time for another round, or need: one of each kind, that tells enough."""
        if self._whole_since is None or self.rounds == self._whole_since:
            return True
        if self._end_s - time.monotonic() >= _LEAST_S:
            return True
        return self.rounds < self._whole_since + _MOST_ROUNDS and tick_costs(self._histories) is None

    @property
    def stage(self) -> str:
        """What is going on."""
        if not self.rounds:
            doing = "warming up"
        else:
            doing = "telling operators apart" if self.tells_apart else "measuring whole ticks"
        return f"{doing}, {self.seconds_left:.0f} s left"

    def take_in(self, found: Measured, status: RunStatus) -> None:
        """A round is over."""
        self.rounds += 1
        self._found = replace(found, tick=found.tick or self._found.tick)
        if self.rounds == 1:
            self._end_s = time.monotonic() + _APART_SHARE * self._seconds
            return
        for name, counts in status.streams.items():
            self._rows[name] += counts.rows_in
        self._ran_s += status.seconds
        if not self.tells_apart:
            self._histories.append(status.history)
        elif self._end_s - time.monotonic() < _LEAST_S:
            self._whole_since = self.rounds
            self._end_s = time.monotonic() + (1 - _APART_SHARE) * self._seconds

    def measured(self, tuples_per_s: Mapping[str, float]) -> Measured:
        """What came out; ``tuples_per_s`` are the rates known better than by counting."""
        counted = {name: rows / self._ran_s for name, rows in self._rows.items() if self._ran_s > 0}
        costs, busy = tick_costs(self._histories), self._found.tick
        if costs is not None and busy is not None:
            costs = replace(costs, fixed_busy_s=busy.fixed_busy_s, stored_busy_s=busy.stored_busy_s)
        return Measured(self._found.profiles, {**counted, **tuples_per_s}, costs)
