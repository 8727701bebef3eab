"""A network as text and as JSON, a tree a query."""

from __future__ import annotations

from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import Input, Operator, StreamInput
from headgate.planning.tree import Json, Tree, quality_of_service


def describe(network: Network) -> str:
    """The network for people to read."""
    return "\n\n".join(str(_query_tree(network, query)) for query in network.queries.values())


def describe_json(network: Network) -> Json:
    """The network as nested dicts and lists."""
    return {
        "streams": [
            {
                "name": s.name,
                "format": s.format,
                "columns": s.schema.ddl if s.schema else None,
                "timestamp": s.timestamp,
            }
            for s in network.streams.values()
        ],
        "relations": [
            {"name": r.name, "format": r.format, "columns": r.schema.ddl if r.schema else None}
            for r in network.relations.values()
        ],
        "queries": [_query_json(network, query) for query in network.queries.values()],
    }


def _query_json(network: Network, query: QueryDefinition) -> Json:
    return {
        "query": query.name,
        "sink": query.sink.format,
        "latency_s": query.latency_s,
        "memory_bytes": query.memory_bytes,
        "overload": query.overload,
        "branches": [branch.to_json() for branch in _query_tree(network, query).children],
    }


def _query_tree(network: Network, query: QueryDefinition) -> Tree:
    branches = tuple(_operator_tree(network, network.operators[name]) for name in query.outputs)
    return Tree(f"query {query.name}{quality_of_service(query)}", branches)


def _operator_tree(network: Network, operator: Operator) -> Tree:
    children = tuple(_input_tree(network, source) for source in operator.inputs)
    queries = network.queries_of(operator.name)
    shared = f", shared by {', '.join(queries)}" if len(queries) > 1 else ""
    return Tree(f"{operator}{shared}", children, operator.name)


def _input_tree(network: Network, source: Input) -> Tree:
    if isinstance(source, StreamInput):
        return Tree(f"stream {source} ({', '.join(source.columns)})")
    return _operator_tree(network, network.operators[source.operator])
