"""Lower: logical plans to the one network of operators that engines run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.errors import InternalError
from headgate.model import operator as physical
from headgate.model.network import Network, QueryDefinition
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


def lower(plans: Sequence[LogicalPlan], catalog: Catalog) -> Network:
    """The network of all plans, with the streams and relations that they use."""
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
    for number, branch in enumerate(plan.branches, start=1):
        prefix = plan.query if len(plan.branches) == 1 else f"{plan.query}.{number}"
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
            sides = tuple(self._side(side, position) for position, side in enumerate(node.inputs))
            return self._add(physical.WindowJoin(self._name("join"), sides, node.predicates))
        if isinstance(node, RelationJoin):
            return self._relation_join(node)
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        if isinstance(node, Project):
            return self._add(physical.Project(self._name("project"), self.lower(node.input), node.items))
        raise InternalError(f"{node} is read by its join alone")

    def _filter(self, node: Filter) -> physical.Input:
        below, predicates = node.input, node.predicates
        while isinstance(below, Filter):
            predicates = below.predicates + predicates
            below = below.input
        name = "where"
        if isinstance(below, StreamScan):
            name = f"select_{below.alias}"
        elif isinstance(below, Aggregate):
            name = "having"
        placed = tuple(p for p in predicates if p.pool is not None)
        plain = tuple(p for p in predicates if p.pool is None)
        source = self.lower(below)
        if plain:
            source = self._add(physical.Select(self._name(name), source, plain))
        if placed:
            asked = tuple(placed_predicate(p, self.catalog.placements) for p in placed)
            source = self._add(physical.Eddy(self._name(f"{name}_eddy"), source, asked))
        return source

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
