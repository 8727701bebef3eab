"""A network as it has shown itself: learnt selectivities and service times in place of those of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.errors import SetupError
from headgate.routing.art import least_response_time
from headgate.routing.mdr import largest_rate
from headgate.routing.network import RoutingNetwork
from headgate.routing.solution import Solution
from headgate.routing.statistics import Statistics

# nearer to the largest rate, response time is all queue: then spread the load as evenly as it goes
_NEARLY_FULL = 0.97


def learnt_network(
    network: RoutingNetwork, statistics: Mapping[str, Statistics], rates: Mapping[str, float]
) -> RoutingNetwork:
    """The network with what is known by now; ratios of selectivities by source stay those of the plan."""
    operators = {}
    for name, operator in network.operators.items():
        known = statistics.get(name)
        if known is None:
            operators[name] = operator
            continue
        resource = network.servers[network.server_of(name)]
        per_tuple = max(known.seconds, 1e-12) * resource
        operators[name] = replace(
            operator, per_tuple=per_tuple, selectivity=_scaled(operator.selectivity, known.selectivity)
        )
    known_rates = {source: rates.get(source, rate) for source, rate in network.rates.items()}
    return replace(network, operators=operators, rates=known_rates)


def _scaled(planned: float | Mapping[str, float], learnt: float) -> float | dict[str, float]:
    if not isinstance(planned, Mapping):
        return max(learnt, 0.0)
    mean = sum(planned.values()) / len(planned)
    if mean <= 0:
        return dict.fromkeys(planned, max(learnt, 0.0))
    return {source: max(learnt, 0.0) * value / mean for source, value in planned.items()}


def best_routing(network: RoutingNetwork) -> Solution:
    """Of least response time where the rate leaves room for that, otherwise that of the largest rate."""
    most = largest_rate(network)
    rate = network.total_rate
    if rate is None or rate <= 0 or rate >= _NEARLY_FULL * most.mdr:
        return most
    try:
        return least_response_time(network, rate)
    except SetupError:
        return most
