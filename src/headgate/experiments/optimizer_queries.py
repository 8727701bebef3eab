"""Random queries over five streams: what plans give when resources fall short."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.model.window import RowWindow
from headgate.planning.cost import WindowSeconds
from headgate.planning.joins.figures import Figures
from headgate.planning.joins.flows import flows_of
from headgate.planning.joins.heuristic import best_orders
from headgate.planning.joins.plans import Plans, left_deep, left_deep_orders
from headgate.planning.joins.problem import JoinInput, JoinPredicate, JoinProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SELECTIVITIES = {"AB": 0.2, "AC": 0.5, "BD": 0.1, "DE": 0.001}
WINDOWS = {"A": 100, "B": 300, "C": 500, "D": 400, "E": 1000}
RATES = (10.0, 1000.0)
# shares of what the cheapest plan needs: the paper's, and one between the last two of them
LEVELS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01)
# throughputs that differ by less are the same, computed in another order
_SAME = 1e-9


@dataclass(frozen=True)
class Level:
    """What a share of the resources makes of all queries: a figure a query in each array."""

    share: float
    gains: Floats
    errors: Floats

    @property
    def gaining(self) -> float:
        """The share of queries for which another plan than the cheapest gives more."""
        return float((self.gains > _SAME).mean())

    @property
    def mean_gain(self) -> float:
        """By how much the best plan gives more than the cheapest, in the mean over all queries."""
        return float(self.gains.mean())

    @property
    def mean_gain_of_gaining(self) -> float:
        """The same over those queries that gain."""
        gaining = self.gains[self.gains > _SAME]
        return float(gaining.mean()) if len(gaining) else 0.0

    @property
    def most_gain(self) -> float:
        """By how much at most."""
        return float(self.gains.max())


def five_streams() -> JoinProblem:
    """The query, at a cost of one for each tuple that a join takes."""
    seconds = WindowSeconds(probe_seconds=1.0)
    return JoinProblem(
        "five",
        tuple(JoinInput(a, a, 1.0, RowWindow(rows), window_seconds=seconds) for a, rows in WINDOWS.items()),
        tuple(JoinPredicate(pair, frozenset(pair), f) for pair, f in SELECTIVITIES.items()),
        seconds,
    )


def connected_orders() -> Ints:
    """The orders without a cross product."""
    orders = left_deep_orders(len(WINDOWS))
    return np.asarray(orders[left_deep(orders).crosses(Figures.of(five_streams())) == 0])


def levels_of(queries: int, seed: int, orders: Ints | None = None) -> list[Level]:
    """The queries at all resource levels, optimised over all orders (or these), and by the heuristic."""
    rates = np.random.default_rng(seed).uniform(*RATES, size=(queries, len(WINDOWS)))
    figures = Figures.of_rates(five_streams(), rates)
    orders = left_deep_orders(len(WINDOWS)) if orders is None else orders
    plans = left_deep(np.tile(orders, (queries, 1)), np.repeat(np.arange(queries), len(orders)))
    unshed = flows_of(plans, figures).cost_per_s(np.ones((len(plans.pairs), len(WINDOWS))))
    by_query = unshed.reshape(queries, -1)
    return [_level(share, figures, plans, by_query) for share in LEVELS]


def _level(share: float, figures: Figures, plans: Plans, unshed: Floats) -> Level:
    capacity = share * unshed.min(axis=1)
    flows = flows_of(plans, figures)
    whole = np.ones((len(plans.pairs), len(WINDOWS)))
    keep = flows.keep_within(whole, np.repeat(capacity, unshed.shape[1]))
    outputs = flows.joined_per_s(keep).reshape(unshed.shape)
    best = outputs.max(axis=1)
    of_cheapest = np.take_along_axis(outputs, unshed.argmin(axis=1)[:, None], axis=1)[:, 0]
    found = best_orders(figures, capacity)
    heuristic = flows_of(left_deep(found.orders[:, 0], np.arange(len(capacity))), figures)
    given = heuristic.joined_per_s(found.keep[:, 0])
    return Level(share, best / of_cheapest - 1, 1 - given / best)
