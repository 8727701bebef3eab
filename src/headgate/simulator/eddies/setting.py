"""What an eddy is simulated with: all of it plain values, so that a run can be sent anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headgate.errors import SetupError, known_names
from headgate.routing.network import RoutingNetwork
from headgate.routing.registry import router_names
from headgate.routing.statistics import Intervals

Service = Literal["exponential", "constant"]


@dataclass(frozen=True)
class Links:
    """Between any two nodes: tuples go in pages, sent when they are full or the timer is over."""

    bytes_per_s: tuple[float, float] = (1e6, 1e8)
    """Every link has a bandwidth between these, by chance."""
    page_tuples: int = 40
    tuple_bytes: float = 100.0
    page_timer_s: float = 1.0


@dataclass(frozen=True)
class LoadSharing:
    """A box with so long a queue gets a copy, on a node that holds fewer tuples than it may."""

    split_at: int = 500
    accept_below: int = 2000


@dataclass(frozen=True)
class EddyRun:
    """One run: a network under a policy at a rate."""

    network: RoutingNetwork
    policy: str
    rate: float
    """Tuples a second of all sources together."""
    seconds: float = 450.0
    seed: int = 0
    warm_up_s: float = 0.0
    """Tuples that arrive before it do not count."""
    links: Links | None = None
    sharing: LoadSharing | None = None
    intervals: Intervals = field(default_factory=Intervals)
    overloaded_at: int = 2000
    """A queue this long costs an operator its tickets."""
    stop_at: int = 0
    """End the run when a node holds more tuples than this; 0 for never."""
    service: Service = "exponential"
    source_nodes: Mapping[str, str] = field(default_factory=dict)
    solve_every_s: float = 20.0
    """How often the policy ``optimal`` computes its routing from what has been learnt."""

    def __post_init__(self) -> None:
        if self.policy not in router_names():
            raise SetupError(f"unknown policy {self.policy}; known: {known_names(router_names())}")
        if not (self.rate > 0 and self.seconds > 0):
            raise SetupError("a run needs a rate and a time above 0")
