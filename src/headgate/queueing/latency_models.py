"""Latency models: how processors serve a load, and the latency and memory that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headgate.model.operator_inputs import Input, StreamInput
from headgate.queueing.load_model import LoadModel, mixture, thin, total_work, work_by_operator
from headgate.queueing.mg1 import MG1
from headgate.queueing.prediction import (
    Delay,
    LatencyDistribution,
    LoadPrediction,
    QueueDelay,
    fixed,
    in_order,
    order_delay,
    prediction_of,
)
from headgate.queueing.service_times import Overloaded, ParameterError, check_busy, check_processors, constant
from headgate.queueing.tick_model import InTicks


@dataclass(frozen=True)
class OnServer:
    """A pool of processors, first in first out: a tuple passes all of its operators before the next one.

    With one processor this is an M/G/1 queue whose service is all the work that a tuple makes. With several,
    the wait is that of one server as fast as all of them, as much rarer as in M/M/k.
    """

    processors: int = 1

    def __post_init__(self) -> None:
        check_processors(self.processors)

    def with_processors(self, processors: int) -> OnServer:
        return OnServer(processors)

    def predict(self, load: LoadModel) -> LoadPrediction:
        check_busy(load.busy_processors, self.processors)
        work = {name: thin(own, load.keep_ratio(name)) for name, own in work_by_operator(load).items()}
        leaves = {stream: load.network.leaves(stream) for stream in load.rates}
        parts = [(rate, total_work(work[n] for n in leaves[stream])) for stream, rate in load.rates.items()]
        queue = MG1(sum(rate for rate, _ in parts), mixture(parts).faster(self.processors))
        chance = waiting_share(self.processors, queue.utilisation)
        before_s = _sibling_seconds(load) if self.processors == 1 else {}
        served_s = {name: load.seconds(name) + before_s.get(name, 0.0) for name in load.network.operators}

        def latency(path: tuple[str, ...]) -> LatencyDistribution:
            served = sum(served_s[name] for name in path)
            return in_order(QueueDelay(queue, served, chance), load, path)

        delays = {
            # a tuple waits once, at the operator over its stream
            name: QueueDelay(queue, seconds, chance).delay if load.reads_stream(name) else fixed(seconds)
            for name, seconds in served_s.items()
        }
        return prediction_of(load, queue.utilisation, delays, latency)


@dataclass(frozen=True)
class OwnServers:
    """A server for each operator, or as many as ``servers`` each.

    Operators over streams are M/D/1 queues. Further on, arrivals are described by their squared coefficient
    of variation, as it changes by a queue, by splitting and by merging (Whitt's approximation), and the wait
    is Kraemer and Langenbach-Belz's.
    """

    servers: int = 1

    def __post_init__(self) -> None:
        check_processors(self.servers)

    def with_processors(self, processors: int) -> OwnServers:
        return OwnServers(processors)

    def predict(self, load: LoadModel) -> LoadPrediction:
        variability: dict[str, float] = {}
        delays: dict[str, Delay] = {}
        for name in load.network.operators:
            utilisation = load.busy[name] / self.servers
            if utilisation >= 1:
                raise Overloaded(utilisation, f"operator {name}")
            arriving = self._arriving(load, name, variability)
            delays[name] = self._wait(load, name, arriving) + fixed(load.seconds(name))
            # service is constant
            leaving = 1 + (1 - utilisation**2) * (arriving - 1) - utilisation**2 / math.sqrt(self.servers)
            variability[name] = max(0.0, leaving)

        def latency(path: tuple[str, ...]) -> Delay:
            return sum((delays[name] for name in path), order_delay(load, path))

        busiest = max((busy / self.servers for busy in load.busy.values()), default=0.0)
        return prediction_of(load, busiest, delays, latency)

    @staticmethod
    def _arriving(load: LoadModel, name: str, variability: dict[str, float]) -> float:
        """Squared coefficient of variation of the time between arrivals, merged by rates."""
        total = weighted = 0.0
        for source in dict.fromkeys(load.network.operators[name].inputs):
            rate, squared = load.rate_from(source, name), 1.0
            if not isinstance(source, StreamInput):
                selectivity = load.profile[source.operator].selectivity
                # of a stream from which a share is picked, or of which each tuple becomes several at once
                squared = selectivity * variability[source.operator] + abs(1 - selectivity)
            total += rate
            weighted += rate * squared
        return weighted / total if total > 0 else 1.0

    def _wait(self, load: LoadModel, name: str, arriving: float) -> Delay:
        queue = MG1(load.arriving[name], constant(load.seconds(name) / self.servers))
        utilisation = queue.utilisation
        if utilisation == 0:
            return fixed(0.0)
        share = waiting_share(self.servers, utilisation)
        factor = arriving
        if 0 < arriving < 1:
            # even arrivals wait still less than their variability suggests
            factor *= math.exp(-2 * (1 - utilisation) * (1 - arriving) ** 2 / (3 * utilisation * arriving))
        mean_s = share * factor * queue.mean_wait
        # as variable as behind Poisson arrivals
        second = share * factor**2 * (queue.var_wait + queue.mean_wait**2)
        return Delay.of(mean_s, second, max(0.0, 1 - share * utilisation))


# from a stream or operator to an operator
Edge = tuple[str, str]


@dataclass(frozen=True)
class ByPriority:
    """Operators of the lowest ``levels`` go first; a tuple in service is not interrupted.

    A tuple that arrives at an operator of the same or a lower level than the one it leaves goes on at once.
    Where the level rises it waits, as a class of Cobham's formula. As an approximation, tuples arrive there
    as a Poisson stream, and waits are independent.
    """

    levels: Mapping[str, int]
    processors: int = 1

    def __post_init__(self) -> None:
        check_processors(self.processors)

    def with_processors(self, processors: int) -> ByPriority:
        return ByPriority(self.levels, processors)

    def predict(self, load: LoadModel) -> LoadPrediction:
        for name in load.network.operators:
            if name not in self.levels:
                raise ParameterError(f"operator {name} has no priority; give every operator a level")
        check_busy(load.busy_processors, self.processors)
        waits = _Classes(load, self.levels, self.processors).waits()
        delays = {name: _before(load, name, waits) for name in load.network.operators}
        utilisation = load.busy_processors / self.processors
        return prediction_of(load, utilisation, delays, lambda path: _along(load, path, waits))


def _along(load: LoadModel, path: tuple[str, ...], waits: Mapping[Edge, Delay]) -> Delay:
    """All waits and services on a path, from the stream that its first operator waits longest for."""
    edges = [(_name_of(source), path[0]) for source in load.network.operators[path[0]].inputs]
    first = max((waits[edge] for edge in edges if edge in waits), key=lambda delay: delay.mean_s)
    further = [waits.get(edge, fixed(0.0)) for edge in pairwise(path)]
    served = fixed(sum(load.seconds(name) for name in path))
    return sum((first, *further, served), order_delay(load, path))


def _before(load: LoadModel, name: str, waits: Mapping[Edge, Delay]) -> Delay:
    mean_s = squared = none = total = 0.0
    for source in dict.fromkeys(load.network.operators[name].inputs):
        wait, rate = waits.get((_name_of(source), name), fixed(0.0)), load.rate_from(source, name)
        total += rate
        mean_s += rate * wait.mean_s
        squared += rate * (wait.var_s + wait.mean_s**2)
        none += rate * wait.chance_none
    wait = Delay.of(mean_s / total, squared / total, none / total) if total else fixed(0.0)
    return wait + fixed(load.seconds(name))


def _name_of(source: Input) -> str:
    return source.stream if isinstance(source, StreamInput) else source.operator


class _Classes:
    """Classes of Cobham's formula: they begin at streams, and where the level rises; grouped by source."""

    def __init__(self, load: LoadModel, levels: Mapping[str, int], processors: int) -> None:
        self._load, self._levels, self._processors = load, levels, processors
        rates: dict[str, float] = {}
        edges: dict[str, list[Edge]] = {}
        for name, operator in load.network.operators.items():
            for source in dict.fromkeys(operator.inputs):
                is_stream = isinstance(source, StreamInput)
                if is_stream or levels[_name_of(source)] < levels[name]:
                    origin = _name_of(source)
                    edges.setdefault(origin, []).append((origin, name))
                    # a query may shed some of what a stream brings
                    rates[origin] = load.rates[origin] if is_stream else load.rate_from(source, name)
        self._groups = [(rates[origin], own) for origin, own in edges.items()]
        self._cuts = frozenset(edge for _, own in self._groups for edge in own)
        self._work = {
            name: thin(work, load.keep_ratio(name) if load.leaf_rate(name) else 1.0)
            for name, work in work_by_operator(load, self._cuts).items()
        }

    def waits(self) -> dict[Edge, Delay]:
        return {edge: self._wait(edge, edges) for _, edges in self._groups for edge in edges}

    def _wait(self, edge: Edge, together_with: Sequence[Edge]) -> Delay:
        """Cobham's mean and second moment; then the tuple's own copies that go first."""
        k, level = self._processors, self._levels[edge[1]]
        before, up_to = self._utilisation(level - 1), self._utilisation(level)
        second_before, second_up_to = self._squares(level - 1, 2), self._squares(level, 2)
        # less urgent work ends with the operator in service
        second = self._in_service(level, 2) + second_up_to
        third = self._in_service(level, 3) + self._squares(level, 3)
        idle_before, idle = 1 - before, 1 - up_to
        mean_s = second / (2 * idle_before * idle)
        squared = (
            third / (3 * idle_before**2 * idle)
            + second * second_up_to / (2 * idle_before**2 * idle**2)
            + second * second_before / (2 * idle_before**3 * idle)
        )
        utilisation = self._load.busy_processors / k
        share = waiting_share(k, utilisation)
        wait = Delay.of(share * mean_s, share * squared, max(0.0, 1 - share * utilisation))
        first = [e for e in together_with if self._levels[e[1]] < level and e != edge] if k == 1 else []
        copies_s = sum(p * s for e in first for p, s in self._work[e[1]])
        return wait + fixed(copies_s / idle_before)

    def _squares(self, level: int, power: int) -> float:
        """Work of up to a level that arrives at once, to a power, per second."""
        total = 0.0
        for rate, edges in self._groups:
            urgent = total_work(self._work[reader] for _, reader in edges if self._levels[reader] <= level)
            total += rate * sum(p * (s / self._processors) ** power for p, s in urgent)
        return total

    def _utilisation(self, level: int) -> float:
        """Utilisation by classes of up to a level, with all that follows at once behind them."""
        return sum(
            rate * sum(p * s for p, s in self._work[reader]) / self._processors
            for rate, edges in self._groups
            for _, reader in edges
            if self._levels[reader] <= level
        )

    def _in_service(self, level: int, power: int) -> float:
        """Services of classes above a level, to a power, per second: operator by operator."""
        total = 0.0
        for rate, edges in self._groups:
            for origin, reader in edges:
                if self._levels[reader] > level:
                    ratio = self._load.keep_ratio(reader) if origin in self._load.rates else 1.0
                    total += rate * ratio * self._services(reader, power)
        return total

    def _services(self, operator: str, power: int) -> float:
        own = (self._load.seconds(operator) / self._processors) ** power
        further = sum(
            self._services(reader, power)
            for reader in self._load.network.readers(operator)
            if (operator, reader) not in self._cuts
        )
        return own + self._load.profile[operator].selectivity * further


# predicts latency and memory of a load; raises ``Overloaded`` where queues grow without end
LatencyModel = OnServer | InTicks | OwnServers | ByPriority


def waiting_share(processors: int, utilisation: float) -> float:
    """How much rarer a wait is in a pool than at one server as fast: Erlang's C over the utilisation."""
    if utilisation <= 0:
        return 0.0
    offered, blocked = processors * utilisation, 1.0
    for servers in range(1, processors + 1):
        blocked = offered * blocked / (servers + offered * blocked)
    waiting = blocked / (1 - utilisation * (1 - blocked))
    return waiting / utilisation


def _sibling_seconds(load: LoadModel) -> Mapping[str, float]:
    """Time that one processor spends on other copies of a tuple first: those nearest to the output."""
    network = load.network
    before_s: dict[str, float] = {}
    total_s: dict[str, float] = {}
    for name in reversed(list(network.operators)):
        below = sum(total_s[reader] for reader in network.readers(name))
        total_s[name] = load.seconds(name) + load.profile[name].selectivity * below
    groups = [network.leaves(stream) for stream in network.streams]
    groups += [network.readers(name) for name in network.operators]
    for group in groups:
        passed_s = 0.0
        for name in sorted(group, key=lambda n: (len(network.path_from(n)), n)):
            # of several inputs, each brings some of the tuples
            before_s[name] = before_s.get(name, 0.0) + passed_s / len(network.operators[name].inputs)
            passed_s += total_s[name]
    for name in network.operators:
        selectivity = load.profile[name].selectivity
        if selectivity > 1:
            # of several results of one tuple, each goes all its way before the next
            share, whole = math.modf(selectivity)
            pairs = (1 - share) * whole * (whole - 1) + share * (whole + 1) * whole
            for reader in network.readers(name):
                others_s = pairs / 2 / selectivity * total_s[reader]
                before_s[reader] += others_s / len(network.operators[reader].inputs)
    return before_s
