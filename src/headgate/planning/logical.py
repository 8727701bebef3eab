"""The logical plan: the meaning of a query as a tree of immutable nodes that prints itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from headgate.errors import InternalError
from headgate.formats.html import html_text, listed
from headgate.model import joins
from headgate.model import operator as physical
from headgate.model.expression import AggregateExpression, Expression, NamedExpression, column_of
from headgate.model.joins import kind_of_join
from headgate.model.network import QueryDefinition, RelationDefinition, Schema
from headgate.model.operator_inputs import aliased, conjunction
from headgate.model.table import Ranking, State, Step, table_text
from headgate.model.window import RowWindow, Window
from headgate.planning.plan_tree import Json, Tree, query_json, query_tree


@dataclass(frozen=True)
class Scan:
    """A leaf of the plan; ``name`` is that of a stream or relation as declared."""

    name: str
    alias: str
    columns: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def plan_columns(self) -> dict[str, str]:
        return {column_of(self.alias, name): name for name in self.columns}


@dataclass(frozen=True)
class StreamScan(Scan):
    """The tuples of a stream; ``window`` is for the node that reads them."""

    window: Window
    is_derived: bool = False

    @property
    def counts_derived(self) -> bool:
        """Whether its window counts tuples of a derived stream, also those that conditions leave out.

        No log of them is kept: a pool between the stream and the window would have to pass all of them on.
        """
        return self.is_derived and isinstance(self.window, RowWindow)

    def __str__(self) -> str:
        return f"stream {aliased(self.name, self.alias)} {self.window} ({', '.join(self.columns)})"


@dataclass(frozen=True)
class RelationScan(Scan):
    """The rows of a stored relation; ``computed`` is its definition if it is computed from others."""

    computed: RelationDefinition | None = None

    def __str__(self) -> str:
        return f"relation {aliased(self.name, self.alias)} ({', '.join(self.columns)})"


@dataclass(frozen=True)
class GeneratedRows(Scan):
    """The rows that a function gives for each tuple; ``name`` is that of the function."""

    def __str__(self) -> str:
        return f"rows {self.alias} ({', '.join(self.columns)})"


@dataclass(frozen=True)
class _Unary:
    """A node with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Filter(_Unary):
    """The tuples for which every predicate holds."""

    predicates: tuple[Expression, ...]

    @property
    def role(self) -> str:
        """The last part of its operator's name."""
        if isinstance(self.input, StreamScan):
            return f"select_{self.input.alias}"
        if isinstance(self.input, Values):
            return "where_values"
        return "having" if isinstance(self.input, Aggregate) else "where"

    def __str__(self) -> str:
        return f"filter {conjunction(self.predicates)}"


@dataclass(frozen=True)
class WindowJoin:
    """Every arriving tuple with the windows of the other inputs; each input has one stream below it.

    ``pools`` has the pool of each input's probes, if they are placed.
    """

    inputs: tuple[Node, ...]
    predicates: tuple[Expression, ...] = ()
    pools: tuple[str, ...] = ()
    operator: type[joins.WindowJoin] = joins.WindowJoin
    """The kind of operator that computes it."""

    @property
    def preserved(self) -> tuple[Node, ...]:
        """The inputs whose tuples are emitted even if, or only if, they have no match."""
        places = self.operator.preserved if issubclass(self.operator, joins.OuterWindowJoin) else ()
        return tuple(self.inputs[place] for place in places)

    def __str__(self) -> str:
        probes = f", probes ON {', '.join(self.pools)}" if self.pools else ""
        return f"{kind_of_join(self.operator.join)}window join ON {conjunction(self.predicates)}{probes}"


@dataclass(frozen=True)
class RelationJoin(_Unary):
    """Every tuple with the matching rows of a stored relation."""

    relation: RelationScan
    predicates: tuple[Expression, ...] = ()
    operator: type[joins.RelationJoin] = joins.RelationJoin
    """The kind of operator that computes it."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.relation)

    def __str__(self) -> str:
        return f"{kind_of_join(self.operator.join)}relation join ON {conjunction(self.predicates)}"


@dataclass(frozen=True)
class Explode(_Unary):
    """Every tuple with each of the rows that a call gives for it."""

    rows: GeneratedRows
    call: Expression
    is_outer: bool
    """Whether a tuple without rows is kept, with NULLs."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.rows)

    def __str__(self) -> str:
        return f"{'outer ' if self.is_outer else ''}rows of {self.call}"


@dataclass(frozen=True)
class Aggregate(_Unary):
    """Groups over the window of the one stream below; its columns are those of keys and aggregates."""

    keys: tuple[NamedExpression, ...]
    aggregates: tuple[AggregateExpression, ...]
    operator: type[physical.Aggregate] = physical.Aggregate
    """The kind of operator that computes it."""

    def __str__(self) -> str:
        calls = ", ".join(f"{call} AS {call.name}" for call in self.aggregates)
        kind = self.operator.__name__.lower()
        return f"{kind} {calls or 'nothing'} BY {', '.join(map(str, self.keys)) or 'nothing'}"


@dataclass(frozen=True)
class Top(_Unary):
    """The first rows of each partition, at every boundary of the windows below."""

    ranking: Ranking

    def __str__(self) -> str:
        return f"top {self.ranking}"


@dataclass(frozen=True)
class Values(_Unary):
    """Tuples with what placed functions return for them as further columns."""

    calls: tuple[NamedExpression, ...]

    def __str__(self) -> str:
        return f"call {', '.join(f'{call.expression} ON {call.expression.pool}' for call in self.calls)}"


@dataclass(frozen=True)
class Project(_Unary):
    """The select list: the top of every branch."""

    items: tuple[NamedExpression, ...]

    def __str__(self) -> str:
        return f"project {', '.join(map(str, self.items)) or 'nothing'}"


@dataclass(frozen=True)
class Table(Project):
    """The current rows of a query whose results change: a state over tuples, and steps over the state.

    The last step is the select list; ``items`` are its columns.
    """

    state: State
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return table_text(self.state, self.steps)


class Changes(Table):
    """Every change of the rows of a table, with its kind."""

    def __str__(self) -> str:
        return f"changes of {super().__str__()}"


Node = (
    StreamScan
    | RelationScan
    | GeneratedRows
    | Filter
    | WindowJoin
    | RelationJoin
    | Explode
    | Aggregate
    | Top
    | Values
    | Project
)


Plan = TypeVar("Plan", bound="LogicalPlan")


@dataclass(frozen=True)
class LogicalPlan:
    """A query, whose outputs are not known yet, and its branches: several for UNION ALL."""

    query: QueryDefinition
    branches: tuple[Project, ...]
    quality: bool = False
    derived: tuple[DerivedPlan, ...] = ()
    """The derived streams that it reads, directly or through others; each behind those that it reads."""

    def named_branches(self) -> Iterator[tuple[str, Project]]:
        for number, branch in enumerate(self.branches, start=1):
            yield (self.query.name if len(self.branches) == 1 else f"{self.query.name}.{number}"), branch

    def rewritten(self: Plan, change: Callable[[str, Project, Node], Node]) -> Plan:
        """The plan with every node below select lists changed; ``change`` gets prefix and list, too."""
        pairs = [(top, partial(change, prefix, top)) for prefix, top in self.named_branches()]
        branches = tuple(replace(top, input=rewrite(top.input, own)) for top, own in pairs)
        return replace(self, branches=branches)

    def __repr__(self) -> str:
        streams = listed(dict.fromkeys(scan.name for branch in self.branches for scan in scans(branch)))
        return f"<LogicalPlan of query {self.query.name} over {streams}>"

    def _repr_html_(self) -> str:
        return html_text(str(self))

    def to_json(self) -> Json:
        found = query_json(self.query, tuple(map(_tree, self.branches)))
        return {**found, "derived": [stream.to_json() for stream in self.derived]} if self.derived else found

    @property
    def own_text(self) -> str:
        """The plan without the derived streams that it reads."""
        return str(query_tree(self.query, tuple(map(_tree, self.branches))))

    def __str__(self) -> str:
        return "\n".join(plan.own_text for plan in (*self.derived, self))


@dataclass(frozen=True)
class DerivedPlan(LogicalPlan):
    """A stream that consists of the results of a query; ``schema`` are its columns.

    It has neither a sink nor a quality of service of its own: these belong to the queries that read it.
    """

    schema: Schema = field(default_factory=lambda: Schema(()))

    def to_json(self) -> Json:
        return {"stream": self.query.name, "branches": [_tree(branch).to_json() for branch in self.branches]}

    @property
    def own_text(self) -> str:
        return str(Tree(f"stream {self.query.name}", tuple(map(_tree, self.branches))))


def rewrite(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree below a node with every node changed, inputs first; stored relations stay."""
    if isinstance(node, WindowJoin):
        node = replace(node, inputs=tuple(rewrite(side, change) for side in node.inputs))
    elif isinstance(node, _Unary):
        node = replace(node, input=rewrite(node.input, change))
    return change(node)


def nodes(node: Node) -> Iterator[Node]:
    """A node and those below it."""
    yield node
    for source in node.inputs:
        yield from nodes(source)


def scans(node: Node) -> Iterator[Scan]:
    """The scans at or below a node, in order of FROM."""
    if isinstance(node, Scan):
        yield node
    for source in node.inputs:
        yield from scans(source)


def expressions(node: Node) -> Iterator[Expression]:
    """The expressions of a node and of those below it."""
    if isinstance(node, Table):
        yield from node.state.expressions
    elif isinstance(node, Top):
        yield from node.ranking.expressions
    elif isinstance(node, Project):
        yield from (item.expression for item in node.items)
    elif isinstance(node, Aggregate):
        yield from (key.expression for key in node.keys)
        yield from (argument for call in node.aggregates for argument in call.arguments)
    elif isinstance(node, Values):
        yield from (call.expression for call in node.calls)
    elif isinstance(node, Explode):
        yield node.call
    elif not isinstance(node, Scan):
        yield from node.predicates
    for source in node.inputs:
        yield from expressions(source)


def stream_below(node: Node) -> StreamScan:
    streams = [scan for scan in scans(node) if isinstance(scan, StreamScan)]
    if len(streams) != 1:
        raise InternalError(f"{node} has {len(streams)} streams below it, where one has to be")
    return streams[0]


def plan_columns(node: Node) -> frozenset[str]:
    return frozenset(column for scan in scans(node) for column in scan.plan_columns)


def _tree(node: Node) -> Tree:
    return Tree(str(node), tuple(map(_tree, node.inputs)))
