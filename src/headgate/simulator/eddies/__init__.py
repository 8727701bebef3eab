"""Eddies in virtual time, by nodes, links and pages: the settings of a run, and its result.

``eddy_simulation.simulate_eddy`` runs them; it is not imported here, since its compiled code loads slowly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headgate.errors import SetupError
from headgate.routing import Intervals, Router, router_named
from headgate.routing.monitor import TICKET_LIMIT
from headgate.routing.routing_network import RoutingNetwork
from headgate.simulator.scenario import Service

# arrivals, messages and checks of the load; what follows from arrivals is several times as much
_MOST_EVENTS = 1e8


@dataclass(frozen=True)
class Links:
    """Links between nodes; tuples travel in pages, sent when they are full or their timer expires."""

    bytes_per_s: tuple[float, float] = (1e6, 1e8)
    """Least and largest bandwidth; that of each link is random."""
    page_tuples: int = 40
    tuple_bytes: float = 100.0
    page_timer_s: float = 1.0


@dataclass(frozen=True)
class LoadSharing:
    """A node with ``split_at`` queued tuples is overloaded: the operator that uses most of it is split.

    The copy goes to a node with fewer than ``accept_below`` queued tuples.
    """

    split_at: int = 500
    accept_below: int = 2000


@dataclass(frozen=True)
class EddyRun:
    """One run: a network under a policy at a rate."""

    network: RoutingNetwork
    policy: str | Router
    """The name of a policy, or a router of the user's, as in ``Session.start(routing=...)``."""
    rate: float
    """Tuples per second of all sources together."""
    seconds: float = 450.0
    tuples: int = 0
    """End the run when the sources have sent so many tuples and the last of them has left; 0 for never."""
    seed: int = 0
    warm_up_s: float = 0.0
    """Tuples that arrive earlier are excluded from the response time."""
    links: Links | None = None
    sharing: LoadSharing | None = None
    intervals: Intervals = field(default_factory=Intervals)
    ticket_limit: int = TICKET_LIMIT
    stop_at: int = 0
    """End the run when a node holds more tuples than this; 0 for never."""
    service: Service = "exponential"
    boxes: Literal["in parallel", "by turns"] = "in parallel"
    """How the busy boxes of a node use it: in equal parts at the same time, or one tuple of each in turn."""
    source_nodes: Mapping[str, str] = field(default_factory=dict)
    solve_every_s: float = 20.0
    """How often the policy ``optimal`` solves for its routing."""

    def __post_init__(self) -> None:
        if isinstance(self.policy, str):
            # raises if the name is unknown
            router_named(self.policy)
        if not (self.rate > 0 and self.seconds > 0):
            raise SetupError("a run needs a rate and a time above 0")
        messages = len(self.network.operators) / self.intervals.seconds
        events = self.sending_s * (1 + messages + self.rate)
        if events > _MOST_EVENTS:
            many = f"{self.sending_s:g} seconds have about {events:.3g} events"
            raise SetupError(f"{many}, over {_MOST_EVENTS:.0e}; write fewer seconds, or a lower rate")

    @property
    def sending_s(self) -> float:
        """How long sources send tuples, in the mean."""
        return min(self.seconds, self.tuples / self.rate) if self.tuples else self.seconds

    @property
    def policy_name(self) -> str:
        if isinstance(self.policy, str):
            return self.policy
        return getattr(self.policy, "name", type(self.policy).__name__)


@dataclass(frozen=True)
class EddyResult:
    """The result of a run; values by operator cover all its copies."""

    policy: str
    rate: float
    seconds: float
    """Until the end, until the last tuple left, or until a node was overloaded."""
    art: float | None
    """Mean response time of tuples that reached the sink; None if none did."""
    delivered: int
    art_by_plan: Mapping[str, float | None]
    visits: Mapping[str, int]
    queue: Mapping[str, float]
    """Mean number of tuples waiting or in service."""
    utilisation: Mapping[str, float]
    """Mean number of busy copies."""
    longest_queue: Mapping[str, int]
    """By node."""
    shares: Mapping[str, float]
    """Share of every operator in the recent work."""
    overloaded_s: float | None
    splits: int
    slides: int
    merges: int
    messages: int
    pages: int
