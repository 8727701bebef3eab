"""Lower: logical plans to the one network of operators that engines run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.errors import InternalError, QueryError
from headgate.model import operator as physical
from headgate.model.expression import Expression
from headgate.model.network import Network, QueryDefinition
from headgate.model.window import TimeWindow
from headgate.planning.catalog import Catalog
from headgate.planning.logical import (
    Aggregate,
    Filter,
    LogicalPlan,
    Node,
    Project,
    RelationJoin,
    RelationScan,
    StreamScan,
    WindowJoin,
    scans,
)
from headgate.planning.placing import placed_predicate

# an eddy of a join has weights for every history, and those double with each step
_MOST_STEPS = 10


def lower(plans: Sequence[LogicalPlan], catalog: Catalog) -> Network:
    """The operators of every plan by itself, with the streams and relations that they use."""
    operators: list[physical.Operator] = []
    queries = [_query(plan, operators, catalog) for plan in plans]
    used = {_source_name(scan) for plan in plans for branch in plan.branches for scan in scans(branch)}
    return Network(
        streams=tuple(stream for stream in catalog.streams.values() if stream.name in used),
        relations=tuple(relation for relation in catalog.relations.values() if relation.name in used),
        operators=tuple(operators),
        queries=tuple(queries),
        pools=catalog.placements.pools,
        functions=catalog.placements.functions,
    )


def _query(plan: LogicalPlan, operators: list[physical.Operator], catalog: Catalog) -> QueryDefinition:
    outputs = []
    for prefix, branch in plan.named_branches():
        lowering = _Lowering(prefix, catalog)
        lowering.lower(branch)
        operators.extend(lowering.operators)
        outputs.append(lowering.operators[-1].name)
    return QueryDefinition(
        name=plan.query,
        outputs=tuple(outputs),
        sink=plan.sink,
        latency_s=plan.latency_s,
        memory_bytes=plan.memory_bytes,
        overload=plan.overload,
        utility=plan.utility,
    )


@dataclass
class _Lowering:
    """One branch on its way: its operators so far, inputs before those that read them."""

    prefix: str
    catalog: Catalog
    operators: list[physical.Operator] = field(default_factory=list)

    def lower(self, node: Node) -> physical.Input:
        if isinstance(node, StreamScan):
            return physical.StreamInput(node.stream, node.alias, node.columns)
        if isinstance(node, Filter):
            return self._filter(node)
        if isinstance(node, WindowJoin):
            return self._join(node, ())
        if isinstance(node, RelationJoin):
            return self._relation_join(node)
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        if isinstance(node, Project):
            return self._add(physical.Project(self._name("project"), self.lower(node.input), node.items))
        raise InternalError(f"{node} is read by its join alone")

    def _filter(self, node: Filter) -> physical.Input:
        while isinstance(node.input, Filter):
            node = Filter(node.input.input, node.input.predicates + node.predicates)
        below, predicates, name = node.input, node.predicates, node.role
        placed = tuple(p for p in predicates if p.pool is not None)
        plain = tuple(p for p in predicates if p.pool is None)
        if isinstance(below, WindowJoin) and below.pools:
            source, placed = self._join(below, placed), ()
        else:
            source = self.lower(below)
        if plain:
            source = self._add(physical.Select(self._name(name), source, plain))
        if placed:
            source = self._add(physical.Eddy(self._name(f"{name}_eddy"), source, self._asked(placed)))
        return source

    def _asked(self, placed: tuple[Expression, ...]) -> tuple[physical.PlacedPredicate, ...]:
        return tuple(placed_predicate(p, self.catalog.placements) for p in placed)

    def _join(self, node: WindowJoin, placed: tuple[Expression, ...]) -> physical.Input:
        """A join in ticks; with placed probes, windows below an eddy that probes them and asks predicates."""
        sides = tuple(self._side(side, position) for position, side in enumerate(node.inputs))
        if not node.pools:
            return self._add(physical.WindowJoin(self._name("join"), sides, node.predicates))
        if len(sides) + len(placed) > _MOST_STEPS:
            message = f"{len(sides)} placed probes and {len(placed)} placed conditions are too many"
            span = next((p.span for p in (*placed, *node.predicates)), None)
            raise QueryError(f"{message} for one join; {_MOST_STEPS} together at most", span)
        windows = self._add(physical.WindowUpdate(self._name("windows"), sides))
        probes = []
        for side, pool in zip(sides, node.pools, strict=True):
            assert isinstance(side.window, TimeWindow), f"the probe of {side.alias} cannot be placed"
            probes.append(physical.PlacedProbe(side.alias, side.window, side.order, pool))
        name, asked = self._name("join_eddy"), self._asked(placed)
        return self._add(physical.JoinEddy(name, windows, asked, node.predicates, tuple(probes)))

    def _side(self, node: Node, position: int) -> physical.JoinSide:
        scan = _stream_below(node)
        order = (self.catalog.stream_index(scan.stream), position)
        return physical.JoinSide(self.lower(node), scan.alias, scan.stream, scan.window, order)

    def _relation_join(self, node: RelationJoin) -> physical.Input:
        relation = node.relation
        operator = physical.RelationJoin(
            name=self._name(f"relation_{relation.alias}"),
            input=self.lower(node.input),
            relation=relation.relation,
            alias=relation.alias,
            columns=relation.columns,
            predicates=node.predicates,
        )
        return self._add(operator)

    def _aggregate(self, node: Aggregate) -> physical.Input:
        scan = _stream_below(node)
        operator = physical.Aggregate(
            name=self._name("aggregate"),
            input=self.lower(node.input),
            stream=scan.stream,
            alias=scan.alias,
            window=scan.window,
            keys=node.keys,
            aggregates=node.aggregates,
        )
        return self._add(operator)

    def _add(self, operator: physical.Operator) -> physical.OperatorInput:
        self.operators.append(operator)
        return physical.OperatorInput(operator.name)

    def _name(self, role: str) -> str:
        return f"{self.prefix}.{role}"


def _stream_below(node: Node) -> StreamScan:
    streams = [scan for scan in scans(node) if isinstance(scan, StreamScan)]
    if len(streams) != 1:
        raise InternalError(f"{node} has {len(streams)} streams below it, where one has to be")
    return streams[0]


def _source_name(scan: StreamScan | RelationScan) -> str:
    return scan.stream if isinstance(scan, StreamScan) else scan.relation
