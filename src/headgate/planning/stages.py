"""All queries of a catalog after every stage of planning."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.network import Network
from headgate.planning.bind import bind
from headgate.planning.catalog import Catalog
from headgate.planning.logical import LogicalPlan
from headgate.planning.lower import lower
from headgate.planning.optimize import optimize
from headgate.planning.rules.share_subplans import share_subplans


@dataclass(frozen=True)
class Stages:
    """The queries after every stage."""

    bound: tuple[LogicalPlan, ...]
    optimized: tuple[LogicalPlan, ...]
    unshared: Network
    """The operators of every query by itself."""
    lowered: Network
    """The network that runs: what queries have in common is there once."""

    @staticmethod
    def of(catalog: Catalog) -> Stages:
        """Plan all queries of a catalog."""
        bound = tuple(bind(query, catalog) for query in catalog.queries.values())
        optimized = tuple(map(optimize, bound))
        unshared = lower(optimized, catalog)
        return Stages(bound, optimized, unshared, share_subplans(unshared))
