"""What is simulated: a network, the behaviour of its operators, and the arrivals of its streams.

All loops read it by numbers: operators, streams and queries as indices, times and sizes on a decimal grid.
Sums of floats make 0.1 + 0.2 later than 0.3. On the grid, instants that are equal on paper are equal, a
backlog that is empty is 0, and all loops do the same arithmetic to the last digit. The grid is as fine as
floats represent exactly: the whole run has fewer than 2**50 ticks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.operator import is_ordered
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile, Profiles
from headgate.model.uniform_hash import key_of

# those of a run, which keeps some 50 bytes of each
_MOST_ENTRIES = 3e7
_MOST_TIME_UNITS = 5e6
# below, a decimal number as a float times a power of ten is off by a quarter at most, and rounds correctly
_EXACT = 2.0**50
# finer sizes would only show the rounding of products of selectivities
_FINEST_SIZE = 12
_FINEST_TIME = 15

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Fate = Literal["page", "random"]
Service = Literal["constant", "exponential"]


@dataclass(frozen=True)
class Behaviour:
    """Service and results of an operator, per tuple; ``size_ratio`` is output width over input width."""

    seconds: float
    selectivity: float = 1.0
    size_ratio: float = 1.0
    service: Service = "constant"


@dataclass(frozen=True)
class Pool:
    """Processors that serve any operator; several may serve the same one."""

    processors: int = 1


@dataclass(frozen=True)
class OnePerOperator:
    """Every operator has a processor of its own: a network of queues without scheduling."""


@dataclass(frozen=True)
class TotalInput:
    """Tuples, bytes and pages that arrive at an operator over a whole run."""

    tuples: float
    bytes: float
    pages: float


@dataclass(frozen=True)
class Scenario:
    """Everything that decides a run but the strategy.

    ``fate``: an entry is a page that shrinks by each selectivity, or a single tuple that survives or
    multiplies at random, by seed. With a ``time_unit_s`` work is interrupted at its multiples.
    """

    network: Network
    behaviours: Mapping[str, Behaviour]
    arrivals_s: Mapping[str, Floats]
    bytes_per_tuple: Mapping[str, float] = field(default_factory=dict)
    """Width of a stream's tuples; 64 for streams without."""
    time_unit_s: float | None = None
    processors: Pool | OnePerOperator = Pool()
    fate: Fate = "page"
    seed: int = 0

    def __post_init__(self) -> None:
        if missing := set(self.network.operators) - set(self.behaviours):
            raise SetupError(f"no behaviour for operator {min(missing)}; give its seconds and selectivity")
        if missing := set(self.network.streams) - set(self.arrivals_s):
            raise SetupError(f"no arrivals for stream {min(missing)}; give a list of times or a process")
        # by the bytes too, since widths may grow without bound
        if not math.isfinite(self.work_s + sum(load.bytes for load in self.loads.values())):
            raise SetupError("seconds and selectivities multiply to more than can be counted; lower them")
        check_entries(self.entries)
        if self.time_units > _MOST_TIME_UNITS:
            cuts = f"a time unit of {self.time_unit_s:g} s cuts the run {self.time_units:.3g} times"
            raise SetupError(f"{cuts}; write a longer one")

    @cached_property
    def numbered(self) -> NumberedScenario:
        return NumberedScenario.of(self)

    @staticmethod
    def from_profiles(
        network: Network, profiles: Profiles, arrivals_s: Mapping[str, Floats], **settings: Any
    ) -> Scenario:
        """A scenario of measured operators; widths follow from those of their inputs."""
        widths = {
            stream: float(np.mean([profiles[leaf].bytes_per_tuple for leaf in network.leaves(stream)]))
            for stream in network.streams
        }
        behaviours = {}
        for name, operator in network.operators.items():
            own, source = profiles[name], operator.inputs[0]
            width = widths[source.stream] if isinstance(source, StreamInput) else own.bytes_per_tuple
            readers = [profiles[reader].bytes_per_tuple for reader in network.readers(name)] or [width]
            ratio = float(np.mean(readers)) / width if width > 0 else 1.0
            behaviours[name] = Behaviour(own.seconds_per_tuple, own.selectivity, ratio)
        return Scenario(network, behaviours, arrivals_s, widths, **settings)

    def width(self, stream: str) -> float:
        """Bytes of a tuple as it arrives."""
        return self.bytes_per_tuple.get(stream, Profile.bytes_per_tuple)

    @cached_property
    def loads(self) -> Mapping[str, TotalInput]:
        """The expected total input of each operator."""
        arrived = {stream: float(len(times)) for stream, times in self.arrivals_s.items()}
        return total_inputs(self.network, self.behaviours, arrived, self.bytes_per_tuple)

    @cached_property
    def profiles(self) -> Mapping[str, Profile]:
        """Profiles for strategies; widths of several inputs are weighted by how much arrives from each."""
        profiles = {}
        for name, behaviour in self.behaviours.items():
            if name in self.network.operators:
                load = self.loads[name]
                width = load.bytes / load.tuples if load.tuples > 0 else self._assumed_width(name)
                profiles[name] = Profile(behaviour.seconds, behaviour.selectivity, width)
        return profiles

    def _assumed_width(self, operator: str) -> float:
        """The width where no input is expected: that of the first input."""
        ratio, source = 1.0, self.network.operators[operator].inputs[0]
        while isinstance(source, OperatorInput):
            ratio *= self.behaviours[source.operator].size_ratio
            source = self.network.operators[source.operator].inputs[0]
        return self.width(source.stream) * ratio

    @property
    def work_s(self) -> float:
        """Processor time that all arrivals are expected to take."""
        return sum(load.tuples * self.behaviours[name].seconds for name, load in self.loads.items())

    @property
    def entries(self) -> float:
        """Entries that operators are expected to serve, all together."""
        return entries_of(self.loads, self.fate)

    @property
    def time_units(self) -> float:
        return (self.last_arrival_s + self.work_s) / self.time_unit_s if self.time_unit_s else 0.0

    @property
    def last_arrival_s(self) -> float:
        return max((float(times[-1]) for times in self.arrivals_s.values() if len(times)), default=0.0)


def total_inputs(
    network: Network,
    behaviours: Mapping[str, Behaviour],
    arrived: Mapping[str, float],
    bytes_per_tuple: Mapping[str, float],
) -> dict[str, TotalInput]:
    """The expected total input of each operator, by the tuples of each stream."""
    loads: dict[str, TotalInput] = {}
    for name, operator in network.operators.items():
        tuples = amount_bytes = pages = 0.0
        for source in operator.inputs:
            if isinstance(source, StreamInput):
                own = arrived[source.stream]
                tuples += own
                amount_bytes += own * bytes_per_tuple.get(source.stream, Profile.bytes_per_tuple)
                pages += own
            else:
                below, behaviour = loads[source.operator], behaviours[source.operator]
                tuples += below.tuples * behaviour.selectivity
                amount_bytes += below.bytes * behaviour.selectivity * behaviour.size_ratio
                # a page goes on as one page, unless nothing is left of it
                pages += below.pages * (behaviour.selectivity > 0)
        loads[name] = TotalInput(tuples, amount_bytes, pages)
    return loads


def entries_of(loads: Mapping[str, TotalInput], fate: Fate) -> float:
    return sum(load.tuples if fate == "random" else load.pages for load in loads.values())


def check_entries(entries: float) -> None:
    # not a number where infinite loads meet a selectivity of 0
    if not entries <= _MOST_ENTRIES:
        most = f"write fewer tuples, operators or results, for {_MOST_ENTRIES:.0e} at most"
        raise SetupError(f"about {entries:.3g} entries to serve are too many; {most}")


def nearest(value: float) -> int:
    return math.floor(value + 0.5)


@dataclass(frozen=True)
class Grid:
    """Ticks per second, and units per size of one arriving tuple: powers of ten."""

    ticks_per_s: float
    units_per_tuple: float

    @staticmethod
    def of(scenario: Scenario) -> Grid:
        """The finest grid on which the whole run is exact."""
        longest_s = max(scenario.last_arrival_s + scenario.work_s, scenario.time_unit_s or 0.0)
        largest = sum(load.tuples + 1 for load in scenario.loads.values())
        widest = max((load.bytes for load in scenario.loads.values()), default=0.0)
        widths = [scenario.width(stream) for stream in scenario.network.streams]
        # tuples without a size take no room, whatever the grid is
        narrowest = min((width for width in widths if width > 0), default=1.0)
        most = max(largest, widest / narrowest * len(scenario.loads))
        return Grid(_power_of_ten(longest_s, _FINEST_TIME), _power_of_ten(most, _FINEST_SIZE))

    def ticks(self, seconds: float) -> int:
        return nearest(seconds * self.ticks_per_s)

    def seconds(self, ticks: int) -> float:
        """A tick as seconds: the float nearest to the decimal number."""
        return ticks / self.ticks_per_s

    def units(self, size: float) -> int:
        return nearest(size * self.units_per_tuple)


def _power_of_ten(largest: float, finest: int) -> float:
    return 10.0 ** min(finest, math.floor(math.log10(_EXACT / max(largest, 1.0))))


Reader = tuple[int, int]
"""An operator and which of its inputs."""


@dataclass(frozen=True)
class Upstream:
    """What lies below one input of an operator, from where older tuples may still arrive."""

    operators: frozenset[int]
    streams: frozenset[int]


@dataclass(frozen=True)
class NumberedArrivals:
    """All arrivals by time, then stream, then number. A tuple's rank is its index in them."""

    ticks: Integers
    streams: Integers
    numbers: Integers
    last_ranks: tuple[int, ...]
    """The rank of each stream's last tuple; -1 for a stream without any."""


@dataclass(frozen=True)
class NumberedScenario:
    """Operators, streams and queries by their indices."""

    names: tuple[str, ...]
    readers: tuple[tuple[Reader, ...], ...]
    leaves: tuple[tuple[Reader, ...], ...]
    """Readers of every stream."""
    outputs: tuple[tuple[int, ...], ...]
    """Queries that each operator is an output of."""
    upstream: tuple[tuple[Upstream, ...] | None, ...]
    """For operators that need timestamp order: what lies below each input."""
    fate_keys: tuple[int, ...]
    service_keys: tuple[int, ...]
    stream_keys: tuple[int, ...]
    arrivals: NumberedArrivals
    grid: Grid

    @staticmethod
    def of(scenario: Scenario) -> NumberedScenario:
        network, seed = scenario.network, scenario.seed
        names, grid = tuple(network.operators), Grid.of(scenario)
        queries = list(network.queries.values())
        operator_readers: dict[str, list[Reader]] = {name: [] for name in names}
        stream_readers: dict[str, list[Reader]] = {name: [] for name in network.streams}
        for index, operator in enumerate(network.operators.values()):
            for edge, source in enumerate(operator.inputs):
                if isinstance(source, StreamInput):
                    stream_readers[source.stream].append((index, edge))
                else:
                    operator_readers[source.operator].append((index, edge))
        return NumberedScenario(
            names=names,
            readers=tuple(map(tuple, operator_readers.values())),
            leaves=tuple(map(tuple, stream_readers.values())),
            outputs=tuple(tuple(i for i, q in enumerate(queries) if name in q.outputs) for name in names),
            upstream=_upstream(network),
            fate_keys=tuple(key_of(seed, "fate", name) for name in names),
            service_keys=tuple(key_of(seed, "service", name) for name in names),
            stream_keys=tuple(key_of(seed, "stream", name) for name in network.streams),
            arrivals=_arrivals(scenario, grid),
            grid=grid,
        )


def _upstream(network: Network) -> tuple[tuple[Upstream, ...] | None, ...]:
    streams = {name: Upstream(frozenset(), frozenset([i])) for i, name in enumerate(network.streams)}
    through: dict[str, Upstream] = {}
    found: list[tuple[Upstream, ...] | None] = []
    for index, (name, operator) in enumerate(network.operators.items()):
        below = tuple(
            through[i.operator] if isinstance(i, OperatorInput) else streams[i.stream]
            for i in operator.inputs
        )
        found.append(below if is_ordered(operator) and len(below) > 1 else None)
        operators = frozenset([index]).union(*(side.operators for side in below))
        through[name] = Upstream(operators, frozenset[int]().union(*(side.streams for side in below)))
    return tuple(found)


def _arrivals(scenario: Scenario, grid: Grid) -> NumberedArrivals:
    seconds = [scenario.arrivals_s[stream] for stream in scenario.network.streams]
    counts = [len(times) for times in seconds]
    ticks = np.floor(np.concatenate([np.empty(0), *seconds]) * grid.ticks_per_s + 0.5).astype(np.int64)
    numbers = np.concatenate([np.empty(0, np.int64), *map(np.arange, counts)])
    # stable: streams are concatenated in order of declaration, and each is sorted
    order = np.argsort(ticks, kind="stable")
    streams = np.repeat(np.arange(len(counts)), counts)[order]
    last = [int(np.flatnonzero(streams == i)[-1]) if count else -1 for i, count in enumerate(counts)]
    return NumberedArrivals(ticks[order], streams, numbers[order], tuple(last))
