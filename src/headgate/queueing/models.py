"""Models of latency: how the processors of a plan work, and what follows for its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from headgate.model.operator import StreamInput
from headgate.model.tick import TickCosts
from headgate.queueing.delay import Latency, QueueDelay, Uniform, fixed, order_delay
from headgate.queueing.faults import Overloaded, WrongFigure, check_amount
from headgate.queueing.figures import PathFigures, PlanFigures, put_together
from headgate.queueing.mg1 import MG1
from headgate.queueing.plan import Plan
from headgate.queueing.work import mixture, thinned, together, work_of

# wall-clock seconds of a processor second that count as none
_NO_TIME = 1e-9


class LatencyModel(Protocol):
    """Turns a plan into figures."""

    def figures(self, plan: Plan) -> PlanFigures:
        """All figures; raises ``Overloaded`` where queues grow without end."""
        ...

    def with_processors(self, processors: int) -> LatencyModel:
        """The same with another number of processors."""
        ...


@dataclass(frozen=True)
class OnServer:
    """A pool of processors, first in first out: a tuple goes through all of its operators before the next.

    With one processor this is an M/G/1 queue whose service is all the work that a tuple makes. With several,
    the wait is that of a server as fast as all of them, as much rarer as in M/M/k.
    """

    processors: int = 1

    def __post_init__(self) -> None:
        check_processors(self.processors)

    def with_processors(self, processors: int) -> OnServer:
        """The same with another number of processors."""
        return OnServer(processors)

    def figures(self, plan: Plan) -> PlanFigures:
        """All figures; raises ``Overloaded`` where queues grow without end."""
        check_load(plan.load, self.processors)
        work = work_of(plan)
        parts = []
        for stream, rate in plan.rates.items():
            leaves = plan.network.leaves(stream)
            parts.append((rate, together([thinned(work[leaf], plan.kept_by(leaf)) for leaf in leaves])))
        queue = MG1(sum(rate for rate, _ in parts), mixture(parts).faster(self.processors))
        chance = waiting_share(self.processors, queue.utilisation)
        before_s = _sibling_seconds(plan) if self.processors == 1 else {}
        paths = tuple(
            PathFigures(query, path, self._latency(plan, path, queue, chance, before_s))
            for query in plan.network.queries
            for path in plan.paths_of(query)
        )
        delays = {}
        for name, operator in plan.network.operators.items():
            # who has come so far is not made to wait again
            from_stream = any(isinstance(source, StreamInput) for source in operator.inputs)
            served_s = plan.seconds(name) + before_s.get(name, 0.0)
            delays[name] = QueueDelay(queue, served_s, chance).delay if from_stream else fixed(served_s)
        return put_together(plan, queue.utilisation, delays, paths)

    @staticmethod
    def _latency(
        plan: Plan, path: tuple[str, ...], queue: MG1, chance: float, before_s: Mapping[str, float]
    ) -> Latency:
        seconds = sum(plan.seconds(name) + before_s.get(name, 0.0) for name in path)
        waits = QueueDelay(queue, seconds, chance)
        ordering = order_delay(plan.order_waits(path))
        return waits if ordering is None else waits.delay + ordering


@dataclass(frozen=True)
class InTicks:
    """Micro-batches: a tick takes all that has come during the last one, and a fixed time beside.

    A tick takes ``overhead_s``, ``intake_s`` for each tuple that comes in, and the work of all of them, by
    all processors: ``efficiency`` is 1 where k of them take a k-th of the time. So ticks become as long as
    overhead / (1 - utilisation). A tuple comes somewhere in one tick and is done at the end of the next.
    """

    overhead_s: float
    processors: int = 1
    intake_s: float = 0.0
    efficiency: float = 1.0

    def __post_init__(self) -> None:
        check_amount("overhead_s", self.overhead_s)
        check_amount("intake_s", self.intake_s)
        check_processors(self.processors)
        if check_amount("efficiency", self.efficiency) == 0:
            raise WrongFigure("efficiency = 0 is wrong; write a number above 0")

    @staticmethod
    def measured(costs: TickCosts) -> InTicks:
        """As ticks were measured: on as many processors as explain how long their work took."""
        if costs.work_s < _NO_TIME:
            # what tuples take was told by their number alone
            return InTicks(costs.empty_s, 1, costs.intake_s, 1 / _NO_TIME)
        processors = max(1, round(1 / costs.work_s))
        return InTicks(costs.empty_s, processors, costs.intake_s, 1 / (costs.work_s * processors))

    def with_processors(self, processors: int) -> InTicks:
        """The same with another number of processors."""
        return replace(self, processors=processors)

    @property
    def work_s(self) -> float:
        """Wall-clock seconds of a processor second of work."""
        return 1 / (self.processors * self.efficiency)

    def utilisation(self, plan: Plan) -> float:
        """Share of a tick that is not overhead."""
        return self.intake_s * sum(plan.rates.values()) + self.work_s * plan.load

    def tick_s(self, plan: Plan) -> float:
        """How long ticks become."""
        check_load(self.utilisation(plan) * self.processors, self.processors)
        return self.overhead_s / (1 - self.utilisation(plan))

    def figures(self, plan: Plan) -> PlanFigures:
        """All figures; raises ``Overloaded`` where ticks grow without end."""
        tick_s = self.tick_s(plan)
        done = Uniform(tick_s, 2 * tick_s)
        paths = []
        for query in plan.network.queries:
            for path in plan.paths_of(query):
                ordering = order_delay(plan.order_waits(path))
                latency = done if ordering is None else done.delay + ordering
                paths.append(PathFigures(query, path, latency))
        delays = {}
        for name, operator in plan.network.operators.items():
            # what a tick takes in goes through all operators in that tick
            from_stream = any(isinstance(source, StreamInput) for source in operator.inputs)
            delays[name] = done.delay if from_stream else fixed(plan.loads[name] * tick_s * self.work_s)
        return put_together(plan, self.utilisation(plan), delays, tuple(paths))


def check_processors(processors: int) -> None:
    """Refuse what is no number of processors."""
    if processors != int(processors) or processors < 1:
        raise WrongFigure(f"processors = {processors!r} is wrong; write a whole number of 1 or more")


def check_load(load: float, processors: int) -> None:
    """Raise if so many processors cannot do it."""
    if load / processors >= 1:
        what = "one processor" if processors == 1 else f"a pool of {processors} processors"
        raise Overloaded(load / processors, what)


def waiting_share(processors: int, utilisation: float) -> float:
    """How much rarer a wait is before a pool than before one server as fast: Erlang's C over the load."""
    if utilisation <= 0:
        return 0.0
    offered, blocked = processors * utilisation, 1.0
    for servers in range(1, processors + 1):
        blocked = offered * blocked / (servers + offered * blocked)
    waiting = blocked / (1 - utilisation * (1 - blocked))
    return waiting / utilisation


def _sibling_seconds(plan: Plan) -> dict[str, float]:
    """What one processor does for a tuple's other copies before each operator serves it, where paths part.

    Of equal age, the copy nearest to the output goes first.
    """
    before_s: dict[str, float] = {}
    total_s: dict[str, float] = {}
    for name in reversed(list(plan.network.operators)):
        below = sum(total_s[reader] for reader in plan.network.readers(name))
        total_s[name] = plan.seconds(name) + plan.profile[name].selectivity * below
    network = plan.network
    groups = [network.leaves(stream) for stream in network.streams]
    groups += [network.readers(name) for name in network.operators]
    for group in groups:
        passed_s = 0.0
        for name in sorted(group, key=lambda n: (len(network.path_from(n)), n)):
            # of several inputs, each brings some of the tuples
            before_s[name] = before_s.get(name, 0.0) + passed_s / len(network.operators[name].inputs)
            passed_s += total_s[name]
    for name in network.operators:
        # of several results of one tuple, each goes all its way before the next
        for reader in network.readers(name):
            others_s = _copies_before(plan.profile[name].selectivity) * total_s[reader]
            before_s[reader] += others_s / len(network.operators[reader].inputs)
    return before_s


def _copies_before(selectivity: float) -> float:
    """How many results of the same tuple go before one of them, on average."""
    if selectivity <= 1:
        return 0.0
    whole = int(selectivity)
    share = selectivity - whole
    pairs = (1 - share) * whole * (whole - 1) + share * (whole + 1) * whole
    return pairs / 2 / selectivity
