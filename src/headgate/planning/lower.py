"""Lower: plans to the network of operators that engines run; all stages of planning, and how it prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headgate.errors import InternalError, QueryError
from headgate.model import joins
from headgate.model import operator as physical
from headgate.model.expression import Expression
from headgate.model.identity import is_own, windows_above, with_inputs
from headgate.model.network import Network, QueryDefinition, RelationDefinition, StreamDefinition
from headgate.model.operator import Operator
from headgate.model.operator_inputs import DerivedInput, Input, OperatorInput, StreamInput
from headgate.model.window import RowWindow, TimeWindow, Window, is_emitted_whole
from headgate.planning import logical
from headgate.planning.catalog import Catalog
from headgate.planning.logical import LogicalPlan, Node, RelationScan, scans, stream_below
from headgate.planning.placed_calls import placed_predicate, placed_value
from headgate.planning.plan_tree import Json, Tree, query_json, query_tree
from headgate.planning.queries import bind
from headgate.planning.rules import optimize

# what an operator reads columns of
Source = StreamInput | DerivedInput | joins.RelationJoin

# an eddy of a join has weights for every history, whose number doubles with each step
_MOST_STEPS = 10


def lower(plans: Sequence[LogicalPlan], catalog: Catalog) -> Network:
    """The operators of every plan, not shared, with the streams and relations that they use."""
    operators: list[Operator] = []
    queries = []
    derived = _Derived(catalog, operators)
    for plan in plans:
        for stream in plan.derived:
            derived.add(stream)
        outputs = tuple(
            _Lowering(prefix, catalog, operators, derived).top(branch)
            for prefix, branch in plan.named_branches()
        )
        queries.append(replace(plan.query, outputs=outputs))
    all_plans = [each for plan in plans for each in (*plan.derived, plan)]
    scanned = [scan for plan in all_plans for branch in plan.branches for scan in scans(branch)]
    read = [scan for scan in scanned if not isinstance(scan, logical.GeneratedRows)]
    computed = {scan.name: scan.computed for scan in read if isinstance(scan, RelationScan) and scan.computed}
    below = (name for relation in computed.values() for select in relation.selects for name in select.names)
    used = {*(scan.name for scan in read), *below}
    stored = (relation for relation in catalog.relations.values() if relation.name in used)
    return Network(
        streams=tuple(stream for stream in catalog.streams.values() if stream.name in used),
        relations=(*stored, *computed.values()),
        operators=tuple(operators),
        queries=tuple(queries),
        pools=tuple(catalog.pools.values()),
        functions=tuple(catalog.functions.values()),
    )


@dataclass
class _Derived:
    """Derived streams, each computed once for all who read it."""

    catalog: Catalog
    operators: list[Operator]
    ends: dict[str, str] = field(default_factory=dict)
    """The last operator of each, in the order in which they were added."""
    _numbered: dict[str, str] = field(default_factory=dict)

    def add(self, plan: LogicalPlan) -> None:
        name = plan.query.name
        if name in self.ends:
            return
        outputs = [
            _Lowering(prefix, self.catalog, self.operators, self).top(branch)
            for prefix, branch in plan.named_branches()
        ]
        if len(outputs) == 1:
            [self.ends[name]] = outputs
        else:
            self.operators.append(physical.Union(f"{name}.union", tuple(map(OperatorInput, outputs))))
            self.ends[name] = f"{name}.union"

    def read(self, scan: logical.StreamScan, has_order: bool) -> DerivedInput:
        """The tuples of a derived stream; numbered, if it matters which of two comes first."""
        end = self.ends[scan.name]
        if has_order:
            if scan.name not in self._numbered:
                self._numbered[scan.name] = f"{scan.name}.number"
                self.operators.append(physical.Number(f"{scan.name}.number", OperatorInput(end)))
            end = self._numbered[scan.name]
        return DerivedInput(end, scan.name, scan.alias, scan.columns)

    def order_of(self, stream: str) -> int:
        """The place of a stream among all, which breaks ties between equal timestamps."""
        return [*self.catalog.streams, *self.catalog.derived, *self.ends].index(stream)


@dataclass
class _Lowering:
    """Lowers one branch: adds its operators, inputs first."""

    prefix: str
    catalog: Catalog
    operators: list[Operator]
    derived: _Derived

    def top(self, branch: logical.Project) -> str:
        """The name of the last operator of the branch."""
        below, name = self.lower(branch.input), self._name
        if isinstance(branch, logical.Table):
            kind = physical.Changes if isinstance(branch, logical.Changes) else physical.Table
            return self._add(kind(name("table"), below, branch.state, branch.steps)).operator
        return self._add(physical.Project(name("project"), below, branch.items)).operator

    def lower(self, node: Node, has_order: bool = False) -> Input:
        """The output of a node; ``has_order`` if it matters which of two tuples comes first."""
        if isinstance(node, logical.StreamScan) and node.name in self.derived.ends:
            return self.derived.read(node, has_order or isinstance(node.window, RowWindow))
        if isinstance(node, logical.StreamScan):
            return StreamInput(node.name, node.alias, node.columns)
        if isinstance(node, logical.Filter):
            return self._filter(node, has_order)
        if isinstance(node, logical.WindowJoin):
            return self._join(node, ())
        if isinstance(node, logical.RelationJoin):
            scan, source = node.relation, self.lower(node.input, has_order)
            name, read = self._name(f"relation_{scan.alias}"), (scan.name, scan.alias, scan.columns)
            return self._add(node.operator(name, source, *read, node.predicates))
        if isinstance(node, logical.Explode):
            name, source = self._name(f"rows_{node.rows.alias}"), self.lower(node.input, has_order)
            rows = (node.rows.alias, node.rows.columns, node.call, node.is_outer)
            return self._add(physical.Explode(name, source, *rows))
        if isinstance(node, logical.Aggregate):
            stream = stream_below(node)
            # otherwise, every tuple emits the new value of its group
            source = self.lower(node.input, has_order=not is_emitted_whole(stream.window))
            name, window = self._name("aggregate"), (stream.name, stream.alias, stream.window)
            return self._add(node.operator(name, source, *window, node.keys, node.aggregates))
        if isinstance(node, logical.Top):
            return self._add(physical.Top(self._name("top"), self.lower(node.input), node.ranking))
        if isinstance(node, logical.Values):
            calls = tuple(placed_value(call, self.catalog) for call in node.calls)
            # each layer of nested calls is an eddy of its own
            name = self._name(f"values_{node.calls[0].name.rpartition('#')[2]}")
            return self._add(physical.Eddy(name, self.lower(node.input, has_order), calls))
        raise InternalError(f"{node} is read by its join alone")

    def _filter(self, node: logical.Filter, has_order: bool) -> Input:
        while isinstance(node.input, logical.Filter):
            node = logical.Filter(node.input.input, node.input.predicates + node.predicates)
        below, predicates, name = node.input, node.predicates, node.role
        placed = tuple(p for p in predicates if p.pool is not None)
        plain = tuple(p for p in predicates if p.pool is None)
        if isinstance(below, logical.WindowJoin) and below.pools:
            source, placed = self._join(below, placed), ()
        else:
            source = self.lower(below, has_order)
        if plain:
            source = self._add(physical.Select(self._name(name), source, plain))
        if placed:
            source = self._add(physical.Eddy(self._name(f"{name}_eddy"), source, self._placed(placed)))
        return source

    def _placed(self, placed: tuple[Expression, ...]) -> tuple[physical.PlacedPredicate, ...]:
        return tuple(placed_predicate(p, self.catalog) for p in placed)

    def _join(self, node: logical.WindowJoin, placed: tuple[Expression, ...]) -> Input:
        """A join in ticks, or windows below an eddy that probes them and evaluates placed predicates."""
        scanned = [(stream_below(side), self.lower(side)) for side in node.inputs]
        sides = tuple(
            joins.JoinSide(source, s.alias, s.name, s.window, (self.derived.order_of(s.name), position))
            for position, (s, source) in enumerate(scanned)
        )
        if not node.pools:
            return self._add(node.operator(self._name("join"), sides, node.predicates))
        if len(sides) + len(placed) > _MOST_STEPS:
            message = f"{len(sides)} placed probes and {len(placed)} placed conditions are too many"
            span = next((p.span for p in (*placed, *node.predicates)), None)
            raise QueryError(f"{message} for one join; {_MOST_STEPS} together at most", span)
        windows = self._add(joins.WindowUpdate(self._name("windows"), sides))
        probes = []
        for side, pool in zip(sides, node.pools, strict=True):
            assert isinstance(side.window, TimeWindow), f"the probe of {side.alias} cannot be placed"
            probes.append(physical.PlacedProbe(side.alias, side.window, side.order, pool))
        name, predicates = self._name("join_eddy"), self._placed(placed)
        return self._add(physical.JoinEddy(name, windows, predicates, node.predicates, tuple(probes)))

    def _add(self, operator: Operator) -> OperatorInput:
        self.operators.append(operator)
        return OperatorInput(operator.name)

    def _name(self, role: str) -> str:
        return f"{self.prefix}.{role}"


def share_subplans(network: Network) -> Network:
    """The network with one operator for equal ones; it reads all columns that any of them read.

    Select lists and joins with placed probes are not shared. Operators are equal only if their tuples enter
    the same windows further up.
    """
    operators: dict[str, Operator] = {}
    by_key: dict[tuple[Operator, frozenset[Window]], str] = {}
    names: dict[str, str] = {}

    def renamed(source: Input) -> Input:
        return source if isinstance(source, StreamInput) else replace(source, operator=names[source.operator])

    for name, operator in network.operators.items():
        given = with_inputs(operator, renamed)
        names[name] = name
        if not is_own(operator):
            names[name] = by_key.setdefault((_bare(given), windows_above(network, name)), name)
        operators[names[name]] = _merged(operators.get(names[name], given), given)
    shared = {name: first for name, first in names.items() if name != first}
    return network.changed(operators=tuple(operators.values()), shared=shared)


def _merged(operator: Operator, equal: Operator) -> Operator:
    """The operator, reading the columns of an equal one too."""
    read = {source.alias: source.columns for source in _sources(equal)}
    return _with_columns(operator, lambda one: tuple(dict.fromkeys((*one.columns, *read[one.alias]))))


def _bare(operator: Operator) -> Operator:
    """Equal for operators that can be shared: without name, columns, and order of single-tuple predicates."""
    bare = _with_columns(replace(operator, name=""), lambda _: ())
    if isinstance(bare, (physical.Select, joins.RelationJoin)):
        return replace(bare, predicates=tuple(sorted(bare.predicates, key=lambda p: p.key)))
    return bare


def _sources(operator: Operator) -> Iterator[Source]:
    yield from (source for source in operator.inputs if isinstance(source, (StreamInput, DerivedInput)))
    if isinstance(operator, joins.RelationJoin):
        yield operator


def _with_columns(operator: Operator, columns: Callable[[Source], tuple[str, ...]]) -> Operator:
    def change(source: Input) -> Input:
        if isinstance(source, (StreamInput, DerivedInput)):
            return replace(source, columns=columns(source))
        return source

    changed = with_inputs(operator, change)
    if isinstance(changed, joins.RelationJoin):
        return replace(changed, columns=columns(changed))
    return changed


@dataclass(frozen=True)
class Stages:
    """All queries after every stage."""

    bound: tuple[LogicalPlan, ...]
    optimized: tuple[LogicalPlan, ...]
    unshared: Network
    """The operators of every query, not shared."""
    lowered: Network
    """The network that runs, with equal operators shared."""

    @staticmethod
    def of(catalog: Catalog) -> Stages:
        bound = tuple(bind(query, catalog) for query in catalog.queries.values())
        optimized = tuple(map(optimize, bound))
        unshared = lower(optimized, catalog)
        return Stages(bound, optimized, unshared, share_subplans(unshared))


def describe(network: Network) -> str:
    queries = network.queries.values()
    return "\n\n".join(str(query_tree(query, _branches(network, query))) for query in queries)


def describe_json(network: Network) -> Json:
    return {
        "streams": [_source_json(s) | {"timestamp": s.timestamp} for s in network.streams.values()],
        "relations": [_source_json(relation) for relation in network.relations.values()],
        "queries": [query_json(q, _branches(network, q)) for q in network.queries.values()],
    }


def _source_json(source: StreamDefinition | RelationDefinition) -> Json:
    columns = source.schema.ddl if source.schema else None
    return {"name": source.name, "format": source.format, "columns": columns}


def _branches(network: Network, query: QueryDefinition) -> tuple[Tree, ...]:
    return tuple(_operator_tree(network, OperatorInput(name)) for name in query.outputs)


def _operator_tree(network: Network, source: Input) -> Tree:
    if isinstance(source, StreamInput):
        return Tree(f"stream {source} ({', '.join(source.columns)})")
    if isinstance(source, DerivedInput):
        made = _operator_tree(network, OperatorInput(source.operator))
        return Tree(f"stream {source} ({', '.join(source.columns)})", (made,))
    operator = network.operators[source.operator]
    queries = network.queries_of(operator.name)
    shared = f", shared by {', '.join(queries)}" if len(queries) > 1 else ""
    return Tree(
        f"{operator}{shared}", tuple(_operator_tree(network, i) for i in operator.inputs), operator.name
    )
