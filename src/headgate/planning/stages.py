"""The stages of planning: bind, optimize by rules, lower, and how each one prints."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.network import Network, QueryDefinition, RelationDefinition, StreamDefinition
from headgate.model.operator import Input, OperatorInput, StreamInput
from headgate.planning import logical
from headgate.planning.bind import bind
from headgate.planning.catalog import Catalog
from headgate.planning.logical import Json, LogicalPlan, Tree
from headgate.planning.lower import lower, share_subplans
from headgate.planning.rules import RULES
from headgate.planning.statistics import Context


def optimize(plan: LogicalPlan, context: Context | None = None) -> LogicalPlan:
    """The plan after every rule; without statistics, predicates keep the order in which they were written.

    Runs plan without statistics: a checkpoint outlives a change of the predicate order, which the engine
    therefore keeps beside the network.
    """
    for rule in RULES:
        plan = rule(plan, context or Context())
    return plan


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
    return "\n\n".join(str(logical.query_tree(query, _branches(network, query))) for query in queries)


def describe_json(network: Network) -> Json:
    return {
        "streams": [_source_json(s) | {"timestamp": s.timestamp} for s in network.streams.values()],
        "relations": [_source_json(relation) for relation in network.relations.values()],
        "queries": [logical.query_json(q, _branches(network, q)) for q in network.queries.values()],
    }


def _source_json(source: StreamDefinition | RelationDefinition) -> Json:
    columns = source.schema.ddl if source.schema else None
    return {"name": source.name, "format": source.format, "columns": columns}


def _branches(network: Network, query: QueryDefinition) -> tuple[Tree, ...]:
    return tuple(_tree(network, OperatorInput(name)) for name in query.outputs)


def _tree(network: Network, source: Input) -> Tree:
    if isinstance(source, StreamInput):
        return Tree(f"stream {source} ({', '.join(source.columns)})")
    operator = network.operators[source.operator]
    queries = network.queries_of(operator.name)
    shared = f", shared by {', '.join(queries)}" if len(queries) > 1 else ""
    return Tree(f"{operator}{shared}", tuple(_tree(network, i) for i in operator.inputs), operator.name)
