"""Running an eddy in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headgate.errors import SetupError
from headgate.routing.learnt import best_routing, learnt_network
from headgate.routing.network import RoutingNetwork
from headgate.routing.statistics import Statistics
from headgate.simulator.eddies.kernel import FULL, advance
from headgate.simulator.eddies.layout import Layout, grown
from headgate.simulator.eddies.result import EddyResult
from headgate.simulator.eddies.setting import EddyRun
from headgate.simulator.eddies.world import World

_MOST_TUPLES = 20_000_000
# fewer tuples tell nothing of a selectivity
_ENOUGH = 100


def simulate_eddy(run: EddyRun) -> EddyResult:
    """Run to the end; the same run always gives the same result."""
    layout = Layout(run)
    world = layout.world()
    room = 64 + len(layout.plans) + int(np.max(world.selectivities)) + 2 * len(layout.nodes)
    if run.policy != "optimal":
        world = _advance(world, run.seconds, room)
        return _result(layout, world)
    now_s = 0.0
    learner = _Learner(layout)
    while now_s < run.seconds and not _stopped(world):
        layout.set_paths(world, best_routing(learner.network(world, now_s)).flows)
        now_s = min(now_s + run.solve_every_s, run.seconds)
        world = _advance(world, now_s, room)
    return _result(layout, world)


def _advance(world: World, until_s: float, room: int) -> World:
    while advance(world, until_s, room) == FULL:
        if len(world.tuples) > _MOST_TUPLES:
            raise SetupError(f"over {_MOST_TUPLES:,} tuples are in the network; lower the rate or the time")
        world = grown(world)
    return world


def _stopped(world: World) -> bool:
    return bool(world.state["overloaded"][0] >= 0 and world.settings["stop_at"][0] > 0)


class _Learner:
    """What ``optimal`` knows: selectivities counted between two solutions, and averaged over some of them.

    Published ones are of a few intervals of 40 tuples. That is too noisy to solve for a load near 1.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, Statistics] = {}
        self._visits = np.zeros(len(layout.operators))
        self._passed = np.zeros(len(layout.operators))

    def network(self, world: World, now_s: float) -> RoutingNetwork:
        """As it has shown itself; at first, as the plan has it."""
        layout = self._layout
        network = layout.run.network
        if now_s <= 0:
            rates = {name: layout.run.rate * share for name, share in network.shares().items()}
            return replace(network, rates=rates)
        visits, passed = world.operators["visits"] - self._visits, world.operators["passed"] - self._passed
        self._visits, self._passed = world.operators["visits"].copy(), world.operators["passed"].copy()
        for number, name in enumerate(layout.operators):
            if visits[number] < _ENOUGH:
                continue
            latest = float(passed[number] / visits[number])
            before = self._known[name].selectivity if name in self._known else latest
            seconds = network.operators[name].per_tuple / layout.resource_of(name)
            self._known[name] = Statistics(selectivity=(before + latest) / 2, seconds=seconds)
        emitted = world.sources["emitted"] / now_s
        return learnt_network(network, self._known, dict(zip(layout.sources, emitted.tolist(), strict=True)))


def _result(layout: Layout, world: World) -> EddyResult:
    state = world.state[0]
    seconds = float(state["now"])
    copies = world.copies
    pending = np.zeros(len(layout.operators))
    np.add.at(pending, copies["operator"], copies["length"] * (seconds - copies["changed"]))
    areas = world.operators["area"] + pending
    work = world.operators["recent_work"]
    delivered = int(world.plans["delivered"].sum())
    overloaded = float(state["overloaded"])
    return EddyResult(
        policy=layout.run.policy,
        rate=layout.run.rate,
        seconds=seconds,
        art=float(world.plans["response"].sum()) / delivered if delivered else None,
        delivered=delivered,
        art_by_plan={
            name: float(row["response"] / row["delivered"]) if row["delivered"] else None
            for name, row in zip(layout.plans, world.plans, strict=True)
        },
        visits=dict(zip(layout.operators, world.operators["visits"].tolist(), strict=True)),
        queue=dict(zip(layout.operators, (areas / seconds).tolist(), strict=True)),
        utilisation=dict(zip(layout.operators, (world.operators["busy"] / seconds).tolist(), strict=True)),
        longest_queue=dict(zip(layout.nodes, world.nodes["longest"].tolist(), strict=True)),
        shares=dict(zip(layout.operators, (work / max(work.sum(), 1e-300)).tolist(), strict=True)),
        overloaded_s=overloaded if overloaded >= 0 else None,
        splits=int(state["splits"]),
        slides=int(state["slides"]),
        merges=int(state["merges"]),
        messages=int(state["messages"]),
        pages=int(state["pages"]),
        steps=int(state["steps"]),
    )
