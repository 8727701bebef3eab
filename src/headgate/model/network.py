"""A network: operators joined by queues, one before every operator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from headgate.errors import InternalError, SetupError, known_names
from headgate.model.operator import Operator, OperatorInput, StreamInput
from headgate.model.pool import FunctionDefinition, PoolDefinition
from headgate.model.schema import Schema
from headgate.model.shedding import Utility

# splitting and joining again doubles the ways each time
_MOST_PATHS = 10_000


@dataclass(frozen=True)
class StreamDefinition:
    """A stream as declared: where its tuples come from and how they are stamped.

    ``timestamp`` names the column that carries the event time; None means: stamped on arrival.
    """

    name: str
    format: str
    schema: Schema | None
    options: tuple[tuple[str, str], ...] = ()
    timestamp: str | None = None
    slack_us: int = 0
    idle_after_us: int = 10_000_000
    max_ahead_us: int = 366 * 86_400 * 1_000_000
    """A timestamp further ahead of the clock is bad: no clock is off by a year."""


@dataclass(frozen=True)
class RelationDefinition:
    """A stored relation as declared."""

    name: str
    format: str
    schema: Schema | None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SinkDefinition:
    """Where results go; ``format`` is Spark's word, or console, memory, callback."""

    format: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class QueryDefinition:
    """A query's place in the network: the last operator of each branch, its sink, its QoS."""

    name: str
    outputs: tuple[str, ...]
    sink: SinkDefinition
    latency_s: float | None = None
    memory_bytes: int | None = None
    overload: str = "backpressure"
    utility: Utility | None = None


class Network:
    """Operators in topological order. One with a cycle or a dangling input cannot be built."""

    def __init__(
        self,
        streams: tuple[StreamDefinition, ...],
        relations: tuple[RelationDefinition, ...],
        operators: tuple[Operator, ...],
        queries: tuple[QueryDefinition, ...],
        pools: tuple[PoolDefinition, ...] = (),
        functions: tuple[FunctionDefinition, ...] = (),
        shared: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.streams: Mapping[str, StreamDefinition] = {s.name: s for s in streams}
        self.relations: Mapping[str, RelationDefinition] = {r.name: r for r in relations}
        self.queries: Mapping[str, QueryDefinition] = {q.name: q for q in queries}
        self.pools: Mapping[str, PoolDefinition] = {p.name: p for p in pools}
        self.functions: Mapping[str, FunctionDefinition] = {f.name: f for f in functions}
        self.operators: Mapping[str, Operator] = _in_topological_order(operators, self.streams)
        self.shared = shared
        """Operators whose work another one does: theirs, and the one that runs."""
        self._readers: dict[str, tuple[str, ...]] = {name: () for name in self.operators}
        for operator in self.operators.values():
            for source in operator.inputs:
                if isinstance(source, OperatorInput):
                    self._readers[source.operator] += (operator.name,)
        self._paths_to: dict[str, tuple[tuple[str, ...], ...]] = {}
        for query in queries:
            for output in query.outputs:
                if output not in self.operators:
                    raise InternalError(f"query {query.name} ends in unknown operator {output}")
        self._works_for = {query.name: self._found_below(query.outputs) for query in queries}

    def changed(
        self,
        streams: tuple[StreamDefinition, ...] | None = None,
        operators: tuple[Operator, ...] | None = None,
        queries: tuple[QueryDefinition, ...] | None = None,
        shared: Mapping[str, str] | None = None,
    ) -> Network:
        """The network with other parts in place of those that are given."""
        return Network(
            tuple(self.streams.values()) if streams is None else streams,
            tuple(self.relations.values()),
            tuple(self.operators.values()) if operators is None else operators,
            tuple(self.queries.values()) if queries is None else queries,
            tuple(self.pools.values()),
            tuple(self.functions.values()),
            self.shared if shared is None else shared,
        )

    def running(self, operator: str) -> str:
        """The operator that does the work of this one: itself, or one that it shares with other queries."""
        return self.shared.get(operator, operator)

    def queries_of(self, operator: str) -> tuple[str, ...]:
        """The queries that an operator works for."""
        return tuple(query for query in self.queries if operator in self._works_for[query])

    def readers(self, operator: str) -> tuple[str, ...]:
        """The operators that take this operator's output."""
        return self._readers[operator]

    def is_output(self, operator: str) -> bool:
        """Whether the operator's output leaves the system."""
        return any(operator in query.outputs for query in self.queries.values())

    def path_from(self, operator: str) -> tuple[str, ...]:
        """The operators from this one to the output, along the first reader of each."""
        path = [operator]
        while readers := self.readers(path[-1]):
            path.append(readers[0])
        return tuple(path)

    def paths_to(self, operator: str) -> tuple[tuple[str, ...], ...]:
        """All ways from a stream to this operator, leaf first; above a join they share their operators."""
        if not self._paths_to:
            # in topological order: what lies below is known already
            for name in self.operators:
                self._paths_to[name] = self._ways_to(name)
        return self._paths_to[operator]

    def _ways_to(self, operator: str) -> tuple[tuple[str, ...], ...]:
        inputs = dict.fromkeys(self.operators[operator].inputs)
        below = [path for i in inputs if isinstance(i, OperatorInput) for path in self._paths_to[i.operator]]
        if len(below) > _MOST_PATHS:
            raise SetupError(
                f"more than {_MOST_PATHS:,} ways lead from streams to {operator}; split and join less often"
            )
        starts_here = any(isinstance(i, StreamInput) for i in inputs)
        return (*((*path, operator) for path in below), *[(operator,)] * starts_here)

    def paths(self) -> tuple[tuple[str, ...], ...]:
        """All ways from a stream to an operator whose output nobody reads."""
        return tuple(path for end in self.operators if not self.readers(end) for path in self.paths_to(end))

    def operators_of(self, query: str) -> tuple[str, ...]:
        """The operators that work for a query's results, inputs first."""
        return self._works_for[query]

    def _found_below(self, outputs: tuple[str, ...]) -> tuple[str, ...]:
        found = set(outputs)
        for name in reversed(list(self.operators)):
            if name in found:
                found |= {i.operator for i in self.operators[name].inputs if isinstance(i, OperatorInput)}
        return tuple(name for name in self.operators if name in found)

    def streams_of(self, query: str) -> frozenset[str]:
        """The streams that a query reads."""
        inputs = (i for name in self.operators_of(query) for i in self.operators[name].inputs)
        return frozenset(i.stream for i in inputs if isinstance(i, StreamInput))

    def utilities(self) -> dict[str, str]:
        """Expressions that say which tuples of a stream to keep first."""
        found: dict[str, str] = {}
        for query in self.queries.values():
            own = query.utility
            if own is not None and found.setdefault(own.stream, own.text) != own.text:
                both = f"{found[own.stream]} and {own.text}"
                raise SetupError(
                    f"stream {own.stream} has one drop box, not one by {both}; write one utility"
                )
        return found

    def sheddable(self) -> frozenset[str]:
        """The streams of which tuples may be dropped: all their queries say overload = 'shed'."""
        held = {s for q in self.queries.values() if q.overload != "shed" for s in self.streams_of(q.name)}
        return frozenset(self.streams) - held

    def leaves(self, stream: str) -> tuple[str, ...]:
        """The operators that read a stream directly."""
        return tuple(
            operator.name
            for operator in self.operators.values()
            if any(isinstance(i, StreamInput) and i.stream == stream for i in operator.inputs)
        )

    @property
    def fingerprint(self) -> str:
        """Changes with anything that makes an old checkpoint unusable."""
        parts = [*self.streams.values(), *self.operators.values()]
        described = "\n".join(_identity(part) for part in parts)
        return hashlib.sha256(described.encode()).hexdigest()[:16]


def _identity(part: StreamDefinition | Operator) -> str:
    if isinstance(part, StreamDefinition):
        # where a stream is read from may move; what its tuples are may not change
        return f"stream {part.name} {part.format} {part.schema} {part.timestamp}"
    return repr(part)


def _in_topological_order(
    operators: tuple[Operator, ...], streams: Mapping[str, StreamDefinition]
) -> dict[str, Operator]:
    by_name = {operator.name: operator for operator in operators}
    if len(by_name) != len(operators):
        raise InternalError("two operators of one name")
    graph: dict[str, set[str]] = {}
    for operator in operators:
        graph[operator.name] = set()
        for source in operator.inputs:
            if isinstance(source, StreamInput):
                if source.stream not in streams:
                    raise InternalError(
                        f"{operator.name} reads unknown stream {source.stream}; "
                        f"known: {known_names(list(streams))}"
                    )
            elif source.operator not in by_name:
                raise InternalError(f"{operator.name} reads unknown operator {source.operator}")
            else:
                graph[operator.name].add(source.operator)
    try:
        return {name: by_name[name] for name in TopologicalSorter(graph).static_order()}
    except CycleError as error:
        raise InternalError(f"operators form a cycle: {' -> '.join(error.args[1])}") from error
