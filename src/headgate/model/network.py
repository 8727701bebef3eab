"""A network: operators connected by queues, with the streams, pools and queries it serves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from headgate.errors import InternalError, SetupError, known_names
from headgate.formats.html import html_table, listed, plural
from headgate.model.expression import Expression
from headgate.model.operator import Operator
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.productivity import Matches, key_matches
from headgate.model.shedding import Utility
from headgate.model.sql_tree import quote
from headgate.model.stored_select import StoredSelect

# splitting and joining again doubles the number of paths
_MOST_PATHS = 2_000
# operators on all paths to all operators
_MOST_STEPS = 5_000_000


@dataclass(frozen=True)
class Column:
    """A named column; ``type`` is Spark DDL text such as ``INT`` or ``ARRAY<STRING>``."""

    name: str
    type: str


@dataclass(frozen=True)
class Schema:
    """The columns of a stream or relation, in order; names match without regard to case."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        wanted = name.lower()
        return next((c for c in self.columns if c.name.lower() == wanted), None)

    @property
    def ddl(self) -> str:
        return ", ".join(f"{quote(c.name)} {c.type}" for c in self.columns)


@dataclass(frozen=True)
class PoolDefinition:
    """A pool that serves ``slots`` calls at a time."""

    name: str
    slots: int


@dataclass(frozen=True)
class FunctionDefinition:
    """A Python function: its Spark type, and its file or module unless it was registered from Python.

    An aggregate is called with all values of a group. ``in_processes``: it is CPU-bound, so concurrent calls
    on a pool are made in processes instead of threads.
    """

    name: str
    returns: str
    location: str | None = None
    is_aggregate: bool = False
    in_processes: bool = False

    @property
    def is_boolean(self) -> bool:
        return self.returns.strip().lower() in ("boolean", "bool")


@dataclass(frozen=True)
class ComputedColumn:
    """A column that is computed from those that the source brings, where it is read."""

    name: str
    type: str
    value: Expression
    """Over the columns of the source, in the declared type."""


@dataclass(frozen=True)
class StreamDefinition:
    """A stream as declared; tuples without a ``timestamp`` column get their arrival time."""

    name: str
    format: str
    schema: Schema | None
    options: tuple[tuple[str, str], ...] = ()
    timestamp: str | None = None
    watermark_delay_us: int = 0
    idle_after_us: int = 10_000_000
    max_ahead_us: int = 366 * 86_400 * 1_000_000
    """A timestamp further ahead of the clock is bad: no clock is a year off."""
    # no part of fingerprints: expressions of operators tell what is computed
    computed: tuple[ComputedColumn, ...] = field(default=(), repr=False)
    primary_key: tuple[str, ...] = field(default=(), repr=False)

    @property
    def columns(self) -> Schema | None:
        """All columns that a query can read, if they are known; computed ones come last."""
        if self.schema is None:
            return None
        computed = (Column(column.name, column.type) for column in self.computed)
        return Schema((*self.schema.columns, *computed))


@dataclass(frozen=True)
class RelationDefinition:
    """A stored relation as declared; with ``refresh_us``, it is read again when so much time has passed.

    One with ``selects`` is computed from others, by SELECTs of which it is the union.
    """

    name: str
    format: str
    schema: Schema | None
    options: tuple[tuple[str, str], ...] = ()
    refresh_us: int | None = None
    selects: tuple[StoredSelect, ...] = field(default=(), repr=False)


SINK_MODES = ("append", "latest", "changes")
"""What sinks take: all results, the current rows, or all changes of these."""


@dataclass(frozen=True)
class SinkDefinition:
    """Where results go; ``format`` is one of Spark, or console, memory, callback."""

    format: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def timestamp(self) -> str | None:
        """The name of the column with the timestamp of a result; None if it is left out."""
        given = next((value for key, value in self.options if key == "timestamp"), "ts")
        return None if given.strip().lower() == "none" else given.strip()

    @property
    def mode(self) -> str:
        """``append`` for all results, ``latest`` for current rows, ``changes`` for every change of these."""
        return next((value for key, value in self.options if key == "mode"), "append").strip().lower()

    @property
    def is_latest(self) -> bool:
        """Whether it holds the current row of every key, rather than all results."""
        return self.mode == "latest"

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns by whose values files are put into folders."""
        given = next((value for key, value in self.options if key == "partitionBy"), "")
        return tuple(name.strip() for name in given.split(",") if name.strip())


@dataclass(frozen=True)
class QueryDefinition:
    """A query of the network: the last operator of each branch, its sink and quality of service."""

    name: str
    outputs: tuple[str, ...]
    sink: SinkDefinition
    latency_s: float | None = None
    memory_bytes: int | None = None
    overload: str = "backpressure"
    utility: Utility | None = None
    on_error: str = "set aside"
    """What happens to tuples for which an expression fails: they are set aside, or the run stops."""
    start: str = "now"
    """Where it begins if others run already: with the next tuples, or with what logs of streams hold."""


class Network:
    """Operators in topological order. A network with a cycle or a dangling input cannot be built."""

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
        """Operators that do not run themselves, and the equal operator that runs for each."""
        readers: dict[str, list[str]] = {name: [] for name in self.operators}
        for operator in self.operators.values():
            for source in operator.inputs:
                if isinstance(source, OperatorInput):
                    readers[source.operator].append(operator.name)
        self._readers = {name: tuple(own) for name, own in readers.items()}
        self._works_for = {query.name: self._below(query) for query in queries}

    def changed(
        self,
        streams: tuple[StreamDefinition, ...] | None = None,
        operators: tuple[Operator, ...] | None = None,
        queries: tuple[QueryDefinition, ...] | None = None,
        shared: Mapping[str, str] | None = None,
    ) -> Network:
        return Network(
            tuple(self.streams.values()) if streams is None else streams,
            tuple(self.relations.values()),
            tuple(self.operators.values()) if operators is None else operators,
            tuple(self.queries.values()) if queries is None else queries,
            tuple(self.pools.values()),
            tuple(self.functions.values()),
            self.shared if shared is None else shared,
        )

    def __repr__(self) -> str:
        operators = plural(len(self.operators), "operator")
        queries = plural(len(self.queries), "query", "queries")
        return f"<Network of {operators} for {queries}: {listed(self.queries)}>"

    def _repr_html_(self) -> str:
        rows = (
            (name, str(o), ", ".join(map(str, o.inputs)), ", ".join(self.queries_of(name)))
            for name, o in self.operators.items()
        )
        return html_table(("operator", "does", "reads", "queries"), rows)

    def running(self, operator: str) -> str:
        """The operator that runs for this one: itself, or an equal one shared with other queries."""
        return self.shared.get(operator, operator)

    def queries_of(self, operator: str) -> tuple[str, ...]:
        return tuple(query for query in self.queries if operator in self._works_for[query])

    def readers(self, operator: str) -> tuple[str, ...]:
        return self._readers[operator]

    def is_output(self, operator: str) -> bool:
        return any(operator in query.outputs for query in self.queries.values())

    def path_from(self, operator: str) -> tuple[str, ...]:
        """The operators from this one to an output, along the first reader of each."""
        path = [operator]
        while readers := self.readers(path[-1]):
            path.append(readers[0])
        return tuple(path)

    def paths_to(self, operator: str) -> tuple[tuple[str, ...], ...]:
        """All paths from a stream to this operator, leaf first; above a join they share operators."""
        return self._paths_to[operator]

    @cached_property
    def _paths_to(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        found: dict[str, tuple[tuple[str, ...], ...]] = {}
        steps = 0
        # in topological order, so that the paths of inputs are known
        for name, operator in self.operators.items():
            inputs = dict.fromkeys(operator.inputs)
            below = [path for i in inputs if isinstance(i, OperatorInput) for path in found[i.operator]]
            steps += sum(map(len, below))
            if len(below) > _MOST_PATHS:
                many = f"more than {_MOST_PATHS:,} paths lead from streams to {name}"
                raise SetupError(f"{many}; split and join less often")
            if steps > _MOST_STEPS:
                long = f"paths from streams to {name} and before it have over {_MOST_STEPS:,} steps in all"
                raise SetupError(f"{long}; write fewer operators in a row")
            starts_here = any(isinstance(i, StreamInput) for i in inputs)
            found[name] = (*((*path, name) for path in below), *[(name,)] * starts_here)
        return found

    def paths(self) -> tuple[tuple[str, ...], ...]:
        """All paths from a stream to an operator that no other one reads."""
        return tuple(path for end in self.operators if not self.readers(end) for path in self.paths_to(end))

    def operators_of(self, query: str) -> tuple[str, ...]:
        """The operators that a query's results depend on, inputs first."""
        return self._works_for[query]

    def _below(self, query: QueryDefinition) -> tuple[str, ...]:
        found = set(query.outputs)
        if unknown := found - self.operators.keys():
            raise InternalError(f"query {query.name} ends in unknown operator {', '.join(unknown)}")
        for name in reversed(list(self.operators)):
            if name in found:
                found |= {i.operator for i in self.operators[name].inputs if isinstance(i, OperatorInput)}
        return tuple(name for name in self.operators if name in found)

    def streams_of(self, query: str) -> frozenset[str]:
        inputs = (i for name in self.operators_of(query) for i in self.operators[name].inputs)
        return frozenset(i.stream for i in inputs if isinstance(i, StreamInput))

    def utilities(self) -> dict[str, str]:
        """The utility expressions of streams, which rank the tuples to keep."""
        found: dict[str, str] = {}
        given = [(query.name, query.utility) for query in self.queries.values() if query.utility]
        ranked = [(stream, own.text) for query, own in given for stream in self._ranked_by(query, own)]
        for stream, text in ranked:
            if found.setdefault(stream, text) != text:
                one = f"one by {found[stream]} and {text}"
                raise SetupError(f"stream {stream} has one drop box, not {one}; write one utility")
        return found

    def _ranked_by(self, query: str, utility: Utility) -> Iterable[str]:
        """The streams whose tuples a utility ranks."""
        if utility.stream:
            return (utility.stream,)
        streams = self.key_matches(query).keys() & self.streams.keys()
        if not streams:
            problem = f"query {query} joins no windows of streams on equal keys, which {utility.text} counts"
            raise SetupError(f"{problem}; write another utility, or leave it out")
        return sorted(streams)

    def key_matches(self, query: str) -> Matches:
        """By stream, the keys that decide how many matches its tuples find in the joins of a query."""
        return key_matches({name: self.operators[name] for name in self.operators_of(query)})

    def productivity(self) -> Matches:
        """The same, of the streams whose tuples are ranked by it: what the queries that ask for it join."""
        found: Matches = {}
        by_utility = [q.name for q in self.queries.values() if q.utility and not q.utility.stream]
        for stream, sides in (pair for name in by_utility for pair in self.key_matches(name).items()):
            own = found.setdefault(stream, [])
            own += [matches for matches in sides if matches not in own]
        return found

    def sheddable(self) -> frozenset[str]:
        """The streams whose tuples may be dropped: all their queries have overload = 'shed'."""
        held = {s for q in self.queries.values() if q.overload != "shed" for s in self.streams_of(q.name)}
        return frozenset(self.streams) - held

    def leaves(self, stream: str) -> tuple[str, ...]:
        return tuple(
            operator.name
            for operator in self.operators.values()
            if any(isinstance(i, StreamInput) and i.stream == stream for i in operator.inputs)
        )

    @property
    def fingerprint(self) -> str:
        """Changes whenever an old checkpoint becomes unusable."""
        # the location of a stream may change, the definition of its tuples may not
        streams = [f"stream {s.name} {s.format} {s.schema} {s.timestamp}" for s in self.streams.values()]
        return _hashed("\n".join([*streams, *map(repr, self.operators.values())]))

    def definition(self, operator: str) -> str:
        """Changes whenever an old measurement of an operator is no longer valid for it."""
        return _hashed(repr(self.operators[operator]))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _in_topological_order(
    operators: tuple[Operator, ...], streams: Mapping[str, StreamDefinition]
) -> dict[str, Operator]:
    by_name = {operator.name: operator for operator in operators}
    if len(by_name) != len(operators):
        raise InternalError("two operators of one name")
    graph: dict[str, set[str]] = {name: set() for name in by_name}
    for operator in operators:
        for source in operator.inputs:
            if isinstance(source, OperatorInput):
                graph[operator.name].add(source.operator)
                if source.operator not in by_name:
                    raise InternalError(f"{operator.name} reads unknown operator {source.operator}")
            elif source.stream not in streams:
                known = known_names(streams)
                raise InternalError(f"{operator.name} reads unknown stream {source.stream}; known: {known}")
    try:
        return {name: by_name[name] for name in TopologicalSorter(graph).static_order()}
    except CycleError as error:
        raise InternalError(f"operators form a cycle: {' -> '.join(error.args[1])}") from error
