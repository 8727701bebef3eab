"""A whole plan as queueing sees it: what comes to each operator a second, and what each does to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from headgate.errors import known_names
from headgate.model.network import Network
from headgate.model.operator import (
    Aggregate,
    Input,
    JoinSide,
    OperatorInput,
    StreamInput,
    WindowJoin,
    WindowUpdate,
    is_ordered,
)
from headgate.model.profile import Profile, Profiles
from headgate.model.window import RowWindow, TimeWindow, Window
from headgate.queueing.faults import WrongFigure, check_amount


@dataclass(frozen=True)
class Plan:
    """A network, figures of its operators, and tuples a second of its streams.

    ``kept`` is the share of its input that a query keeps where it sheds some; ``window`` a factor on the
    length of all windows of a query. ``measured`` is the plan as it was when its profiles were taken, if that
    was another one: a join finds more matches the more its windows hold.
    """

    network: Network
    profiles: Profiles
    rates: Mapping[str, float]
    kept: Mapping[str, float] = field(default_factory=dict)
    window: Mapping[str, float] = field(default_factory=dict)
    measured: Plan | None = None

    def __post_init__(self) -> None:
        for stream in self.rates:
            if stream not in self.network.streams:
                known = known_names(list(self.network.streams))
                raise WrongFigure(f"no query reads a stream {stream}; known: {known}")
        for stream in self.network.streams:
            if stream not in self.rates:
                raise WrongFigure(f"no rate of stream {stream} is known; give its tuples a second")
            check_amount(f"rate of stream {stream}", self.rates[stream])
        for operator in self.network.operators:
            if operator not in self.profiles:
                raise WrongFigure(f"operator {operator} has no profile; headgate profile makes one")

    @property
    def profile(self) -> Mapping[str, Profile]:
        """Figures of every operator, with windows as full as they are here."""
        return self._figures[0]

    @property
    def arriving(self) -> Mapping[str, float]:
        """Tuples that come to each operator a second."""
        return self._figures[1]

    @cached_property
    def _figures(self) -> tuple[Mapping[str, Profile], Mapping[str, float], Mapping[str, float]]:
        """Profiles, what comes to each operator, and what it passes on."""
        profiles: dict[str, Profile] = {}
        arriving: dict[str, float] = {}
        passed: dict[str, float] = {}
        for name, operator in self.network.operators.items():
            coming = {source: self._from(source, name, passed) for source in operator.inputs}
            arriving[name] = sum(coming.values())
            profiles[name] = self.profiles[name]
            if isinstance(operator, WindowJoin) and self.measured is not None:
                profiles[name] = self._fuller(operator, passed, self.measured)
            passed[name] = arriving[name] * profiles[name].selectivity
        return profiles, arriving, passed

    def _fuller(self, join: WindowJoin, passed: Mapping[str, float], measured: Plan) -> Profile:
        """A join's figures with windows that hold more than when it was measured, or less."""
        own = self.profiles[join.name]
        before, now = measured._met(join, measured._figures[2]), self._met(join, passed)
        if not (0 < before < math.inf and now < math.inf):
            return own
        matches = own.selectivity * now / before
        # a match is taken to cost as much as the tuple itself: nobody has measured them apart
        seconds = own.seconds_per_tuple * (1 + matches) / (1 + own.selectivity)
        return replace(own, selectivity=matches, seconds_per_tuple=seconds)

    def _met(self, join: WindowJoin, passed: Mapping[str, float]) -> float:
        """Combinations of the other sides' tuples that an arriving one meets, on average."""
        coming = [self._from(side.input, join.name, passed) for side in join.sides]
        held = [self._held(join.name, side.input, side.stream, side.window, passed) for side in join.sides]
        others = [math.prod(held[:k] + held[k + 1 :]) for k in range(len(held))]
        total = sum(coming)
        return sum(c * o for c, o in zip(coming, others, strict=True)) / total if total > 0 else 0.0

    @cached_property
    def loads(self) -> Mapping[str, float]:
        """Processor seconds that each operator needs a second."""
        return {name: rate * self.seconds(name) for name, rate in self.arriving.items()}

    @property
    def load(self) -> float:
        """Processors that are busy on average."""
        return sum(self.loads.values())

    def seconds(self, operator: str) -> float:
        """What a tuple takes."""
        return self.profile[operator].seconds_per_tuple

    def kept_by(self, leaf: str) -> float:
        """The share that an operator over streams takes of what comes."""
        return self._factor(self.kept, leaf)

    def leaf_rate(self, leaf: str) -> float:
        """Tuples that come to an operator straight from streams."""
        inputs = dict.fromkeys(self.network.operators[leaf].inputs)
        return sum(self._from(source, leaf, {}) for source in inputs if isinstance(source, StreamInput))

    def rate_from(self, source: Input, reader: str) -> float:
        """Tuples that come to an operator from one of its inputs, a second."""
        return self._from(source, reader, self._figures[2])

    def at(self, rates: Mapping[str, float]) -> Plan:
        """The same at other rates."""
        return replace(self, rates=rates, measured=self.measured or self)

    def scaled(self, factor: float) -> Plan:
        """All rates times a factor."""
        return self.at({stream: rate * factor for stream, rate in self.rates.items()})

    def shedding(self, query: str, share: float) -> Plan:
        """A share of what comes to a query is dropped before it."""
        return replace(self, kept={**self.kept, query: 1 - share}, measured=self.measured or self)

    def with_windows(self, query: str, factor: float) -> Plan:
        """All windows of a query, a factor as long."""
        return replace(self, window={**self.window, query: factor}, measured=self.measured or self)

    def paths_of(self, query: str) -> tuple[tuple[str, ...], ...]:
        """All ways from a stream to the query's outputs."""
        outputs = self.network.queries[query].outputs
        return tuple(path for output in outputs for path in self.network.paths_to(output))

    def state_tuples(self, operator: str) -> float:
        """Tuples that the operator's windows hold; inf where nothing bounds them, 0 without windows."""
        settings = self.network.operators[operator]
        if isinstance(settings, WindowUpdate):
            sides: list[JoinSide | Aggregate] = list(settings.sides)
        elif isinstance(settings, Aggregate):
            sides = [settings]
        else:
            return 0.0
        passed = self._figures[2]
        return sum(self._held(operator, s.input, s.stream, s.window, passed) for s in sides)

    def streams_below(self, source: Input) -> frozenset[str]:
        """The streams that an input goes back to."""
        if isinstance(source, StreamInput):
            return frozenset({source.stream})
        inputs = self.network.operators[source.operator].inputs
        return frozenset().union(*(self.streams_below(below) for below in inputs))

    def order_waits(self, path: tuple[str, ...]) -> tuple[tuple[float, float], ...]:
        """Streams whose next tuple a path waits for: the rate, and how long a silent one is waited for.

        A join in timestamp order takes a tuple when nothing older can come any more on its other sides.
        """
        first = self.network.operators[path[0]].inputs
        # where several streams begin, the tuples of the liveliest wait longest for the others
        own = {max(frozenset().union(*map(self.streams_below, first)), key=lambda s: (self.rates[s], s))}
        others = frozenset[str]()
        for name in path:
            operator = self.network.operators[name]
            if is_ordered(operator):
                others |= frozenset().union(*(self.streams_below(source) for source in operator.inputs))
        streams = self.network.streams
        return tuple((self.rates[s], streams[s].idle_after_us / 1e6) for s in sorted(others - own))

    def _from(self, source: Input, reader: str, passed: Mapping[str, float]) -> float:
        if isinstance(source, OperatorInput):
            return passed[source.operator]
        return self.rates[source.stream] * self._factor(self.kept, reader)

    def _factor(self, factors: Mapping[str, float], operator: str) -> float:
        """What queries that share an operator agree on: the most that one of them wants."""
        if not factors:
            return 1.0
        return max((factors.get(query, 1.0) for query in self.network.queries_of(operator)), default=1.0)

    def _held(
        self, operator: str, source: Input, stream: str, window: Window, passed: Mapping[str, float]
    ) -> float:
        coming = self._from(source, operator, passed)
        factor = self._factor(self.window, operator)
        if isinstance(window, TimeWindow):
            return coming * window.range_us / 1e6 * factor
        if isinstance(window, RowWindow):
            # rows count before selections; with keys, for how many there are is not known: one
            share = coming / self.rates[stream] if self.rates[stream] > 0 else 1.0
            return window.rows * factor * min(1.0, share)
        return math.inf
