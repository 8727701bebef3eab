"""The networks of the eddies study: three of the paper, and random ones."""

from __future__ import annotations

import numpy as np

from headgate.routing.network import PlacedOperator, RoutingNetwork
from headgate.routing.plans import AnyOrder, Paths

_S3 = {"op1": (10.0, 0.1, 0.5), "op2": (20.0, 0.1, 0.2), "op3": (20.0, 0.5, 0.4)}
# the paper does not say where the boxes of DS3 begin: 100 units in all, the first three nodes with a box each
DS3_PLACEMENTS = {
    "equal parts": (100 / 3, 100 / 3, 100 / 3),
    "as in S3, doubled": (20.0, 40.0, 40.0),
    "a fifth free": (20.0, 30.0, 30.0, 20.0),
}
_OPERATORS_PER_SOURCE = 5


def three_selections() -> RoutingNetwork:
    """S3: three selections in any order."""
    operators = {name: PlacedOperator(name, r, rho, resource) for name, (resource, r, rho) in _S3.items()}
    return RoutingNetwork({"op0": 200.0}, operators, {"s3": AnyOrder("s3", "op0", tuple(operators))})


def sharing_selections() -> RoutingNetwork:
    """DS3: the same with 100 units of resource, shared freely."""
    operators = {name: PlacedOperator(name, r, rho) for name, (_, r, rho) in _S3.items()}
    plans = {"s3": AnyOrder("s3", "op0", tuple(operators))}
    return RoutingNetwork({"op0": 200.0}, operators, plans, total_resource=100.0)


def placed_selections(placement: str) -> RoutingNetwork:
    """DS3 as boxes on nodes."""
    nodes = {f"n{number}": size for number, size in enumerate(DS3_PLACEMENTS[placement], start=1)}
    operators = {
        name: PlacedOperator(name, r, rho, None, node)
        for (name, (_, r, rho)), node in zip(_S3.items(), nodes, strict=False)
    }
    plans = {"s3": AnyOrder("s3", "op0", tuple(operators))}
    return RoutingNetwork({"op0": 200.0}, operators, plans, nodes=nodes)


def three_streams() -> RoutingNetwork:
    """J3: a join of three streams."""
    operators = {
        "op3": PlacedOperator("op3", 0.2, 0.8, 10.0),
        "op4": PlacedOperator("op4", 0.2, {"A": 0.1, "C": 0.4}, 20.0),
        "op5": PlacedOperator("op5", 0.4, 0.2, 40.0),
    }
    plans = {
        "a": Paths("a", "A", (("op4", "op5"),)),
        "b": Paths("b", "B", (("op3", "op5"), ("op5", "op3"))),
        "c": Paths("c", "C", (("op4", "op3"),)),
    }
    return RoutingNetwork({"A": 20.0, "B": 80.0, "C": 20.0}, operators, plans)


def random_network(seed: int, plans: int, operators: tuple[int, int], nodes: int) -> RoutingNetwork:
    """Distributed plans with so many operators each, at random on nodes of 500 to 1000 units.

    Of every stream of a plan, tuples first update a window, and then pass selections and probes in any
    order: about five operators a stream, each of 1 to 20 units a tuple.
    """
    generator = np.random.default_rng(seed)
    speeds = {f"n{number}": float(generator.uniform(500, 1000)) for number in range(nodes)}
    rates: dict[str, float] = {}
    placed: dict[str, PlacedOperator] = {}
    routed: dict[str, AnyOrder] = {}
    for plan in range(plans):
        size = int(generator.integers(operators[0], operators[1] + 1))
        streams = max(1, round(size / _OPERATORS_PER_SOURCE))
        own: list[list[str]] = [[] for _ in range(streams)]
        for number in range(size):
            name = f"q{plan}.op{number}"
            per_tuple, selectivity = float(generator.uniform(1, 20)), float(generator.uniform(0.1, 0.9))
            node = f"n{int(generator.integers(nodes))}"
            placed[name] = PlacedOperator(name, per_tuple, selectivity, None, node)
            own[number % streams].append(name)
        for stream, names in enumerate(own):
            source = f"q{plan}.s{stream}"
            rates[source] = float(generator.uniform(0.2, 1.0))
            before = tuple((names[0], other) for other in names[1:])
            routed[source] = AnyOrder(source, source, tuple(names), before)
    return RoutingNetwork(rates, placed, routed, nodes=speeds)
