"""What a plan is predicted to do: per operator, per path, per query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.queueing.delay import Delay, Latency
from headgate.queueing.plan import Plan


@dataclass(frozen=True)
class OperatorFigures:
    """One operator: ``delay`` is from a tuple's coming into its queue to its being done."""

    operator: str
    tuples_per_s: float
    utilisation: float
    """Processors that it keeps busy."""
    delay: Delay | Latency
    tuples: float
    """In its queue and in service, on average."""
    bytes: float
    state_bytes: float
    """In its windows; counted apart."""


@dataclass(frozen=True)
class PathFigures:
    """One way from a stream to a query's output."""

    query: str
    operators: tuple[str, ...]
    latency: Latency


@dataclass(frozen=True)
class PlanFigures:
    """A whole plan under one model of latency."""

    utilisation: float
    """Of all processors together, or of the busiest where each operator has its own."""
    operators: Mapping[str, OperatorFigures]
    paths: tuple[PathFigures, ...]
    memory: Mapping[str, Delay]
    """Bytes in the queues of each query, as a distribution."""

    def paths_of(self, query: str) -> tuple[PathFigures, ...]:
        """The paths of a query."""
        return tuple(path for path in self.paths if path.query == query)

    def latency_s(self, query: str, percentile: float) -> float:
        """What the slowest path of a query stays within."""
        return max((path.latency.percentile(percentile) for path in self.paths_of(query)), default=0.0)

    def queue_bytes(self, query: str, percentile: float) -> float:
        """What the queues of a query stay within."""
        return self.memory[query].percentile(percentile)

    def queue_tuples(self, plan: Plan, query: str) -> float:
        """Tuples in the queues of a query, on average."""
        return sum(self.operators[name].tuples for name in plan.network.operators_of(query))

    def state_bytes(self, plan: Plan, query: str) -> float:
        """Bytes in the windows of a query."""
        return sum(self.operators[name].state_bytes for name in plan.network.operators_of(query))


def put_together(
    plan: Plan, utilisation: float, delays: Mapping[str, Delay], paths: tuple[PathFigures, ...]
) -> PlanFigures:
    """Queue lengths and memory from what each operator's tuples wait and are served."""
    operators = {}
    for name, delay in delays.items():
        tuples = plan.arriving[name] * delay.mean_s
        width = plan.profile[name].bytes_per_tuple
        state_tuples = plan.state_tuples(name)
        operators[name] = OperatorFigures(
            name,
            plan.arriving[name],
            plan.loads[name],
            delay,
            tuples,
            tuples * width,
            state_tuples * width if state_tuples > 0 else 0.0,
        )
    memory = {query: _memory(plan, query, delays) for query in plan.network.queries}
    return PlanFigures(utilisation, operators, paths, memory)


def _memory(plan: Plan, query: str, delays: Mapping[str, Delay]) -> Delay:
    """Bytes in queues: a tuple leaves behind what came while it was there; queues swell together."""
    mean = counting = swelling = 0.0
    for name in plan.network.operators_of(query):
        rate, width, delay = plan.arriving[name], plan.profile[name].bytes_per_tuple, delays[name]
        mean += rate * delay.mean_s * width
        counting += rate * delay.mean_s * width**2
        swelling += rate * delay.var_s**0.5 * width
    return Delay(mean, counting + swelling**2)
