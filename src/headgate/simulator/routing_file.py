"""Routing networks in TOML: sources, placed operators, plans, and how they are simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import SetupError, known_names
from headgate.routing import Router
from headgate.routing.monitor import Intervals
from headgate.routing.routing_network import (
    SHARED,
    AnyOrder,
    Paths,
    PlacedOperator,
    RoutingNetwork,
    RoutingPlan,
)
from headgate.routing.solution import check_weights
from headgate.simulator.eddies import EddyRun, Links, LoadSharing
from headgate.simulator.toml_table import Table, is_number, quote, toml_content

_KEYS = ("max_queue", "total_resource", "sources", "operators", "plans", "nodes", "weights", "simulation")
_SOURCE = "[sources.NAME] with rate = 200"
_OPERATOR = "[operators.NAME] with resource = 10, per_tuple = 0.1 and selectivity = 0.5"
_PLAN = '[plans.NAME] with source = "op0" and any_order = ["op1", "op2"]'
_NODE = "[nodes.NAME] with resource = 100"
_SIMULATION_KEYS = (
    *("seconds", "warm_up", "service", "message_seconds", "message_tuples"),
    *("ticket_limit", "solve_every", "links", "sharing"),
)
_LINK_KEYS = ("bytes_per_second", "page_tuples", "tuple_bytes", "page_timer")


@dataclass(frozen=True)
class NetworkFile:
    """A routing network, and the rest of its file."""

    network: RoutingNetwork
    weights: Mapping[str, Mapping[str, float]]
    simulation: Table
    source_nodes: Mapping[str, str]
    """The nodes of sources; the tuples of a source on a node go over links as well."""


def is_network(path: Path) -> bool:
    """Whether a file of TOML has plans to route, and not a workload."""
    if path.suffix.lower() in (".sql", ".cql") or not path.is_file():
        return False
    try:
        content = toml_content(path)
    except SetupError:
        return False
    return "plans" in content or "sources" in content


def read_network(path: Path) -> NetworkFile:
    whole = Table(toml_content(path), str(path)).only(*_KEYS)
    sources = whole.tables("sources", _SOURCE, "rate", "node")
    operators = whole.tables("operators", _OPERATOR, "resource", "per_tuple", "selectivity", "node")
    plans = whole.tables("plans", _PLAN, "source", "any_order", "paths", "before")
    for name in operators:
        if name in sources:
            raise whole.error(f"operators.{name}", "has the name of a source; choose another")
    nodes = whole.tables("nodes", _NODE, "resource") if "nodes" in whole else {}
    weights: dict[str, dict[str, float]] = {}
    if "weights" in whole:
        rows = whole.tables("weights", "[weights.FROM] with TO = 0.5")
        weights = {name: {to: table.number(to) for to in table.keys} for name, table in rows.items()}
    with whole.errors():
        network = RoutingNetwork(
            rates={name: table.number("rate", None) for name, table in sources.items()},
            operators={name: _operator(name, table, sources) for name, table in operators.items()},
            plans={name: _plan(name, table) for name, table in plans.items()},
            max_queue=whole.number("max_queue", 10_000.0, above=True),
            nodes={name: table.number("resource", above=True) for name, table in nodes.items()},
            total_resource=whole.number("total_resource", None, above=True),
        )
        network.shares()
        check_weights(network, weights)
    source_nodes = {name: table.raw("node", "") for name, table in sources.items() if "node" in table}
    for name, node in source_nodes.items():
        if node not in nodes:
            problem = f"= {quote(node)} is not a node; known: {known_names(list(nodes))}"
            raise sources[name].error("node", problem)
    simulation = whole.table("simulation", "[simulation] with seconds = 450")
    return NetworkFile(network, weights, simulation, source_nodes)


def _operator(name: str, table: Table, sources: Mapping[str, Table]) -> PlacedOperator:
    node = table.raw("node", "", None)
    if node is not None and not isinstance(node, str):
        raise table.error("node", f"= {quote(node)} is wrong; write the name of a node")
    selectivity: float | dict[str, float]
    if isinstance(table.raw("selectivity", "", 1.0), dict):
        by_source = table.table("selectivity", "")
        for source in by_source.keys:
            if source not in sources:
                raise by_source.error(source, f"is not a source; known: {known_names(list(sources))}")
        selectivity = {source: by_source.number(source) for source in by_source.keys}
    else:
        selectivity = table.number("selectivity", 1.0)
    per_tuple = table.number("per_tuple", above=True)
    return PlacedOperator(name, per_tuple, selectivity, table.number("resource", None, above=True), node)


def _plan(name: str, table: Table) -> RoutingPlan:
    table.one_of("any_order", "paths")
    source = table.raw("source", 'the name of a source, as in source = "op0"')
    if not isinstance(source, str):
        raise table.error("source", f"= {quote(source)} is wrong; write the name of a source")
    if "paths" in table:
        if "before" in table:
            raise table.error("before", "has no meaning beside paths; keep one of them")
        return Paths(name, source, _lists(table, "paths", '[["op3", "op5"], ["op5", "op3"]]'))
    operators = table.names("any_order", '["op1", "op2"], or paths = [["op1", "op2"]]')
    before: list[tuple[str, str]] = []
    for pair in _lists(table, "before", '[["op1", "op2"]]') if "before" in table else ():
        if len(pair) != 2:
            raise table.error("before", f"= {quote(list(pair))} is not a pair; write [first, then]")
        before.append((pair[0], pair[1]))
    return AnyOrder(name, source, operators, tuple(before))


def _lists(table: Table, key: str, example: str) -> tuple[tuple[str, ...], ...]:
    value = table.raw(key, example)
    if not isinstance(value, list) or not all(
        isinstance(inner, list) and all(isinstance(name, str) for name in inner) for inner in value
    ):
        raise table.error(key, f"= {quote(value)} is wrong; write {example}")
    return tuple(tuple(inner) for inner in value)


def given_rate(network: RoutingNetwork, rate: float | None, file: str) -> float:
    """The total source rate: the given one, or that of the file."""
    found = network.total_rate if rate is None else rate
    if found is None or not is_number(found):
        first = next(iter(network.rates))
        raise SetupError(f"{file}: sources.{first}.rate is missing; write it, or add --rate 200")
    return found


def eddy_run(read: NetworkFile, policy: str | Router, rate: float, seed: int) -> EddyRun:
    """The run that a file describes; a shared resource always moves between operators."""
    table = read.simulation.only(*_SIMULATION_KEYS)
    seconds = table.number("seconds", EddyRun.seconds, above=True)
    warm_up_s = table.number("warm_up", 0.0)
    if warm_up_s >= seconds:
        raise table.error("warm_up", f"= {warm_up_s:g} leaves nothing of {seconds:g} seconds; write less")
    return EddyRun(
        network=read.network,
        policy=policy,
        rate=rate,
        seconds=seconds,
        seed=seed,
        warm_up_s=warm_up_s,
        links=_links(table),
        sharing=_sharing(table, is_default=SHARED in read.network.servers),
        intervals=Intervals(
            seconds=table.number("message_seconds", Intervals.seconds, above=True),
            tuples=table.whole("message_tuples", Intervals.tuples, least=1),
        ),
        ticket_limit=table.whole("ticket_limit", EddyRun.ticket_limit, least=1),
        service=table.choice("service", ("exponential", "constant")),
        source_nodes=read.source_nodes,
        solve_every_s=table.number("solve_every", EddyRun.solve_every_s, above=True),
    )


def _links(simulation: Table) -> Links | None:
    if "links" not in simulation:
        return None
    table = simulation.table("links", "links = { bytes_per_second = [1e6, 1e8] }").only(*_LINK_KEYS)
    value = table.raw("bytes_per_second", "", list(Links.bytes_per_s))
    both = value if isinstance(value, list) else [value, value]
    if len(both) != 2 or not all(is_number(v) and v > 0 for v in both) or both[0] > both[1]:
        raise table.error("bytes_per_second", f"= {quote(value)} is wrong; write 1e6, or [least, most]")
    return Links(
        bytes_per_s=(float(both[0]), float(both[1])),
        page_tuples=table.whole("page_tuples", Links.page_tuples, least=1),
        tuple_bytes=table.number("tuple_bytes", Links.tuple_bytes, above=True),
        page_timer_s=table.number("page_timer", Links.page_timer_s, above=True),
    )


def _sharing(simulation: Table, is_default: bool) -> LoadSharing | None:
    if "sharing" not in simulation:
        return LoadSharing() if is_default else None
    table = simulation.table("sharing", "sharing = { split_at = 300 }").only("split_at", "accept_below")
    return LoadSharing(
        split_at=table.whole("split_at", LoadSharing.split_at, least=1),
        accept_below=table.whole("accept_below", LoadSharing.accept_below, least=1),
    )
