"""Random distributed plans under routing policies: response times at several rates, and the largest rate."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from headgate.experiments.eddy_paper import POLICIES
from headgate.routing import largest_rate
from headgate.routing.routing_network import AnyOrder, PlacedOperator, RoutingNetwork
from headgate.simulator.eddies import EddyRun, Links, LoadSharing
from headgate.simulator.eddies.eddy_simulation import simulate_eddy

Order = Literal["free order", "windows first", "joins"]
ORDERS: tuple[Order, ...] = ("free order", "windows first", "joins")

_OPERATORS_PER_SOURCE = 5
_SELECTIVITIES = (0.1, 0.9)


def windows_first(seed: int, plans: int, operators: tuple[int, int], nodes: int) -> RoutingNetwork:
    """Random plans of several streams; ``operators`` bounds the size of a plan.

    Of every stream of a plan, tuples first update a window, and then pass selections and probes in any
    order: about five operators a stream, each of 1 to 20 units a tuple.
    """
    generator = np.random.default_rng(seed)
    speeds = _speeds(generator, nodes)
    rates: dict[str, float] = {}
    placed: dict[str, PlacedOperator] = {}
    routed: dict[str, AnyOrder] = {}
    for plan in range(plans):
        size = int(generator.integers(operators[0], operators[1] + 1))
        streams = max(1, round(size / _OPERATORS_PER_SOURCE))
        own: list[list[str]] = [[] for _ in range(streams)]
        for number in range(size):
            name = f"q{plan}.op{number}"
            placed[name] = _operator(generator, name, _SELECTIVITIES, nodes)
            own[number % streams].append(name)
        for stream, names in enumerate(own):
            source = f"q{plan}.s{stream}"
            rates[source] = float(generator.uniform(0.2, 1.0))
            before = tuple((names[0], other) for other in names[1:])
            routed[source] = AnyOrder(source, source, tuple(names), before)
    return RoutingNetwork(rates, placed, routed, nodes=speeds)


# of the tuples of a plan with 25 operators, one in 2000 passes all; were it 0.1 to 0.9, none would
_FREE_SELECTIVITIES = (0.5, 1.0)


def free_order(seed: int, plans: int, operators: tuple[int, int], nodes: int) -> RoutingNetwork:
    """Random plans of one stream each, whose tuples pass all operators of the plan in any order."""
    generator = np.random.default_rng(seed)
    speeds = _speeds(generator, nodes)
    placed: dict[str, PlacedOperator] = {}
    routed: dict[str, AnyOrder] = {}
    for plan in range(plans):
        size = int(generator.integers(operators[0], operators[1] + 1))
        names = tuple(f"q{plan}.op{number}" for number in range(size))
        placed |= {name: _operator(generator, name, _FREE_SELECTIVITIES, nodes) for name in names}
        routed[f"q{plan}"] = AnyOrder(f"q{plan}", f"q{plan}.s", names)
    return RoutingNetwork(
        dict.fromkeys((p.source for p in routed.values()), 1.0), placed, routed, nodes=speeds
    )


def joins(seed: int, plans: int, operators: tuple[int, int], nodes: int) -> RoutingNetwork:
    """Random joins of several streams, as J3 is one: windows are updated at the sources.

    A chain of windows, with a probe each, which all other streams share; selectivities differ by stream. The
    other operators are selections, which belong to one stream each. All commute, but for cross products.
    """
    generator = np.random.default_rng(seed)
    speeds = _speeds(generator, nodes)
    rates: dict[str, float] = {}
    placed: dict[str, PlacedOperator] = {}
    routed: dict[str, AnyOrder] = {}
    for plan in range(plans):
        size = int(generator.integers(operators[0], operators[1] + 1))
        streams = max(2, round(size / _OPERATORS_PER_SOURCE))
        sources = [f"q{plan}.s{stream}" for stream in range(streams)]
        probes = [f"q{plan}.probe{stream}" for stream in range(streams)]
        own: list[list[str]] = [[] for _ in range(streams)]
        for number in range(size - streams):
            name = f"q{plan}.op{number}"
            placed[name] = _operator(generator, name, _SELECTIVITIES, nodes)
            own[number % streams].append(name)
        for stream, name in enumerate(probes):
            others = [source for source in sources if source != sources[stream]]
            found = {source: float(generator.uniform(*_SELECTIVITIES)) for source in others}
            placed[name] = replace(_operator(generator, name, _SELECTIVITIES, nodes), selectivity=found)
        for stream, source in enumerate(sources):
            rates[source] = float(generator.uniform(0.2, 1.0))
            chains = probes[stream + 1 :], probes[:stream][::-1]
            before = tuple(pair for chain in chains for pair in pairwise(chain))
            routed[source] = AnyOrder(source, source, (*own[stream], *chains[0], *chains[1]), before)
    return RoutingNetwork(rates, placed, routed, nodes=speeds)


def _speeds(generator: np.random.Generator, nodes: int) -> dict[str, float]:
    return {f"n{number}": float(generator.uniform(500, 1000)) for number in range(nodes)}


def _operator(
    generator: np.random.Generator, name: str, selectivities: tuple[float, float], nodes: int
) -> PlacedOperator:
    per_tuple, selectivity = float(generator.uniform(1, 20)), float(generator.uniform(*selectivities))
    return PlacedOperator(name, per_tuple, selectivity, None, f"n{int(generator.integers(nodes))}")


_NETWORKS: dict[Order, Callable[[int, int, tuple[int, int], int], RoutingNetwork]] = {
    "free order": free_order,
    "windows first": windows_first,
    "joins": joins,
}


@dataclass(frozen=True)
class PlanSet:
    """Random plans that run at the same time on the same nodes."""

    order: Order
    seed: int
    count: int
    operators: tuple[int, int]
    nodes: int


@dataclass(frozen=True)
class RunSize:
    """Rates at which response times are measured, and source tuples of a run, of all plans together."""

    rates: tuple[float, ...]
    """Parts of what the best routing of fixed boxes sustains."""
    tuples: int
    """Of a run that measures a response time."""
    rate_tuples: int
    """Of a run that decides whether a rate is sustained."""


@dataclass(frozen=True)
class PolicyCase:
    """Random plans under a policy; ``measure`` is a pure function of it."""

    plans: PlanSet
    policy: str
    is_sharing: bool
    run: RunSize


@dataclass(frozen=True)
class CaseResult:
    """Mean response times at the rates of a case at which tuples reached the sink, and its largest rate."""

    case: PolicyCase
    response_s: tuple[float, ...]
    mdr: float
    """Tuples per second, of all sources of a plan together."""


OVERLOADED = 10_000
"""Tuples queued at an operator or a node, as in section 4.4; an overloaded operator has no tickets."""

_PRECISION = 1.1
# the paper uses higher rates, too, where operators split
_SPLITTING_SCALE = 2.0
_LEAST_PART = 0.05
_MOST_PARTS = {False: 1.5, True: 6.0}


def paper_run(network: RoutingNetwork, policy: str, rate: float, tuples: int, **settings: Any) -> EddyRun:
    """A run to the last tuple; the boxes of a node take turns, as processes at a server of CSIM do."""
    ends: dict[str, Any] = {"seconds": math.inf, "tuples": tuples}
    return EddyRun(network, policy, rate, ticket_limit=OVERLOADED, boxes="by turns", **ends, **settings)


def measure(case: PolicyCase) -> CaseResult:
    network, best = _network(case.plans)
    run = paper_run(
        network,
        case.policy,
        best,
        case.run.tuples,
        seed=case.plans.seed,
        links=Links(),
        sharing=LoadSharing() if case.is_sharing else None,
        # once: statistics do not change, and a thousand solutions take their time
        solve_every_s=math.inf,
    )
    scale = _SPLITTING_SCALE if case.is_sharing else 1.0
    found = (simulate_eddy(replace(run, rate=scale * part * best)).art for part in case.run.rates)
    response_s = tuple(art for art in found if art is not None)
    ends = _LEAST_PART * best, _MOST_PARTS[case.is_sharing] * best
    mdr = _sustained(replace(run, tuples=case.run.rate_tuples, stop_at=OVERLOADED), *ends)
    return CaseResult(case, response_s, mdr / case.plans.count)


@lru_cache(maxsize=8)
def _network(plans: PlanSet) -> tuple[RoutingNetwork, float]:
    """A random network and its largest rate, cached because the cases of a network are consecutive."""
    network = _NETWORKS[plans.order](plans.seed, plans.count, plans.operators, plans.nodes)
    return network, largest_rate(network).mdr


def most_by_splitting(plans: PlanSet) -> tuple[float, float]:
    """The largest rates of a plan by the analysis: of its boxes as they are, and of resources shared freely.

    No routing and no splitting gains more than the ratio of both.
    """
    network, fixed = _network(plans)
    operators = {name: replace(each, node=None) for name, each in network.operators.items()}
    total = sum(network.nodes.values())
    shared = largest_rate(replace(network, operators=operators, nodes={}, total_resource=total)).mdr
    return fixed / plans.count, shared / plans.count


def _sustained(run: EddyRun, low: float, high: float) -> float:
    """The largest rate at which no node is ever overloaded, by bisection on a logarithmic scale."""
    while high / low > _PRECISION:
        rate = math.sqrt(low * high)
        if simulate_eddy(replace(run, rate=rate)).overloaded_s is None:
            low = rate
        else:
            high = rate
    return low


@dataclass(frozen=True)
class PlanSize:
    """Random plans of one size, and the paper's tables of them."""

    name: str
    networks: int
    plans: int
    operators: tuple[int, int]
    nodes: int
    run: RunSize
    orders: tuple[Order, ...]
    tables: Mapping[str, tuple[str, str]]
    """By number of the paper's table: whether boxes are fixed or split, and the quantity."""

    def drawn(self, order: Order) -> list[PlanSet]:
        return [PlanSet(order, seed, self.plans, self.operators, self.nodes) for seed in range(self.networks)]

    def cases(self, order: Order) -> list[PolicyCase]:
        return [
            PolicyCase(plans, policy, is_sharing, self.run)
            for is_sharing in (False, True)
            for plans in self.drawn(order)
            for policy in POLICIES
        ]


# of the policies in 4.11, the best ones are not overloaded, the worst mostly are
_RATES = (0.3, 0.4, 0.5, 0.6, 0.7)
_PAPER_RATES = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
_PAPER_TUPLES = 500_000

PLAN_SIZES = (
    PlanSize(
        "single plans",
        networks=4,
        plans=1,
        operators=(20, 30),
        nodes=10,
        run=RunSize(_RATES, tuples=50_000, rate_tuples=200_000),
        orders=ORDERS,
        tables={
            "4.11": ("fixed", "art"),
            "4.12": ("fixed", "mdr"),
            "5.3": ("splitting", "mdr"),
            "5.4": ("splitting", "art"),
        },
    ),
    PlanSize(
        "20 plans at once",
        networks=1,
        plans=20,
        operators=(10, 40),
        nodes=40,
        run=RunSize(_RATES, tuples=100_000, rate_tuples=400_000),
        # windows first, all policies are alike
        orders=("free order", "joins"),
        tables={
            "4.13": ("fixed", "art"),
            "4.14": ("fixed", "mdr"),
            "5.5": ("splitting", "art"),
            "5.6": ("splitting", "mdr"),
        },
    ),
)

_PAPER_RUN = RunSize(_PAPER_RATES, tuples=_PAPER_TUPLES, rate_tuples=_PAPER_TUPLES)
# the paper has one set of plans, and does not say which
PAPER_SIZES = (
    replace(PLAN_SIZES[0], networks=100, run=_PAPER_RUN),
    replace(PLAN_SIZES[1], networks=4, run=_PAPER_RUN),
)
"""As many plans, rates and tuples as in the paper, which takes hours."""

Fan = Callable[[Callable[[PolicyCase], CaseResult], Sequence[PolicyCase]], Iterable[CaseResult]]


def on_all_processors(
    work: Callable[[PolicyCase], CaseResult], cases: Sequence[PolicyCase]
) -> list[CaseResult]:
    """Apply ``work`` to every case, in threads: the compiled loop does not hold the interpreter's lock."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(work, cases))


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-9)))))


def means(found: Iterable[CaseResult]) -> dict[str, dict[str, float]]:
    """Geometric means by policy, as in the paper: response times over all runs, rates over all networks."""
    response: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for measured in found:
        response.setdefault(measured.case.policy, []).extend(measured.response_s)
        rates.setdefault(measured.case.policy, []).append(measured.mdr)
    return {
        name: {policy: geometric_mean(values) for policy, values in by_policy.items()}
        for name, by_policy in (("art", response), ("mdr", rates))
    }
