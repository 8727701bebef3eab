"""Routers: where a tuple goes next, decided by what operators have told of themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headgate.routing.network import RoutingNetwork
from headgate.routing.statistics import Outcome, Statistics


@dataclass(frozen=True)
class RoutingView:
    """All that a router may know: what operators (or copies of them) have last published, and when it is."""

    statistics: Mapping[str, Statistics]
    plan: str = ""
    now_s: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    """Tuples a second of every source, as far as they are known."""


class Router(Protocol):
    """Decides by weights; no I/O, no clock, no randomness of its own."""

    name: str

    def prepare(self, network: RoutingNetwork) -> None:
        """Called once, before anything is routed."""

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """Weights of the eligible operators for tuples that have visited ``done``; they sum to 1."""

    def learn(self, outcome: Outcome) -> None:
        """Take notice of what an operator has done."""


class StatisticsRouter:
    """What routers share that look at published statistics alone."""

    name = ""

    def prepare(self, network: RoutingNetwork) -> None:
        """Nothing needs to be prepared."""

    def learn(self, outcome: Outcome) -> None:
        """Everything is in the statistics already."""
