"""Profiling: what a sample of the streams tells about the operators of a network."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from headgate.model.measured import Measured
from headgate.model.network import Network, SinkDefinition, StreamDefinition
from headgate.model.profile import Profiles
from headgate.model.tick import TickCosts
from headgate.runtime.least_squares import held
from headgate.status import RunStatus, TickRecord

# enough of a run to be worth its start
_LEAST_S = 2.0
_WARM_UP_SHARE = 0.75
# a machine that is too slow to tell in so many rounds will not in more
_MOST_ROUNDS = 5
_HOLD = 0.01
_RECENT_TICKS = 100
# one more than the figures that have to be told apart
_LEAST_TICKS = 4


def sampled(network: Network) -> Network:
    """The same operators, with results that go nowhere and files that come one by one."""
    return Network(
        tuple(map(_one_by_one, network.streams.values())),
        tuple(network.relations.values()),
        tuple(network.operators.values()),
        tuple(replace(query, sink=SinkDefinition("memory")) for query in network.queries.values()),
        tuple(network.pools.values()),
        tuple(network.functions.values()),
    )


def _one_by_one(stream: StreamDefinition) -> StreamDefinition:
    """One tick over everything would say what Java's compiler takes."""
    options = {name.lower() for name, _ in stream.options}
    if "path" not in options or options & {"maxfilespertrigger", "maxbytespertrigger"}:
        return stream
    return replace(stream, options=(*stream.options, ("maxFilesPerTrigger", "1")))


def tick_costs(histories: Iterable[Sequence[TickRecord]]) -> TickCosts | None:
    """What explains the length of the latest ticks best; None if there are too few that worked."""
    rows, seconds = [], []
    for history in histories:
        for before, tick in pairwise(history[-_RECENT_TICKS:]):
            if tick.busy_s > 0:
                rows.append([1.0, float(tick.rows_in), tick.busy_s])
                seconds.append(tick.at_s - before.at_s)
    if len(rows) < _LEAST_TICKS:
        return None
    matrix = np.array(rows)
    scale = np.maximum(np.sqrt((matrix**2).sum(axis=0)), 1e-12)
    # under a steady load work grows with tuples: what cannot be told apart is work, not intake
    figures = held(matrix / scale, seconds, (0.0, _HOLD, 0.0), np.zeros(3))
    overhead_s, intake_s, work_s = (float(figure) for figure in figures / scale)
    return TickCosts(overhead_s, intake_s, work_s)


class Profiler:
    """Adds up rounds over a sample until a time is over. The first one warms Java up and does not count."""

    def __init__(self, network: Network, seconds: float) -> None:
        self._seconds = seconds
        self._end_s = time.monotonic() + _WARM_UP_SHARE * seconds
        self.rounds = 0
        self._profiles: Profiles = {}
        self._rows = dict.fromkeys(network.streams, 0)
        self._ran_s = 0.0
        self._found: TickCosts | None = None
        self._histories: list[list[TickRecord]] = []

    @property
    def seconds_left(self) -> float:
        """Until the time is over."""
        return max(_LEAST_S, self._seconds / 2, self._end_s - time.monotonic())

    def wants_more(self) -> bool:
        """Whether there is time for another round, or need: one warms up, others must tell enough."""
        if self.rounds < 2 or self._end_s - time.monotonic() >= _LEAST_S:
            return True
        return self.rounds < _MOST_ROUNDS and tick_costs(self._histories) is None

    @property
    def stage(self) -> str:
        """What is going on."""
        doing = "measuring" if self.rounds else "warming up"
        return f"{doing}, {self.seconds_left:.0f} s left"

    def take_in(self, found: Measured, status: RunStatus) -> None:
        """A round is over."""
        self.rounds += 1
        self._profiles = found.profiles
        self._found = found.tick or self._found
        if self.rounds == 1:
            self._end_s = time.monotonic() + self._seconds
            return
        for name, counts in status.streams.items():
            self._rows[name] += counts.rows_in
        self._ran_s += status.seconds
        self._histories.append(status.history)

    def measured(self, tuples_per_s: Mapping[str, float]) -> Measured:
        """What came out; ``tuples_per_s`` are the rates known better than by counting."""
        counted = {name: rows / self._ran_s for name, rows in self._rows.items() if self._ran_s > 0}
        costs = tick_costs(self._histories)
        if costs is not None and self._found is not None:
            busy = self._found
            costs = replace(costs, fixed_busy_s=busy.fixed_busy_s, stored_busy_s=busy.stored_busy_s)
        return Measured(self._profiles, {**counted, **tuples_per_s}, costs)
