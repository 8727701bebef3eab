"""The load of a network: what arrives at each operator per second, and the work that one tuple makes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np

from headgate.errors import known_names
from headgate.model.joins import JoinSide, OuterWindowJoin, WindowJoin, WindowUpdate
from headgate.model.network import Network
from headgate.model.operator import Aggregate, is_ordered
from headgate.model.operator_inputs import Input, OperatorInput, StreamInput
from headgate.model.profile import Profile, Profiles
from headgate.model.window import RowWindow, TimeWindow
from headgate.queueing.recorded_arrivals import Dispersion, index_at
from headgate.queueing.service_times import Discrete, ParameterError, Points, check_amount

# work of more values than this is moved to as many equal steps, keeping its mean
_MOST_EXACT = 16
# what a match of a join costs, as a share of what the tuple costs that finds it
_MATCH = 0.02
_STEPS = 64
# copies of a tuple beyond this many differ little from their mean
_MOST_COPIES = 64


@dataclass(frozen=True)
class LoadModel:
    """A network, profiles of its operators, and tuples per second of its streams.

    ``keep_ratios`` are the shares of their input that shedding queries keep; ``window_factors`` multiply the
    length of all windows of a query. ``measured`` is the load under which profiles were taken, if that was
    another one: a join finds more matches the more its windows hold. ``dispersions`` state how bursty streams
    are, over time scales; those not listed are Poisson. They stay as they are at other rates, as if more
    sources of the same kind were added.
    """

    network: Network
    profiles: Profiles
    rates: Mapping[str, float]
    keep_ratios: Mapping[str, float] = field(default_factory=dict)
    window_factors: Mapping[str, float] = field(default_factory=dict)
    measured: LoadModel | None = None
    dispersions: Mapping[str, tuple[Dispersion, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stream in self.rates:
            if stream not in self.network.streams:
                known = known_names(self.network.streams)
                raise ParameterError(f"no query reads a stream {stream}; known: {known}")
        for stream in self.network.streams:
            if stream not in self.rates:
                raise ParameterError(f"no rate of stream {stream} is known; give its tuples per second")
            check_amount(f"rate of stream {stream}", self.rates[stream])
        for operator in self.network.operators:
            if operator not in self.profiles:
                raise ParameterError(f"operator {operator} has no profile; headgate profile makes one")

    @property
    def profile(self) -> Mapping[str, Profile]:
        """The profile of every operator, with windows as full as they are here."""
        return self._flows[0]

    @property
    def arriving(self) -> Mapping[str, float]:
        """Tuples per second that arrive at each operator."""
        return self._flows[1]

    @cached_property
    def _flows(self) -> tuple[Mapping[str, Profile], Mapping[str, float], Mapping[str, float]]:
        """Of each operator: its profile, and the tuples per second that it receives and passes on."""
        profiles: dict[str, Profile] = {}
        arriving: dict[str, float] = {}
        passed: dict[str, float] = {}
        for name, operator in self.network.operators.items():
            arriving[name] = sum(
                self.rate_from(source, name, passed) for source in dict.fromkeys(operator.inputs)
            )
            profiles[name] = self.profiles[name]
            if isinstance(operator, WindowJoin) and self.measured is not None:
                profiles[name] = self._join_profile(operator, passed, self.measured)
            passed[name] = arriving[name] * profiles[name].selectivity
        return profiles, arriving, passed

    def _join_profile(self, join: WindowJoin, passed: Mapping[str, float], measured: LoadModel) -> Profile:
        """The profile of a join with windows fuller, or emptier, than when it was measured."""
        own = self.profiles[join.name]
        before, now = measured._met(join, measured._flows[2]), self._met(join, passed)
        if not (0 < before < math.inf and now < math.inf):
            return own
        matches = own.selectivity * now / before
        # they are not measured apart
        seconds = own.seconds_per_tuple * (1 + _MATCH * matches) / (1 + _MATCH * own.selectivity)
        return replace(own, selectivity=matches, seconds_per_tuple=seconds)

    def _met(self, join: WindowJoin, passed: Mapping[str, float]) -> float:
        """Combinations of the other sides' tuples that an arriving one meets, on average."""
        coming = [self.rate_from(side.input, join.name, passed) for side in join.sides]
        held = [self._held(join.name, side, passed) for side in join.sides]
        others = [math.prod(held[:k] + held[k + 1 :]) for k in range(len(held))]
        total = sum(coming)
        return sum(c * o for c, o in zip(coming, others, strict=True)) / total if total > 0 else 0.0

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Processors that each operator keeps busy on average."""
        return {name: rate * self.seconds(name) for name, rate in self.arriving.items()}

    @property
    def busy_processors(self) -> float:
        return sum(self.busy.values())

    def seconds(self, operator: str) -> float:
        return self.profile[operator].seconds_per_tuple

    def keep_ratio(self, leaf: str) -> float:
        """The share that an operator over streams takes of what arrives."""
        return self._factor(self.keep_ratios, leaf)

    def reads_stream(self, operator: str) -> bool:
        return any(isinstance(source, StreamInput) for source in self.network.operators[operator].inputs)

    def leaf_rate(self, leaf: str) -> float:
        """Tuples per second that arrive at an operator straight from streams."""
        inputs = dict.fromkeys(self.network.operators[leaf].inputs)
        return sum(self.rate_from(source, leaf, {}) for source in inputs if isinstance(source, StreamInput))

    def at(self, rates: Mapping[str, float]) -> LoadModel:
        return replace(self, rates=rates, measured=self.measured or self)

    def scaled(self, factor: float) -> LoadModel:
        return self.at({stream: rate * factor for stream, rate in self.rates.items()})

    def off_by(self, errors: float) -> LoadModel:
        """The same load, with operators whose costs together are off by so many standard errors."""
        busy = self.busy_processors
        spread = math.hypot(
            *(rate * self.profile[n].seconds_per_tuple_error for n, rate in self.arriving.items())
        )
        factor = max(0.0, 1 + errors * spread / busy) if busy > 0 else 1.0
        profiles = {
            name: replace(own, seconds_per_tuple=factor * own.seconds_per_tuple)
            for name, own in self.profiles.items()
        }
        before = None if self.measured is None else replace(self.measured, profiles=profiles)
        return replace(self, profiles=profiles, measured=before)

    def shedding(self, query: str, share: float) -> LoadModel:
        ratios = {**self.keep_ratios, query: 1 - share}
        return replace(self, keep_ratios=ratios, measured=self.measured or self)

    def with_windows(self, query: str, factor: float) -> LoadModel:
        factors = {**self.window_factors, query: factor}
        return replace(self, window_factors=factors, measured=self.measured or self)

    def paths_of(self, query: str) -> tuple[tuple[str, ...], ...]:
        outputs = self.network.queries[query].outputs
        return tuple(path for output in outputs for path in self.network.paths_to(output))

    def state_tuples(self, operator: str) -> float:
        """Tuples that the operator's windows hold; inf where nothing bounds them, 0 without windows."""
        settings = self.network.operators[operator]
        sides: tuple[JoinSide | Aggregate, ...] = ()
        if isinstance(settings, WindowUpdate):
            sides = settings.sides
        elif isinstance(settings, Aggregate):
            sides = (settings,)
        held = sum((self._held(operator, side, self._flows[2]) for side in sides), 0.0)
        if isinstance(settings, OuterWindowJoin):
            factor = self._factor(self.window_factors, operator)
            for number, side in enumerate(settings.sides):
                held += self.rate_from(side.input, operator) * settings.longer_us(number) / 1e6 * factor
        return held

    def _streams_below(self, operator: str) -> frozenset[str]:
        inputs = self.network.operators[operator].inputs
        below = [self._streams_below(i.operator) for i in inputs if isinstance(i, OperatorInput)]
        return frozenset(i.stream for i in inputs if isinstance(i, StreamInput)).union(*below)

    def stream_of(self, path: tuple[str, ...]) -> str:
        """Where several streams begin, the fastest one."""
        return max(self._streams_below(path[0]), key=lambda stream: (self.rates[stream], stream))

    def index_of_dispersion(self, stream: str, seconds: float) -> float:
        """Of a stream in intervals of so many seconds."""
        return index_at(self.dispersions[stream], seconds) if stream in self.dispersions else 1.0

    def order_waits(self, path: tuple[str, ...]) -> tuple[tuple[float, float], ...]:
        """Streams whose next tuple an ordered path waits for: the rate, and how long at most if idle."""
        # the tuples of the fastest stream wait longest for the others
        own = {self.stream_of(path)}
        ordered = [name for name in path if is_ordered(self.network.operators[name])]
        others = frozenset[str]().union(*map(self._streams_below, ordered))
        streams = self.network.streams
        return tuple((self.rates[s], streams[s].idle_after_us / 1e6) for s in sorted(others - own))

    def rate_from(self, source: Input, reader: str, passed: Mapping[str, float] | None = None) -> float:
        """Tuples per second from an input; ``passed`` by other operators, as far as that is known yet."""
        if isinstance(source, OperatorInput):
            return (self._flows[2] if passed is None else passed)[source.operator]
        return self.rates[source.stream] * self.keep_ratio(reader)

    def _factor(self, factors: Mapping[str, float], operator: str) -> float:
        """Queries that share an operator get the largest of their factors."""
        if not factors:
            return 1.0
        return max((factors.get(query, 1.0) for query in self.network.queries_of(operator)), default=1.0)

    def _held(self, operator: str, side: JoinSide | Aggregate, passed: Mapping[str, float]) -> float:
        coming, window = self.rate_from(side.input, operator, passed), side.window
        factor = self._factor(self.window_factors, operator)
        if isinstance(window, TimeWindow):
            return coming * window.range_us / 1e6 * factor
        if isinstance(window, RowWindow):
            # rows count before selections; the number of keys is unknown, and taken as one
            rate = self.rates[side.stream]
            share = coming / rate if rate > 0 else 1.0
            return window.rows * factor * min(1.0, share)
        return math.inf


Work = Points
"""A distribution of processor time: (probability, seconds) each."""
_NONE: Work = ((1.0, 0.0),)


def work_by_operator(load: LoadModel, cuts: frozenset[tuple[str, str]] = frozenset()) -> Mapping[str, Work]:
    """The work of a tuple from each operator to the outputs, except behind one of ``cuts`` (from, to)."""
    found: dict[str, Work] = {}
    for name in reversed(list(load.network.operators)):
        profile = load.profile[name]
        readers = [reader for reader in load.network.readers(name) if (name, reader) not in cuts]
        copies = _copies(total_work(found[reader] for reader in readers), profile.selectivity)
        found[name] = tuple((p, s + profile.seconds_per_tuple) for p, s in copies)
    return found


@dataclass(frozen=True)
class TupleWork:
    """Processor time of a tuple: its mean and variance."""

    mean_s: float
    var_s: float


def work_by_stream(load: LoadModel) -> Mapping[str, TupleWork]:
    """The work of a tuple of each stream through all operators, by its moments alone."""
    found: dict[str, TupleWork] = {}
    for name in reversed(list(load.network.operators)):
        below = _together(found[reader] for reader in load.network.readers(name))
        selectivity = load.profile[name].selectivity
        share = selectivity % 1.0
        # of copies, each of which makes work of its own; their number is one of the whole numbers around it
        var_s = selectivity * below.var_s + share * (1 - share) * below.mean_s**2
        found[name] = TupleWork(load.seconds(name) + selectivity * below.mean_s, var_s)
    by_stream = {}
    for stream in load.rates:
        leaves = [(load.keep_ratio(leaf), found[leaf]) for leaf in load.network.leaves(stream)]
        by_stream[stream] = _together(
            TupleWork(keep * own.mean_s, keep * own.var_s + keep * (1 - keep) * own.mean_s**2)
            for keep, own in leaves
        )
    return by_stream


def _together(works: Iterable[TupleWork]) -> TupleWork:
    parts = list(works)
    return TupleWork(sum(part.mean_s for part in parts), sum(part.var_s for part in parts))


def mixture(parts: list[tuple[float, Work]]) -> Discrete:
    """The work of a tuple of several kinds, by their rates."""
    total = sum(rate for rate, _ in parts)
    shared = [(rate / total if total > 0 else 1 / len(parts), work) for rate, work in parts]
    return Discrete(_collect((share * p, seconds) for share, work in shared for p, seconds in work))


def total_work(works: Iterable[Work]) -> Work:
    return reduce(_sum, works, _NONE)


def thin(work: Work, keep_ratio: float) -> Work:
    """The work of a tuple that shedding may drop before."""
    return work if keep_ratio == 1 else ((1 - keep_ratio, 0.0), *((keep_ratio * p, s) for p, s in work))


def _copies(work: Work, selectivity: float) -> Work:
    """A tuple survives with its selectivity; above 1 it becomes one of the whole numbers around it."""
    whole = math.floor(selectivity)
    if whole >= _MOST_COPIES:
        mean = sum(p * s for p, s in work)
        return ((1.0, mean * selectivity),)
    several = total_work([work] * whole)
    share = selectivity - whole
    if share == 0:
        return several
    kinds = ((1 - share, several), (share, _sum(several, work)))
    return _collect((weight * p, seconds) for weight, kind in kinds for p, seconds in kind)


def _sum(one: Work, other: Work) -> Work:
    if other == _NONE:
        return one
    return _collect((p * q, a + b) for p, a in one for q, b in other)


def _collect(points: Iterable[tuple[float, float]]) -> Points:
    """Add the probabilities of equal times; many different times are moved to equal steps."""
    merged: dict[float, float] = {}
    for probability, time_s in points:
        merged[time_s] = merged.get(time_s, 0.0) + probability
    if len(merged) <= _MOST_EXACT:
        return tuple((p, s) for s, p in sorted(merged.items()))
    seconds, chances = np.array(list(merged)), np.array(list(merged.values()))
    step_s = seconds.max() / _STEPS
    below = np.minimum(np.floor(seconds / step_s), _STEPS - 1).astype(np.int64)
    share = seconds / step_s - below
    on_steps = np.bincount(below, chances * (1 - share), _STEPS + 1)
    on_steps += np.bincount(below + 1, chances * share, _STEPS + 1)
    return tuple((float(p), float(k * step_s)) for k, p in enumerate(on_steps) if p > 0)
