"""Profiling: running a network over a sample, so that ticks reveal what each operator and each tick costs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import cycle

from headgate.model.network import Network, SinkDefinition, StreamDefinition
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore
from headgate.status import RunStatus

# long enough to be worth the start of a run
_LEAST_S = 2.0
_WARM_UP_SHARE = 0.75
_SEPARATING_SHARE = 1 / 3
# a machine that is too slow to measure ticks in so many rounds will not do so in more
_MOST_ROUNDS = 5
_FILES_PER_TICK = (1, 3)
# of the length of a tick; a long wait makes the next tick long, and that one the next
_RESTS = (1.0, 0.0, 3.0, 0.0, 2.0, 0.0)
# in every tick but each fourth, an operator rests with this probability
_REST_PROBABILITY = 0.4
_ALL_WORK_EVERY = 4
_MOST_IDLE_TICKS = 2


def sampled(network: Network, files_per_tick: int = 1) -> Network:
    """The same operators, with results that go nowhere and files that arrive a few per tick."""
    return network.changed(
        streams=tuple(_in_steps(stream, files_per_tick) for stream in network.streams.values()),
        queries=tuple(replace(query, sink=SinkDefinition("memory")) for query in network.queries.values()),
    )


def _in_steps(stream: StreamDefinition, files_per_tick: int) -> StreamDefinition:
    """One tick over all files would measure Java's compiler."""
    options = {name.lower() for name, _ in stream.options}
    if "path" not in options or options & {"maxfilespertrigger", "maxbytespertrigger"}:
        return stream
    return replace(stream, options=(*stream.options, ("maxFilesPerTrigger", str(files_per_tick))))


class Sampling:
    """A strategy that separates the costs of operators.

    A tick has one time for all operators of a query; ticks in which different operators rest reveal what each
    of them takes. Ticks in which none works enlarge the next ones, which reveals what a tick costs anyway.
    """

    name = "sampling"

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._ticks = 0
        self._has_worked = False
        self._idle_ticks = 0
        self._resting: frozenset[str] = frozenset()
        self._order: tuple[str, ...] = ()

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self._order = tuple(network.operators)

    def choose(self, view: SystemView) -> Turn | None:
        ready = {queue.operator: queue for queue in view.ready()}
        awake = [name for name in self._order if name in ready and name not in self._resting]
        if not awake and not self._has_worked and self._idle_ticks >= _MOST_IDLE_TICKS:
            # only operators that rest have anything to do
            awake = [name for name in self._order if name in ready]
        if not awake:
            self._next_tick()
            return None
        self._has_worked = True
        queue = ready[awake[0]]
        return Turn((queue.operator,), queue.ready)

    def _next_tick(self) -> None:
        self._idle_ticks = 0 if self._has_worked else self._idle_ticks + 1
        self._ticks += 1
        self._has_worked = False
        some_rest = self._ticks % _ALL_WORK_EVERY != 0
        self._resting = frozenset(
            name for name in self._order if some_rest and self._random.random() < _REST_PROBABILITY
        )


def rests() -> Callable[[float], float]:
    """How long to wait after a tick of some length: ticks of several sizes reveal what each costs anyway."""
    factors = cycle(_RESTS)
    return lambda tick_s: next(factors) * tick_s


class Profiler:
    """Adds up rounds over a sample until a time is over.

    The first round warms Java up and does not count. The next ones separate operators, in ticks in which some
    of them rest; the last ones measure whole ticks of several sizes.
    """

    def __init__(self, network: Network, seconds: float, statistics: StatisticsStore) -> None:
        self._seconds = seconds
        self._end_s = time.monotonic() + _WARM_UP_SHARE * seconds
        self._statistics = statistics
        self.rounds = 0
        self._whole_since: int | None = None
        self._rows = dict.fromkeys(network.streams, 0)
        self._ran_s = 0.0

    @property
    def separates_operators(self) -> bool:
        """Whether operators take turns at resting in this round."""
        return self._whole_since is None

    @property
    def files_per_tick(self) -> int:
        """Files of streams that do not wait: these need ticks of several sizes, too."""
        return _FILES_PER_TICK[(self.rounds - self._whole_since) % 2] if self._whole_since is not None else 1

    @property
    def seconds_left(self) -> float:
        return max(_LEAST_S, self._end_s - time.monotonic())

    def wants_more(self) -> bool:
        """Whether there is time for another round, or one of each kind and enough ticks are still missing."""
        if self._whole_since is None or self.rounds == self._whole_since:
            return True
        if self._end_s - time.monotonic() >= _LEAST_S:
            return True
        return self.rounds < self._whole_since + _MOST_ROUNDS and self._statistics.tick_costs() is None

    @property
    def stage(self) -> str:
        doing = "telling operators apart" if self.separates_operators else "measuring whole ticks"
        return f"{doing if self.rounds else 'warming up'}, {self.seconds_left:.0f} s left"

    def end_round(self, status: RunStatus) -> None:
        self.rounds += 1
        if self.rounds == 1:
            self._end_s = time.monotonic() + _SEPARATING_SHARE * self._seconds
            return
        for name, counts in status.streams.items():
            self._rows[name] += counts.rows_in
        self._ran_s += status.seconds
        if self.separates_operators and self._end_s - time.monotonic() < _LEAST_S:
            self._whole_since = self.rounds
            self._statistics.forget_ticks()
            self._end_s = time.monotonic() + (1 - _SEPARATING_SHARE) * self._seconds

    def measured(self, tuples_per_s: Mapping[str, float]) -> Measured:
        """The profile; ``tuples_per_s`` are rates known better than by counting."""
        counted = {name: rows / self._ran_s for name, rows in self._rows.items() if self._ran_s > 0}
        return self._statistics.snapshot({**counted, **tuples_per_s})
