"""The pools of a run: how many slots each has, what is known of the predicates, and who routes."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.errors import SetupError, known_names
from headgate.model.operator import Eddy
from headgate.model.pool import PoolDefinition
from headgate.routing.network import PlacedOperator, RoutingNetwork
from headgate.routing.plans import AnyOrder
from headgate.routing.router import Router, RoutingView
from headgate.routing.statistics import UNKNOWN_SELECTIVITY, Monitor, Outcome
from headgate.spark.eddies.assignment import Assignment, Count, Step, Told

# the rate of what comes in is that of so many seconds
_RATE_S = 10.0
# pools are not at work all of the time: between jobs, and while a call is on its way
_HEADROOM = 1.1
# a line that is longer than what comes in within this time makes for a larger rate
_EMPTY_S = 5.0
# with others in line, a job ends before all its tuples are settled
_LEFT_OVER = 0.25
# before anything is known, every predicate takes the same
_UNKNOWN_S = 0.01


@dataclass(frozen=True)
class PoolStatus:
    """A pool so far. ``busy_s`` adds up the slots."""

    slots: int
    calls: int
    passed: int
    busy_s: float


class Pools:
    """Shared by all eddies of a run; safe to ask from several threads."""

    def __init__(self, pools: Iterable[PoolDefinition], eddies: Iterable[Eddy], router: Router) -> None:
        eddies = tuple(eddies)
        self.router = router
        self._lock = threading.Lock()
        self._routing = threading.Lock()
        self._slots = {pool.name: pool.slots for pool in pools}
        self._pool_of = {step_name(eddy, n): p.pool for eddy in eddies for n, p in enumerate(eddy.predicates)}
        self._monitors = {name: Monitor() for name in self._pool_of}
        self._counts = {name: Count() for name in self._pool_of}
        self._came: dict[str, deque[tuple[float, int]]] = {eddy.name: deque() for eddy in eddies}
        if eddies:
            router.prepare(self._network(eddies))

    def _network(self, eddies: tuple[Eddy, ...]) -> RoutingNetwork:
        """The eddies as routing sees them: a pool's second is a unit of resource, whatever its slots."""
        users = list(self._pool_of.values())
        shared = {pool for pool in users if users.count(pool) > 1}
        operators = {
            name: PlacedOperator(
                name,
                per_tuple=_UNKNOWN_S,
                selectivity=UNKNOWN_SELECTIVITY,
                resource=None if pool in shared else 1.0,
                node=pool if pool in shared else None,
            )
            for name, pool in self._pool_of.items()
        }
        plans = {
            eddy.name: AnyOrder(
                eddy.name, eddy.name, tuple(step_name(eddy, n) for n in range(len(eddy.predicates)))
            )
            for eddy in eddies
        }
        return RoutingNetwork(
            rates=dict.fromkeys((eddy.name for eddy in eddies), 1.0),
            operators=operators,
            plans=plans,
            nodes=dict.fromkeys(sorted(shared), 1.0),
        )

    def alter(self, pool: str, slots: int) -> None:
        """Give a pool another number of slots; counts from the next job on."""
        if slots < 1:
            raise SetupError("a pool without slots serves nobody; 1 or more")
        with self._lock:
            known = {name.lower(): name for name in self._slots}
            if pool.lower() not in known:
                raise SetupError(f"unknown pool {pool}; known: {known_names(list(self._slots))}")
            self._slots[known[pool.lower()]] = slots

    def slots(self) -> dict[str, int]:
        """Of every pool, now."""
        with self._lock:
            return dict(self._slots)

    def status(self) -> dict[str, PoolStatus]:
        """What every pool has done so far."""
        with self._lock:
            totals = {pool: Count() for pool in self._slots}
            for name, pool in self._pool_of.items():
                totals[pool].add(self._counts[name])
            return {
                pool: PoolStatus(self._slots[pool], total.done, total.out, total.busy_s)
                for pool, total in totals.items()
            }

    def came(self, eddy: str, tuples: int) -> None:
        """Note what came into an eddy."""
        with self._lock:
            self._came[eddy].append((time.time(), tuples))

    def monitors(self, names: Iterable[str]) -> dict[str, Monitor]:
        """What is known of predicates."""
        with self._lock:
            return {name: self._monitors[name] for name in names}

    def view(self, eddy: str, now_s: float, waiting: Mapping[str, int]) -> RoutingView:
        """What the router may know; its rates are those at which lines get empty in a while."""
        with self._lock:
            statistics = {name: monitor.published for name, monitor in self._monitors.items()}
            came = self._rates(now_s)
            rates = {name: _HEADROOM * rate + waiting[name] / _EMPTY_S for name, rate in came.items()}
            return RoutingView(statistics, eddy, now_s, rates)

    def _rates(self, now_s: float) -> dict[str, float]:
        rates = {}
        for eddy, came in self._came.items():
            while len(came) > 1 and came[0][0] < now_s - _RATE_S:
                came.popleft()
            # the first block tells when counting began
            seconds = now_s - came[0][0] if came else 0.0
            if seconds > 1.0 and len(came) > 1:
                rates[eddy] = sum(tuples for _, tuples in list(came)[1:]) / seconds
        return rates

    def assigned(
        self,
        plan: str,
        steps: tuple[Step, ...],
        budget_s: float,
        lock_folder: str | None,
        seed: int,
        waiting: Mapping[str, int],
    ) -> Assignment:
        """What a job is told that begins now; ``waiting`` are the tuples in line before every eddy."""
        now_s = time.time()
        view = self.view(plan, now_s, waiting)
        with self._routing:
            # a router that solves its weights does so here, and not in every task
            self.router.route((), [step.name for step in steps], view)
            router = copy.deepcopy(self.router)
        slots = self.slots()
        return Assignment(
            plan=plan,
            steps=steps,
            slots={step.pool: slots[step.pool] for step in steps},
            lock_folder=lock_folder,
            budget_s=budget_s,
            left_over=_LEFT_OVER if waiting[plan] else 0.0,
            router=router,
            monitors=self.monitors(step.name for step in steps),
            rates=view.rates,
            now_s=now_s,
            seed=seed,
        )

    def take_in(self, told: Told) -> None:
        """A job tells what it has done and learnt."""
        with self._lock:
            self._monitors.update(told.monitors)
            for name, count in told.counts.items():
                self._counts[name].add(count)
        with self._routing:
            for name, did in told.counts.items():
                self.router.learn(
                    Outcome(name, did.tuples_in, did.done, did.out, did.busy_s, 0.0, told.active_s)
                )


def step_name(eddy: Eddy, number: int) -> str:
    """What routing calls a predicate of an eddy."""
    return f"{eddy.name}.{number}"
