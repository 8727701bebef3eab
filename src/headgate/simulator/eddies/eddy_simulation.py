"""Running an eddy in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headgate.errors import SetupError
from headgate.model.uniform_hash import mix, uniform
from headgate.routing import OperatorStatistics, Outcome, Router, RoutingView, router_named
from headgate.routing.policies import best_routing, learnt_network, next_operator
from headgate.runtime.usercode import routed
from headgate.simulator.eddies import EddyResult, EddyRun
from headgate.simulator.eddies.kernel import FULL, PAUSED, advance, is_drained
from headgate.simulator.eddies.moves import send_to_place
from headgate.simulator.eddies.world import NONE, POLICIES, World, WorldBuilder, with_more_room
from headgate.simulator.results import Report, Rows, silent

_MOST_TUPLES = 20_000_000
# a selectivity of fewer tuples is too noisy
_ENOUGH = 100


def simulate_eddy(run: EddyRun, report: Report = silent) -> EddyResult:
    """Run to the end; the same run always gives the same result. The share that is done is reported."""
    builder = WorldBuilder(run, report)
    world = builder.world()
    if run.policy == "optimal":
        world = _run_solving(builder, world)
    elif run.policy in POLICIES:
        world = _advance(builder, world, run.seconds)
    else:
        world = _Routing(builder).run(world)
    return _result(builder, world)


def _run_solving(builder: WorldBuilder, world: World) -> World:
    """Run by the policy ``optimal``, which averages selectivities counted between two solutions.

    Published ones cover a few intervals of 40 tuples, which is too noisy to solve for a load near 1.
    """
    run, until_s = builder.run, 0.0
    network, known = builder.planned_network(), dict[str, OperatorStatistics]()
    before = np.zeros((2, len(builder.operators)))
    while until_s < run.seconds and not (_is_stopped(world) or is_drained(world)):
        builder.set_paths(world, best_routing(network).flows)
        until_s = min(until_s + run.solve_every_s, run.seconds)
        world = _advance(builder, world, until_s)
        counts = np.array([world.operators["visits"], world.operators["passed"]])
        each = zip(builder.operators, *(counts - before), builder.seconds, strict=True)
        for name, visits, passed, seconds in each:
            if visits >= _ENOUGH:
                latest = float(passed / visits)
                earlier = known[name].selectivity if name in known else latest
                known[name] = OperatorStatistics(selectivity=(earlier + latest) / 2, seconds=float(seconds))
        before = counts
        network = learnt_network(run.network, known, _rates(builder, world, float(world.state["now"][0])))
    return world


def _advance(builder: WorldBuilder, world: World, until_s: float) -> World:
    """Process events until a time is reached, the run is stopped, or tuples wait for a router."""
    room = 64 + len(builder.plans) + int(np.max(world.selectivities)) + 2 * len(builder.nodes)
    while (reason := advance(world, until_s, room)) in (FULL, PAUSED):
        _report(builder, world)
        if reason == FULL:
            if len(world.tuples) > _MOST_TUPLES:
                raise SetupError(
                    f"the network holds over {_MOST_TUPLES:,} tuples; lower the rate or the time"
                )
            world = with_more_room(world)
    return world


def _report(builder: WorldBuilder, world: World) -> None:
    # queues may take longer to empty than to fill
    builder.report(min(1.0, float(world.state["now"][0]) / builder.run.sending_s))


def _is_stopped(world: World) -> bool:
    return bool(world.state["overloaded"][0] >= 0 and world.settings["stop_at"][0] > 0)


def _rates(builder: WorldBuilder, world: World, now_s: float) -> dict[str, float]:
    return dict(zip(builder.sources, (world.sources["emitted"] / now_s).tolist(), strict=True))


class _Routing:
    """Routes by a router in Python, which knows what it would know on the engine.

    Of an operator with several copies it knows the one with the shortest queue.
    """

    def __init__(self, builder: WorldBuilder) -> None:
        policy = builder.run.policy
        self._builder = builder
        self._router: Router = router_named(policy) if isinstance(policy, str) else policy
        self._messages = -1
        self._statistics: dict[str, OperatorStatistics] = {}
        self._learnt_s = 0.0
        self._counts = np.zeros((4, len(builder.operators)))
        self._router.prepare(builder.planned_network())

    def run(self, world: World) -> World:
        world = _advance(self._builder, world, self._builder.run.seconds)
        while world.waiting["head"][0] != NONE:
            self._send_waiting(world)
            _report(self._builder, world)
            if _is_stopped(world):
                break
            world = _advance(self._builder, world, self._builder.run.seconds)
        return world

    def _send_waiting(self, world: World) -> None:
        state, now_s = world.state[0], float(world.state[0]["now"])
        is_new = state["messages"] != self._messages
        if is_new:
            self._messages = int(state["messages"])
            self._learn(world, now_s)
        # messages arrive later at other nodes
        if is_new or self._builder.run.links is not None:
            known = self._published(world, now_s)
            self._statistics = dict(zip(self._builder.operators, known, strict=True))
        row, world.waiting["head"] = int(world.waiting["head"][0]), NONE
        while row != NONE:
            following = int(world.tuples[row]["next"])
            send_to_place(world, row, self._place(world, row, now_s), now_s)
            row = following

    def _place(self, world: World, row: int, now_s: float) -> int:
        """The place in a tuple's plan of the operator that it visits next."""
        waiting = world.tuples[row]
        name = self._builder.plans[waiting["plan"]]
        plan, state = self._builder.run.network.plans[name], int(waiting["done"])
        view = RoutingView(self._statistics, name, now_s, _rates(self._builder, world, now_s))
        eligible = [operator for operator, _ in plan.moves(state)]
        weights = routed(self._router, plan.done(state), eligible, view)
        key = int(world.settings["route_key"][0]) ^ int(waiting["visits"])
        return plan.operators.index(next_operator(weights, uniform(mix(key), int(waiting["identity"]))))

    def _published(self, world: World, now_s: float) -> Iterator[OperatorStatistics]:
        links, at_node = self._builder.run.links, int(world.waiting["node"][0])
        for number, operator in enumerate(world.operators):
            copies = world.copies[world.copies_of[number, : operator["copies"]]]
            copy = copies[np.argmin(copies["known_queue"])]
            age = "known"
            if links is not None and at_node not in (NONE, copy["node"]):
                link = world.links[copy["node"] * len(world.nodes) + at_node]
                if now_s < copy["begin_s"] + links.tuple_bytes / link["bytes_per_s"]:
                    age = "old"
            values = (copy[f"{age}_{key}"] for key in ("queue", "tickets", "selectivity", "seconds"))
            yield OperatorStatistics(*map(float, values))

    def _learn(self, world: World, now_s: float) -> None:
        """Report to the router what operators have done since the last report."""
        queues = np.zeros(len(self._builder.operators))
        np.add.at(queues, world.copies["operator"], world.copies["queue"])
        counts = np.array([world.operators[key] for key in ("visits", "passed", "busy")] + [queues])
        changes = counts - self._counts
        for number, name in enumerate(self._builder.operators):
            done, out, busy_s, longer = changes[:, number].tolist()
            if done or longer:
                elapsed_s = now_s - self._learnt_s
                self._router.learn(Outcome(name, done + longer, done, out, busy_s, queues[number], elapsed_s))
        self._counts, self._learnt_s = counts, now_s


def _result(builder: WorldBuilder, world: World) -> EddyResult:
    state, copies, operators = world.state[0], world.copies, world.operators
    seconds = float(state["now"])
    pending = np.zeros(len(operators))
    np.add.at(pending, copies["operator"], copies["queue"] * (seconds - copies["changed_s"]))
    work = operators["recent_work"]
    delivered = int(world.plans["delivered"].sum())
    overloaded = float(state["overloaded"])

    def by_operator(values: Rows) -> dict[str, Any]:
        return dict(zip(builder.operators, values.tolist(), strict=True))

    return EddyResult(
        policy=builder.run.policy_name,
        rate=builder.run.rate,
        seconds=seconds,
        art=float(world.plans["response"].sum()) / delivered if delivered else None,
        delivered=delivered,
        art_by_plan={
            name: float(row["response"] / row["delivered"]) if row["delivered"] else None
            for name, row in zip(builder.plans, world.plans, strict=True)
        },
        visits=by_operator(operators["visits"]),
        queue=by_operator((operators["area"] + pending) / seconds),
        utilisation=by_operator(operators["busy"] / seconds),
        longest_queue=dict(zip(builder.nodes, world.nodes["longest"].tolist(), strict=True)),
        shares=by_operator(work / max(work.sum(), 1e-300)),
        overloaded_s=overloaded if overloaded >= 0 else None,
        **{key: int(state[key]) for key in ("splits", "slides", "merges", "messages", "pages")},
    )
