"""The logical plan: what a query means, as a tree of immutable nodes that prints itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headgate.model.expression import AggregateExpression, Expression, NamedExpression, column_of
from headgate.model.network import SinkDefinition
from headgate.model.shedding import Utility
from headgate.model.window import Window
from headgate.planning.tree import Json, Tree, conjunction, quality_of_service


@dataclass(frozen=True)
class StreamScan:
    """The tuples of a stream; ``columns`` are those of the stream, ``window`` is for what reads them."""

    stream: str
    alias: str
    columns: tuple[str, ...]
    window: Window

    @property
    def inputs(self) -> tuple[Node, ...]:
        """None."""
        return ()

    def __str__(self) -> str:
        return f"stream {_aliased(self.stream, self.alias)} {self.window} ({', '.join(self.columns)})"


@dataclass(frozen=True)
class RelationScan:
    """The rows of a stored relation."""

    relation: str
    alias: str
    columns: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """None."""
        return ()

    def __str__(self) -> str:
        return f"relation {_aliased(self.relation, self.alias)} ({', '.join(self.columns)})"


@dataclass(frozen=True)
class Filter:
    """The tuples for which every predicate holds."""

    input: Node
    predicates: tuple[Expression, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    @property
    def role(self) -> str:
        """What it is called as an operator of its query."""
        if isinstance(self.input, StreamScan):
            return f"select_{self.input.alias}"
        return "having" if isinstance(self.input, Aggregate) else "where"

    def __str__(self) -> str:
        return f"filter {conjunction(self.predicates)}"


@dataclass(frozen=True)
class WindowJoin:
    """Every arriving tuple with the other inputs' windows; each input has one stream below it.

    ``pools`` has the pool of each input's probes, if they are placed; otherwise nothing.
    """

    inputs: tuple[Node, ...]
    predicates: tuple[Expression, ...] = ()
    pools: tuple[str, ...] = ()

    def __str__(self) -> str:
        probes = f", probes ON {', '.join(self.pools)}" if self.pools else ""
        return f"window join ON {conjunction(self.predicates)}{probes}"


@dataclass(frozen=True)
class RelationJoin:
    """Every tuple with the matching rows of a stored relation."""

    input: Node
    relation: RelationScan
    predicates: tuple[Expression, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The streaming input and the relation."""
        return (self.input, self.relation)

    def __str__(self) -> str:
        return f"relation join ON {conjunction(self.predicates)}"


@dataclass(frozen=True)
class Aggregate:
    """Groups over the window of the one stream below; its columns are those of keys and aggregates."""

    input: Node
    keys: tuple[NamedExpression, ...]
    aggregates: tuple[AggregateExpression, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    def __str__(self) -> str:
        calls = ", ".join(f"{call} AS {call.name}" for call in self.aggregates)
        return f"aggregate {calls or 'nothing'} BY {', '.join(map(str, self.keys)) or 'nothing'}"


@dataclass(frozen=True)
class Project:
    """The select list: the top of every branch."""

    input: Node
    items: tuple[NamedExpression, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    def __str__(self) -> str:
        return f"project {', '.join(map(str, self.items)) or 'nothing'}"


Node = StreamScan | RelationScan | Filter | WindowJoin | RelationJoin | Aggregate | Project


@dataclass(frozen=True)
class LogicalPlan:
    """A query: its branches (more than one is UNION ALL), where results go, and its quality of service."""

    query: str
    branches: tuple[Project, ...]
    sink: SinkDefinition
    latency_s: float | None = None
    memory_bytes: int | None = None
    overload: str = "backpressure"
    quality: bool = False
    utility: Utility | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The result's columns, but for the timestamp ``ts`` in front of them."""
        return tuple(item.name for item in self.branches[0].items)

    def named_branches(self) -> Iterator[tuple[str, Project]]:
        """The branches, with what the names of their operators begin with."""
        for number, branch in enumerate(self.branches, start=1):
            yield (self.query if len(self.branches) == 1 else f"{self.query}.{number}"), branch

    def with_inputs(self, change: Callable[[Node], Node]) -> LogicalPlan:
        """The plan with what is below the select list of every branch changed."""
        changed = (replace(branch, input=change(branch.input)) for branch in self.branches)
        return replace(self, branches=tuple(changed))

    def tree(self) -> Tree:
        """The plan as labels with children."""
        return Tree(f"query {self.query}{quality_of_service(self)}", tuple(map(_tree, self.branches)))

    def to_json(self) -> Json:
        """The plan as nested dicts and lists."""
        return {
            "query": self.query,
            "sink": self.sink.format,
            "latency_s": self.latency_s,
            "memory_bytes": self.memory_bytes,
            "overload": self.overload,
            "branches": [tree.to_json() for tree in map(_tree, self.branches)],
        }

    def __str__(self) -> str:
        return str(self.tree())


def scans(node: Node) -> Iterator[StreamScan | RelationScan]:
    """The scans at or below a node, in order of FROM."""
    if isinstance(node, (StreamScan, RelationScan)):
        yield node
    for source in node.inputs:
        yield from scans(source)


def plan_columns(node: Node) -> frozenset[str]:
    """The plan columns of all scans at or below a node."""
    return frozenset(column_of(scan.alias, name) for scan in scans(node) for name in scan.columns)


def _tree(node: Node) -> Tree:
    return Tree(str(node), tuple(map(_tree, node.inputs)))


def _aliased(name: str, alias: str) -> str:
    return name if alias == name else f"{name} AS {alias}"
