"""Profiling: running a network over a sample, so that ticks reveal what each operator and each tick costs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from types import MappingProxyType

from headgate.model.network import Network, SinkDefinition, StreamDefinition
from headgate.model.profile import Profiles
from headgate.model.status import RunStatus
from headgate.model.view import SystemView, Turn
from headgate.statistics.completeness import with_reasons
from headgate.statistics.operators import UNREACHED
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

# long enough to be worth the start of a run
_LEAST_S = 2.0
_WARM_UP_SHARE = 0.75
_SEPARATING_SHARE = 1 / 3
# of the requested time, where that was too short
_EXTENSION_SHARE = 0.25
_MOST_EXTENSIONS = 6
# bursts may leave a stream as quiet as this for the time of a profile
_REACHED = 0.5
_FILES_PER_TICK = (1, 3)
# of arrivals
_MOST_S_PER_TICK = 2.0
_LIMITS = {"maxfilespertrigger", "maxbytespertrigger", "maxrowspertrigger", "rowspertrigger"}
# of the length of a tick; a long wait makes the next tick long, and that one the next
_RESTS = (1.0, 0.0, 3.0, 0.0, 2.0, 0.0)
# in every tick but each fourth, an operator rests with this probability
_REST_PROBABILITY = 0.4
_ALL_WORK_EVERY = 4
_MOST_IDLE_TICKS = 2


def sampled(
    network: Network, files_per_tick: int = 1, rates: Mapping[str, float] = MappingProxyType({})
) -> Network:
    """The same operators, with results that go nowhere and tuples that arrive in steps.

    ``rates`` are the highest that streams declare.
    """
    return network.changed(
        streams=tuple(
            _in_steps(stream, files_per_tick, rates.get(stream.name)) for stream in network.streams.values()
        ),
        queries=tuple(replace(query, sink=SinkDefinition("memory")) for query in network.queries.values()),
    )


def _in_steps(stream: StreamDefinition, files_per_tick: int, rate: float | None) -> StreamDefinition:
    options = {name.lower() for name, _ in stream.options}
    if options & _LIMITS:
        return stream
    limit = None
    if "path" in options:
        # one tick over all files would measure Java's compiler
        limit = ("maxFilesPerTrigger", str(files_per_tick))
    elif stream.format != "rate" and rate is not None:
        # more than the machine can take would make every tick longer than the one before
        limit = ("maxRowsPerTrigger", str(max(1, round(_MOST_S_PER_TICK * rate))))
    return stream if limit is None else replace(stream, options=(*stream.options, limit))


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


@dataclass(frozen=True)
class KnownRates:
    """Tuples per second of streams that counting does not tell.

    They are ``declared`` by the stream's options, one for each phase, or ``recorded`` by the timestamps of
    its files, however fast these are read. Of ``unpaced`` streams they are not known: tuples arrive as fast
    as they are read, so that counting them measures the machine.
    """

    declared: Mapping[str, Sequence[float]] = field(default_factory=dict)
    recorded: Mapping[str, float] = field(default_factory=dict)
    unpaced: Collection[str] = ()

    @property
    def highest(self) -> Mapping[str, float]:
        """The highest rate that each stream declares."""
        return {name: max(rates) for name, rates in self.declared.items()}

    @property
    def constant(self) -> Mapping[str, float]:
        """Rates that do not change."""
        steady = {name: rates[0] for name, rates in self.declared.items() if len(rates) == 1}
        return {**steady, **self.recorded}

    def is_missed(self, stream: str, per_s: float) -> bool:
        """Whether a machine that took so many tuples per second is slower than the stream."""
        return stream in self.unpaced or per_s < _REACHED * min(self.declared.get(stream, (0.0,)))


class Profiler:
    """Adds up rounds over a sample until a time is over, and everything is measured.

    The first round warms Java up and does not count. The next ones separate operators, in ticks in which some
    of them rest; the last ones measure whole ticks of several sizes. If the time is too short for that, more
    rounds follow as long as they measure anything new.
    """

    def __init__(self, network: Network, seconds: float, statistics: StatisticsStore) -> None:
        self._seconds = seconds
        self._end_s = time.monotonic() + _WARM_UP_SHARE * seconds
        self._statistics = statistics
        self.rounds = 0
        self._whole_since: int | None = None
        self._extensions = 0
        self._observed = 0
        self._rows = dict.fromkeys(network.streams, 0.0)
        self._ran_s = 0.0
        self._rested_s = 0.0

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
        """Whether there is time for another round, or one of each kind is still missing."""
        if self._whole_since is None or self.rounds == self._whole_since:
            return True
        return self._end_s - time.monotonic() >= _LEAST_S

    def extend(self, say: Callable[[str], None]) -> bool:
        """Allow more time if too little was measured so far, and more would help; ``say`` gets the reason."""
        missing = {n: why for n, why in self._statistics.unmeasured().items() if why != UNREACHED}
        observed, self._observed = self._observed, self._statistics.observations()
        is_hopeless = self._extensions > 0 and self._observed == observed
        if not missing or is_hopeless or self._extensions >= _MOST_EXTENSIONS:
            return False
        self._extensions += 1
        self._statistics.operators.use_small_ticks()
        self._end_s = time.monotonic() + max(_LEAST_S, _EXTENSION_SHARE * self._seconds)
        say(f"measuring longer than requested: {with_reasons(missing)}")
        return True

    @property
    def stage(self) -> str:
        doing = "separating the costs of operators" if self.separates_operators else "measuring whole ticks"
        longer = ", longer than requested" if self._extensions else ""
        return f"{doing if self.rounds else 'warming up'}, {self.seconds_left:.0f} s left{longer}"

    def end_round(self, status: RunStatus) -> None:
        self.rounds += 1
        if self.rounds == 1:
            self._statistics.forget_warm_up()
            self._end_s = time.monotonic() + _SEPARATING_SHARE * self._seconds
            return
        self._count(status)
        if self.separates_operators and self._end_s - time.monotonic() < _LEAST_S:
            self._whole_since = self.rounds
            self._statistics.forget_ticks()
            self._end_s = time.monotonic() + (1 - _SEPARATING_SHARE) * self._seconds

    def _count(self, status: RunStatus) -> None:
        """Count what arrived between the starts of the first and the last tick.

        The first tick takes what waited before, and what arrives after the start of the last one is not seen.
        """
        ticks = status.history
        total = sum(tick.rows_in for tick in ticks)
        if len(ticks) < 2 or not total:
            return
        share = 1 - ticks[0].rows_in / total
        for name, counts in status.streams.items():
            self._rows[name] += share * counts.rows_in
        self._ran_s += (ticks[-1].at_s - ticks[-1].seconds) - (ticks[0].at_s - ticks[0].seconds)
        self._rested_s += sum(tick.phases_s.get("rest", 0.0) for tick in ticks[:-1])

    def measured(self, known: KnownRates, processors: int) -> Measured:
        """The profile of all rounds."""
        worked_s = self._ran_s - self._rested_s
        taken = {name: rows / worked_s for name, rows in self._rows.items() if worked_s > 0}
        bound = {name: per_s for name, per_s in taken.items() if known.is_missed(name, per_s)}
        # tuples arrive between ticks, too
        counted = {name: rows / self._ran_s for name, rows in self._rows.items() if self._ran_s > 0}
        rates = {name: rate for name, rate in counted.items() if name not in bound}
        found = self._statistics.snapshot({**rates, **known.constant}, processors)
        return replace(found, machine_bound=bound)
