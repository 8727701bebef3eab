"""Routing networks in TOML: sources, placed operators and plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.errors import SetupError, known_names
from headgate.routing.given import check_weights
from headgate.routing.network import PlacedOperator, RoutingNetwork, RoutingPlan
from headgate.routing.plans import AnyOrder, Paths
from headgate.simulator.table import Table, is_number, shown
from headgate.simulator.workload_file import toml_content

_KEYS = ("max_queue", "total_resource", "sources", "operators", "plans", "nodes", "weights", "simulation")
_SOURCE = "[sources.NAME] with rate = 200"
_OPERATOR = "[operators.NAME] with resource = 10, per_tuple = 0.1 and selectivity = 0.5"
_PLAN = '[plans.NAME] with source = "op0" and any_order = ["op1", "op2"]'
_NODE = "[nodes.NAME] with resource = 100"


@dataclass(frozen=True)
class NetworkFile:
    """A routing network, and what its file says beyond it."""

    network: RoutingNetwork
    weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    simulation: Table = field(default_factory=lambda: Table({}, ""))
    source_nodes: Mapping[str, str] = field(default_factory=dict)
    """Where sources are, if they are on a node: then their tuples go over links as well."""


def read_network(path: Path) -> NetworkFile:
    """Read and check a file."""
    return network_of(toml_content(path), str(path))


def is_network(path: Path) -> bool:
    """Whether a file of TOML has plans to route, and not a workload."""
    if path.suffix.lower() in (".sql", ".cql") or not path.is_file():
        return False
    try:
        content = toml_content(path)
    except SetupError:
        return False
    return "plans" in content or "sources" in content


def network_of(content: Mapping[str, Any], file: str) -> NetworkFile:
    """A network from what TOML gives."""
    whole = Table(content, file)
    whole.only(*_KEYS)
    sources = whole.tables("sources", _SOURCE)
    operators = whole.tables("operators", _OPERATOR)
    plans = whole.tables("plans", _PLAN)
    for name in operators:
        if name in sources:
            raise whole.error(f"operators.{name}", "has the name of a source; choose another")
    for table in sources.values():
        table.only("rate", "node")
    nodes = whole.tables("nodes", _NODE) if "nodes" in whole else {}
    for table in nodes.values():
        table.only("resource")
    placed = {name: _operator(name, table, sources) for name, table in operators.items()}
    weights = _weights(whole) if "weights" in whole else {}
    try:
        network = RoutingNetwork(
            rates={name: table.number("rate", None) for name, table in sources.items()},
            operators=placed,
            plans={name: _plan(name, table) for name, table in plans.items()},
            max_queue=whole.number("max_queue", 10_000.0, above=True),
            nodes={name: table.number("resource", above=True) for name, table in nodes.items()},
            total_resource=whole.number("total_resource", None, above=True),
        )
        network.shares()
        check_weights(network, weights)
    except SetupError as error:
        # what a table has raised names the file already
        raise error if str(error).startswith(file) else SetupError(f"{file}: {error}") from None
    return NetworkFile(network, weights, _simulation(whole, file), _source_nodes(sources, nodes))


def _operator(name: str, table: Table, sources: Mapping[str, Table]) -> PlacedOperator:
    table.only("resource", "per_tuple", "selectivity", "node")
    node = table.raw("node", "", None)
    if node is not None and not isinstance(node, str):
        raise table.error("node", f"= {shown(node)} is wrong; write the name of a node")
    return PlacedOperator(
        name=name,
        per_tuple=table.number("per_tuple", above=True),
        selectivity=_selectivity(table, sources),
        resource=table.number("resource", None, above=True),
        node=node,
    )


def _selectivity(table: Table, sources: Mapping[str, Table]) -> float | dict[str, float]:
    value = table.raw("selectivity", "", 1.0)
    if not isinstance(value, dict):
        return float(table.number("selectivity", 1.0))
    by_source = Table(value, table.file, table.at("selectivity"))
    for source in by_source.keys:
        if source not in sources:
            raise by_source.error(source, f"is no source; known: {known_names(list(sources))}")
    return {source: by_source.number(source) for source in by_source.keys}


def _plan(name: str, table: Table) -> RoutingPlan:
    table.only("source", "any_order", "paths", "before")
    if "any_order" in table and "paths" in table:
        raise table.error("any_order", "and paths exclude each other; keep one of them")
    source = table.raw("source", 'the name of a source, as in source = "op0"')
    if not isinstance(source, str):
        raise table.error("source", f"= {shown(source)} is wrong; write the name of a source")
    if "paths" in table:
        if "before" in table:
            raise table.error("before", "has no meaning beside paths; keep one of them")
        return Paths(name, source, _lists(table, "paths", '[["op3", "op5"], ["op5", "op3"]]'))
    operators = table.names("any_order", '["op1", "op2"], or paths = [["op1", "op2"]]')
    pairs = _lists(table, "before", '[["op1", "op2"]]') if "before" in table else ()
    before: list[tuple[str, str]] = []
    for pair in pairs:
        if len(pair) != 2:
            raise table.error("before", f"= {shown(list(pair))} is no pair; write [first, then]")
        before.append((pair[0], pair[1]))
    return AnyOrder(name, source, operators, tuple(before))


def _lists(table: Table, key: str, example: str) -> tuple[tuple[str, ...], ...]:
    value = table.raw(key, example)
    if not isinstance(value, list) or not all(
        isinstance(inner, list) and all(isinstance(name, str) for name in inner) for inner in value
    ):
        raise table.error(key, f"= {shown(value)} is wrong; write {example}")
    return tuple(tuple(inner) for inner in value)


def _weights(whole: Table) -> dict[str, dict[str, float]]:
    rows = whole.tables("weights", "[weights.FROM] with TO = 0.5")
    return {name: {to: table.number(to) for to in table.keys} for name, table in rows.items()}


def _source_nodes(sources: Mapping[str, Table], nodes: Mapping[str, Table]) -> dict[str, str]:
    found = {}
    for name, table in sources.items():
        if "node" in table:
            node = table.raw("node", "")
            if node not in nodes:
                raise table.error("node", f"= {shown(node)} is no node; known: {known_names(list(nodes))}")
            found[name] = str(node)
    return found


def _simulation(whole: Table, file: str) -> Table:
    content = whole.raw("simulation", "", {})
    if not isinstance(content, dict):
        raise whole.error("simulation", "is no table; write [simulation] with seconds = 450")
    return Table(content, file, "simulation")


def given_rate(network: RoutingNetwork, rate: float | None, file: str) -> float:
    """The total source rate: as asked for, or as the file has it."""
    found = network.total_rate if rate is None else rate
    if found is None or not is_number(found):
        first = next(iter(network.rates))
        raise SetupError(f"{file}: sources.{first}.rate is missing; write it, or add --rate 200")
    return found
