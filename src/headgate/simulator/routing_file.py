"""Routing networks in TOML: sources, placed operators, plans, and how they are simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from headgate.errors import SetupError
from headgate.formats.document import (
    REQUIRED,
    NamedTables,
    Names,
    Right,
    Section,
    checked,
    naming,
    path_of,
    problem,
    read_toml,
    shown,
    unknown,
)
from headgate.formats.quantity import BYTES, RATE, TIME, Quantity
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
from headgate.simulator.scenario import Service

_MOST_OPERATORS = 200
# as many as an eddy distinguishes
_MOST_PATHS = 64
_RESOURCE = Quantity("units per second", 1e-9, 1e12)
_PER_TUPLE = Quantity("units per tuple", 1e-9, 1e12)
_SELECTIVITY = Quantity("results per tuple", 0, 1e6)
_WEIGHT = Quantity("", 0, 1e9)
_COUNT = Quantity("tuples", 1, 1e9, is_whole=True)
_LENGTH = Quantity("tuples", 1e-3, 1e9)
_SOME_TIME = Quantity("seconds", 1e-3, 1e9)
_WARM_UP = Quantity("seconds", 0, 1e9)
_BANDWIDTH = Quantity("bytes per second", 1e-3, 1e15)


def _tuples(given: Any) -> Any:
    """Lists of lists as tuples, which cannot change."""
    return tuple(map(_tuples, given)) if isinstance(given, list) else given


def _from_to(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else (given, given)


_Selectivity = Annotated[
    Annotated[float, _SELECTIVITY, Tag("number")]
    | Annotated[dict[str, Annotated[float, _SELECTIVITY]], Tag("table")],
    Discriminator(lambda given: "table" if isinstance(given, dict) else "number"),
]
_Path = Annotated[tuple[str, ...], Field(min_length=1, max_length=_MOST_OPERATORS)]
_Pair = tuple[str, str]


class _Source(Section):
    example: ClassVar[str] = "[sources.NAME] with rate = 200"
    rate: Annotated[float, Quantity(RATE.unit, 0, RATE.most)] | None = None
    node: Annotated[str, Right("the name of a node")] | None = None


class _Node(Section):
    example: ClassVar[str] = "[nodes.NAME] with resource = 100"
    resource: Annotated[float, _RESOURCE] = REQUIRED


class _Operator(Section):
    example: ClassVar[str] = "[operators.NAME] with resource = 10, per_tuple = 0.1 and selectivity = 0.5"
    resource: Annotated[float, _RESOURCE] | None = None
    per_tuple: Annotated[float, _PER_TUPLE] = REQUIRED
    selectivity: _Selectivity = 1.0
    node: Annotated[str, Right("the name of a node")] | None = None


class _Plan(Section):
    example: ClassVar[str] = '[plans.NAME] with source = "op0" and any_order = ["op1", "op2"]'
    source: Annotated[str, Right('the name of a source, as in source = "op0"')] = REQUIRED
    any_order: Annotated[Names, Right('["op1", "op2"], or paths = [["op1", "op2"]]')] | None = None
    before: (
        Annotated[
            tuple[_Pair, ...],
            Field(max_length=_MOST_OPERATORS),
            BeforeValidator(_tuples),
            Right(f'[["op1", "op2"]], up to {_MOST_OPERATORS} pairs of [first, then]'),
        ]
        | None
    ) = None
    paths: (
        Annotated[
            tuple[_Path, ...],
            Field(min_length=1, max_length=_MOST_PATHS),
            BeforeValidator(_tuples),
            Right(f'[["op3", "op5"], ["op5", "op3"]], up to {_MOST_PATHS} paths'),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _check_together(self) -> _Plan:
        if self.any_order and self.paths:
            raise problem("and paths exclude each other; keep one of them", "any_order")
        if self.before and self.paths:
            raise problem("has no meaning beside paths; keep one of them", "before")
        if not self.any_order and not self.paths:
            raise problem('is missing; write ["op1", "op2"], or paths = [["op1", "op2"]]', "any_order")
        return self

    def named(self, name: str) -> RoutingPlan:
        if self.paths:
            return Paths(name, self.source, self.paths)
        return AnyOrder(name, self.source, self.any_order or (), self.before or ())


class _Links(Section):
    example: ClassVar[str] = "links = { bytes_per_second = [1e6, 1e8] }"
    bytes_per_second: Annotated[
        tuple[Annotated[float, _BANDWIDTH], Annotated[float, _BANDWIDTH]],
        BeforeValidator(_from_to),
        Right("1e6, or [least, most]"),
    ] = Links.bytes_per_s
    page_tuples: Annotated[int, _COUNT] = Links.page_tuples
    tuple_bytes: Annotated[float, BYTES] = Links.tuple_bytes
    page_timer: Annotated[float, _SOME_TIME] = Links.page_timer_s

    @model_validator(mode="after")
    def _check_together(self) -> _Links:
        least, most = self.bytes_per_second
        if least > most:
            raise problem(f"= [{least:g}, {most:g}] is wrong; write [least, most]", "bytes_per_second")
        return self

    @property
    def links(self) -> Links:
        return Links(self.bytes_per_second, self.page_tuples, self.tuple_bytes, self.page_timer)


class _Sharing(Section):
    example: ClassVar[str] = "sharing = { split_at = 300 }"
    split_at: Annotated[int, _COUNT] = LoadSharing.split_at
    accept_below: Annotated[int, _COUNT] = LoadSharing.accept_below


class _Simulation(Section):
    example: ClassVar[str] = "[simulation] with seconds = 450"
    seconds: Annotated[float, TIME] = EddyRun.seconds
    warm_up: Annotated[float, _WARM_UP] = 0.0
    service: Service = EddyRun.service
    message_seconds: Annotated[float, _SOME_TIME] = Intervals.seconds
    message_tuples: Annotated[int, _COUNT] = Intervals.tuples
    ticket_limit: Annotated[int, _COUNT] = EddyRun.ticket_limit
    solve_every: Annotated[float, _SOME_TIME] = EddyRun.solve_every_s
    links: _Links | None = None
    sharing: _Sharing | None = None

    @model_validator(mode="after")
    def _check_together(self) -> _Simulation:
        if self.warm_up >= self.seconds:
            nothing = f"leaves nothing of {self.seconds:g} seconds"
            raise problem(f"= {self.warm_up:g} {nothing}; write less", "warm_up")
        return self


class _Network(Section):
    max_queue: Annotated[float, _LENGTH] = 10_000.0
    total_resource: Annotated[float, _RESOURCE] | None = None
    sources: Annotated[dict[str, _Source], NamedTables(_MOST_OPERATORS)] = REQUIRED
    operators: Annotated[dict[str, _Operator], NamedTables(_MOST_OPERATORS)] = REQUIRED
    plans: Annotated[dict[str, _Plan], NamedTables(_MOST_OPERATORS)] = REQUIRED
    nodes: Annotated[dict[str, _Node], NamedTables(_MOST_OPERATORS)] | None = None
    weights: Annotated[_Weights, NamedTables(2 * _MOST_OPERATORS, "[weights.FROM] with TO = 0.5")] | None = (
        None
    )
    simulation: _Simulation = _Simulation()


_Weights = dict[str, dict[str, Annotated[float, _WEIGHT]]]


@dataclass(frozen=True)
class NetworkFile:
    """A routing network, and the rest of its file."""

    network: RoutingNetwork
    weights: Mapping[str, Mapping[str, float]]
    simulation: _Simulation
    source_nodes: Mapping[str, str]
    """The nodes of sources; the tuples of a source on a node go over links as well."""


def is_network(path: Path) -> bool:
    """Whether a file of TOML has plans to route, and not a workload."""
    if path.suffix.lower() in (".sql", ".cql") or not path.is_file():
        return False
    try:
        content = read_toml(path, "a network")
    except SetupError:
        return False
    return "plans" in content or "sources" in content


def read_network(path: Path) -> NetworkFile:
    whole: _Network = checked(_Network, read_toml(path, "a routing network (.toml)"), str(path))
    with naming(str(path)):
        network = RoutingNetwork(
            rates={name: source.rate for name, source in whole.sources.items()},
            operators={name: _operator(name, whole) for name in whole.operators},
            plans={name: plan.named(name) for name, plan in whole.plans.items()},
            max_queue=whole.max_queue,
            nodes={name: node.resource for name, node in (whole.nodes or {}).items()},
            total_resource=whole.total_resource,
        )
        network.shares()
        check_weights(network, whole.weights or {})
        source_nodes = {name: source.node for name, source in whole.sources.items() if source.node}
        for name, node in source_nodes.items():
            if node not in network.nodes:
                place = path_of("sources", name, "node")
                raise SetupError(f"{place} = {shown(node)} {unknown(node, 'a node', network.nodes)}")
    return NetworkFile(network, whole.weights or {}, whole.simulation, source_nodes)


def _operator(name: str, whole: _Network) -> PlacedOperator:
    if name in whole.sources:
        raise SetupError(f"{path_of('operators', name)} has the name of a source; choose another")
    own = whole.operators[name]
    for source in own.selectivity if isinstance(own.selectivity, dict) else ():
        if source not in whole.sources:
            place = path_of("operators", name, "selectivity", source)
            raise SetupError(f"{place} {unknown(source, 'a source', whole.sources)}")
    return PlacedOperator(name, own.per_tuple, own.selectivity, own.resource, own.node)


def given_rate(network: RoutingNetwork, rate: float | None) -> float:
    """The total source rate: the given one, or that of the file."""
    found = network.total_rate if rate is None else rate
    if found is None:
        first = path_of("sources", next(iter(network.rates)), "rate")
        raise SetupError(f"{first} is missing; write it, or add --rate 200")
    return found


def eddy_run(read: NetworkFile, policy: str | Router, rate: float, seed: int) -> EddyRun:
    """The run that a file describes; a shared resource always moves between operators."""
    own = read.simulation
    sharing = own.sharing or (_Sharing() if SHARED in read.network.servers else None)
    return EddyRun(
        network=read.network,
        policy=policy,
        rate=rate,
        seconds=own.seconds,
        seed=seed,
        warm_up_s=own.warm_up,
        links=None if own.links is None else own.links.links,
        sharing=None if sharing is None else LoadSharing(sharing.split_at, sharing.accept_below),
        intervals=Intervals(seconds=own.message_seconds, tuples=own.message_tuples),
        ticket_limit=own.ticket_limit,
        service=own.service,
        source_nodes=read.source_nodes,
        solve_every_s=own.solve_every,
    )
