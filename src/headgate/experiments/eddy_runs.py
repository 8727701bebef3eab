"""Many runs of random networks: response times at ten rates, and the largest rate that holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from headgate.experiments.eddy_plans import random_network
from headgate.routing import largest_rate
from headgate.routing.network import RoutingNetwork
from headgate.simulator.eddies import EddyRun, Links, LoadSharing
from headgate.simulator.eddies.run import simulate_eddy

# the rates of a plan, as parts of what its best routing sustains
RATES = tuple(round(0.55 + 0.05 * step, 2) for step in range(10))
_SECONDS = 100.0
# a tenth of the paper's limits, for runs that are that much shorter
_OVERLOADED = 1000
_SHARING = LoadSharing(split_at=100, accept_below=200)
_PRECISION = 1.07


@dataclass(frozen=True)
class Case:
    """One random network under one policy: a plain value, and ``measure`` a pure function of it."""

    seed: int
    plans: int
    operators: tuple[int, int]
    nodes: int
    policy: str
    is_sharing: bool
    rates: tuple[float, ...] = RATES


@dataclass(frozen=True)
class Measured:
    """Mean response times at the rates of a case, and its largest rate."""

    case: Case
    response_s: tuple[float, ...]
    mdr: float
    """Tuples a second, of all sources of a plan together."""


def measure(case: Case) -> Measured:
    """Run a case."""
    network, best = _network(case.seed, case.plans, case.operators, case.nodes)
    run = EddyRun(
        network,
        case.policy,
        best,
        _SECONDS,
        seed=case.seed,
        links=Links(),
        sharing=_SHARING if case.is_sharing else None,
        overloaded_at=_OVERLOADED,
        # once: statistics do not change, and a thousand solutions take their time
        solve_every_s=math.inf,
    )
    scale = 2.0 if case.is_sharing else 1.0
    response = []
    for part in case.rates:
        found = simulate_eddy(replace(run, rate=scale * part * best))
        response.append(_SECONDS if found.art is None else found.art)
    return Measured(case, tuple(response), _sustained(run, best) / case.plans)


@lru_cache(maxsize=8)
def _network(seed: int, plans: int, operators: tuple[int, int], nodes: int) -> tuple[RoutingNetwork, float]:
    """A random network and its largest rate; the cases of a network follow each other."""
    network = random_network(seed, plans, operators, nodes)
    return network, largest_rate(network).mdr


def _sustained(run: EddyRun, best: float) -> float:
    """By halving, on a scale of logarithms: the largest rate at which no node is ever overloaded."""
    low, high = 0.05 * best, 8.0 * best
    while high / low > _PRECISION:
        rate = math.sqrt(low * high)
        found = simulate_eddy(replace(run, rate=rate, stop_at=_OVERLOADED))
        if found.overloaded_s is None:
            low = rate
        else:
            high = rate
    return low


Fan = Callable[[Callable[[Case], Measured], Sequence[Case]], Iterable[Measured]]


def here(work: Callable[[Case], Measured], cases: Sequence[Case]) -> Iterable[Measured]:
    """One case after the other, in this process."""
    return map(work, cases)


def geometric_mean(values: Sequence[float]) -> float:
    """As the paper averages over plans."""
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-9)))))


def means(found: Iterable[Measured]) -> dict[str, Any]:
    """Geometric means by policy: response times over all runs, largest rates over all networks."""
    response: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for measured in found:
        response.setdefault(measured.case.policy, []).extend(measured.response_s)
        rates.setdefault(measured.case.policy, []).append(measured.mdr)
    return {
        "art": {policy: geometric_mean(values) for policy, values in response.items()},
        "mdr": {policy: geometric_mean(values) for policy, values in rates.items()},
        "runs": sum(len(values) for values in response.values()),
    }
