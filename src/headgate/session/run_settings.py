"""How a network is to run, and what of it has been changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.control.overrides import Overrides
from headgate.planning.logical import LogicalPlan
from headgate.planning.lower import Stages
from headgate.routing.policies import Router
from headgate.runtime.drive import Controller, Observer
from headgate.scheduling import Strategy
from headgate.session.following import Followers
from headgate.statistics.store import StatisticsStore

if TYPE_CHECKING:
    from headgate.spark.reconcile import Transition


@dataclass(frozen=True)
class RunSettings:
    """How a network is to run, see ``Session.start``; with ``overrides``, a controller may adapt it."""

    strategy: Strategy
    statistics: StatisticsStore
    until_done: bool = False
    memory_bytes: float | None = None
    checkpoint: str | Path | None = None
    tick_budget_s: float | None = None
    observers: Iterable[Observer] = ()
    overrides: Overrides | None = None
    plans: Sequence[LogicalPlan] = ()
    routing: Router | None = None
    balance_pools: bool = False
    rest_s: Callable[[float], float] | None = None
    controller: Controller | None = None
    warnings: Sequence[str] = ()
    """Of admission."""
    transition: Transition | None = None
    """What becomes of the queries that the checkpoint has; None if they must be the very same."""
    stages: Stages | None = None
    """The plans of its queries; None for a run whose queries cannot change."""
    script: str = ""
    """The statements that declare them."""


@dataclass
class Launched:
    """How a run was started, and what has been changed by hand since."""

    settings: RunSettings
    observers: list[Observer]
    followers: Followers = field(default_factory=Followers)
    """Observers that come while it is on; one of ``observers``."""
    latencies_s: dict[str, float | None] = field(default_factory=dict)
    is_to_stop: bool = False

    def note(
        self,
        strategy: Strategy | None,
        memory_bytes: float | None,
        latencies_s: Mapping[str, float | None],
        tick_budget_s: float | None,
    ) -> None:
        """Remember changes by hand, for when other queries come."""
        if tick_budget_s is not None:
            self.settings = replace(self.settings, tick_budget_s=tick_budget_s)
        if strategy is not None:
            self.settings = replace(self.settings, strategy=strategy)
        if memory_bytes is not None:
            self.settings = replace(self.settings, memory_bytes=memory_bytes)
        self.latencies_s.update(latencies_s)
