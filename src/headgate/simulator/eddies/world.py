"""The state of a simulated eddy as arrays of rows for the compiled loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from headgate.errors import SetupError
from headgate.model.uniform_hash import exponential, key_of, mix, uniform
from headgate.routing.monitor import UNKNOWN_SELECTIVITY
from headgate.routing.routing_network import MOST_OPERATORS, SHARED, Paths, RoutingNetwork
from headgate.routing.solution import Flows
from headgate.simulator.eddies import EddyRun
from headgate.simulator.results import Report, Rows, row, silent

_MOST_COPIES = 8
_MOST_PATHS = 64
# of one tuple: there must be room for all of them at once
_MOST_RESULTS = 10_000

CHECK_S = 1.0
"""Time between two checks of the load of nodes."""
ARRIVAL, DONE, TIMER, DELIVERY, MESSAGE, BALANCE = range(6)
"""Kinds of events."""
NONE = -1
POLICIES = ("t", "q", "sc", "wsc", "scq", "wscq", "optimal")
"""Policies of the compiled loop; any other number stands for a router in Python."""

# ``next`` links a tuple into the queue, the page or the list of free rows that contains it
TUPLE = row(i8="done", u8="identity", f8="birth", i4="next plan copy place visits path")
EVENT = row(f8="time", i4="kind which", i8="number")
SOURCE = row(f8="gap", u8="key gap_key", i8="emitted", i4="node plan_at plan_end")
PLAN = row(i4="size is_listed paths", f8="response", i8="delivered")
OPERATOR = row(
    f8="per_tuple busy area recent_work", u8="hash_key service_key", i4="copies", i8="visits passed"
)
# ``attained`` is the service that every busy box has got until ``updated``; ``number`` is that of the event
# that ends the next service
NODE = row(f8="speed attained updated quiet_until", i4="boxes busy serving turn", i8="number length longest")
# ``ends`` is the attained service at which the service in progress ends, ``old_...`` what other nodes know
# until the latest message arrives; fields from ``begin_s`` to ``known_...`` are those of ``Monitor``
COPY = row(
    i4="operator node active head tail",
    f8="ends started born busy_lately recent_work begin_s changed_s tickets queue_s busy_s "
    "known_queue known_tickets known_selectivity known_seconds "
    "old_queue old_tickets old_selectivity old_seconds",
    i8="queue done out",
)
LINK = row(f8="bytes_per_s free", i4="head tail length", i8="number")
PAGE = row(i4="head next")
SETTINGS = row(
    i4="policy exponential by_turns has_links is_sharing page_tuples",
    f8="interval_s tuple_bytes page_timer_s warm_up_s slowest_message_s",
    i8="interval_tuples ticket_limit stop_at split_at accept_below tuples",
    u8="route_key path_key",
)
STATE = row(
    f8="now overloaded",
    i8="events free_tuple free_tuples free_page free_pages copies "
    "emitted messages pages splits slides merges",
)
# tuples that wait for a router in Python, all at one node
WAITING = row(i4="head tail node")


class World(NamedTuple):
    """All rows of a run; ``settings``, ``state`` and ``waiting`` have one row each."""

    settings: Rows
    state: Rows
    waiting: Rows
    tuples: Rows
    events: Rows
    sources: Rows
    plans: Rows
    operators: Rows
    nodes: Rows
    copies: Rows
    links: Rows
    pages: Rows
    plan_operators: Rows
    """By plan and place."""
    needs: Rows
    """By plan and place: bitmap of the operators that must precede it."""
    selectivities: Rows
    """By plan and place."""
    follows: Rows
    """By listed plan, state and place: the next state, or -1."""
    copies_of: Rows
    """By operator: its copies."""
    paths: Rows
    """By plan and path: the places in order, for ``optimal``."""
    path_bounds: Rows
    """By plan and path: upper end of the part of [0, 1) that takes it."""
    boxes_of: Rows
    """By node: the copies on it."""
    candidates: Rows
    scores: Rows


def with_more_room(world: World) -> World:
    """The same world with more free rows for tuples, pages and events."""
    tuples, pages = _longer(world.tuples, 16_384), _longer(world.pages, 4096)
    state = world.state
    for old, new, free, count in (
        (world.tuples, tuples, "free_tuple", "free_tuples"),
        (world.pages, pages, "free_page", "free_pages"),
    ):
        # the new rows go to the front of the list of free ones
        new["next"][len(old) :] = np.arange(len(old) + 1, len(new) + 1)
        new["next"][-1] = state[free][0] if len(old) else NONE
        state[free] = len(old)
        state[count] += len(new) - len(old)
    return world._replace(tuples=tuples, pages=pages, events=_longer(world.events, 4096))


def _longer(rows: Rows, least: int) -> Rows:
    longer = np.zeros(max(least, 2 * len(rows)), rows.dtype)
    longer[: len(rows)] = rows
    return longer


class WorldBuilder:
    """The order of sources, plans, operators and nodes in the rows, and the initial rows."""

    def __init__(self, run: EddyRun, report: Report = silent) -> None:
        self.run = run
        self.report = report
        network = run.network
        self.sources = list(network.rates)
        self.plans = sorted(network.plans, key=lambda name: self.sources.index(network.plans[name].source))
        self.operators = list(network.operators)
        self.nodes = {f"node {name}": resource for name, resource in network.nodes.items()}
        """The resource of every node.

        Operators without a node have one of their own; those on the shared resource begin with equal parts.
        """
        alone = {name: network.server_of(name) for name, op in network.operators.items() if not op.node}
        parts = {SHARED: list(alone.values()).count(SHARED)}
        self.nodes |= {name: network.servers[server] / parts.get(server, 1) for name, server in alone.items()}
        numbers = {node: number for number, node in enumerate(self.nodes)}
        placed = network.operators.items()
        self._node_of = [numbers[name if op.node is None else f"node {op.node}"] for name, op in placed]
        per_tuple = np.array([operator.per_tuple for operator in network.operators.values()])
        self.seconds = per_tuple / np.array(list(self.nodes.values()))[self._node_of]
        """Mean service time of every operator, on the node that it is on at first."""
        for name, plan in network.plans.items():
            if len(plan.operators) > MOST_OPERATORS:
                raise SetupError(f"plans.{name} has over {MOST_OPERATORS} operators, too many to simulate")
            for operator in plan.operators:
                results = network.operators[operator].selectivity_of(plan.source)
                if results > _MOST_RESULTS:
                    many = f"operators.{operator}.selectivity = {results:g} is too high to simulate"
                    raise SetupError(f"{many}; write {_MOST_RESULTS:,} at most")

    def planned_network(self) -> RoutingNetwork:
        """The network at the rate of the run."""
        network = self.run.network
        return replace(network, rates={name: self.run.rate * part for name, part in network.shares().items()})

    def world(self) -> World:
        """The initial rows, with the first events scheduled."""
        network = self.run.network
        plans = [network.plans[name] for name in self.plans]
        size = max(len(plan.operators) for plan in plans)
        states = max(len(plan.states) if isinstance(plan, Paths) else 1 for plan in plans)
        most = len(self.operators) * min(_MOST_COPIES, len(self.nodes))
        world = World(
            settings=self._settings(),
            state=np.zeros(1, STATE),
            waiting=np.full(1, NONE, WAITING),
            tuples=np.zeros(0, TUPLE),
            events=np.zeros(4096, EVENT),
            sources=np.zeros(len(self.sources), SOURCE),
            plans=np.zeros(len(plans), PLAN),
            operators=np.zeros(len(self.operators), OPERATOR),
            nodes=np.zeros(len(self.nodes), NODE),
            copies=np.zeros(most, COPY),
            links=self._links(),
            pages=np.zeros(0, PAGE),
            plan_operators=np.full((len(plans), size), -1, np.int32),
            needs=np.zeros((len(plans), size), np.int64),
            selectivities=np.zeros((len(plans), size)),
            follows=np.full((len(plans), states, size), -1, np.int32),
            copies_of=np.zeros((len(self.operators), len(self.nodes) + 1), np.int32),
            paths=np.full((len(plans), _MOST_PATHS, size), -1, np.int32),
            path_bounds=np.ones((len(plans), _MOST_PATHS)),
            boxes_of=np.full((len(self.nodes), most), -1, np.int32),
            candidates=np.zeros((most + 1, 2), np.int32),
            scores=np.zeros(most + 1),
        )
        world.state["copies"] = len(self.operators)
        world.state["overloaded"] = -1.0
        self._fill_sources(world)
        self._fill_operators(world)
        for number in range(len(plans)):
            self._fill_plan(world, number)
        self._schedule_first_events(world)
        return with_more_room(world)

    def _settings(self) -> Rows:
        run, settings = self.run, np.zeros(1, SETTINGS)
        values: dict[str, Any] = {
            "policy": POLICIES.index(str(run.policy)) if run.policy in POLICIES else len(POLICIES),
            "exponential": run.service == "exponential",
            "by_turns": run.boxes == "by turns",
            "has_links": run.links is not None,
            "is_sharing": run.sharing is not None,
            "interval_s": run.intervals.seconds,
            "interval_tuples": run.intervals.tuples,
            "ticket_limit": run.ticket_limit,
            "stop_at": run.stop_at,
            "tuples": run.tuples,
            "warm_up_s": run.warm_up_s,
            "route_key": key_of(run.seed, "route", ""),
            "path_key": key_of(run.seed, "path", ""),
            **(vars(run.sharing) if run.sharing else {}),
            **(vars(run.links) if run.links else {}),
        }
        if run.links is not None:
            values["slowest_message_s"] = run.links.tuple_bytes / values.pop("bytes_per_s")[0]
        for key, value in values.items():
            settings[key] = value
        return settings

    def _links(self) -> Rows:
        links = self.run.links
        found = np.zeros(len(self.nodes) ** 2 if links is not None else 1, LINK)
        found["head"] = found["tail"] = -1
        if links is not None:
            least, most = links.bytes_per_s
            key = key_of(self.run.seed, "link", "")
            chances = [uniform(key, mix(number)) for number in range(len(found))]
            found["bytes_per_s"] = least + (most - least) * np.array(chances)
        return found

    def _fill_sources(self, world: World) -> None:
        run = self.run
        shares = run.network.shares()
        owners = [run.network.plans[name].source for name in self.plans]
        for source, name in zip(world.sources, self.sources, strict=True):
            rate = run.rate * shares[name]
            source["gap"] = 1.0 / rate if rate > 0 else np.inf
            source["key"] = key_of(run.seed, "source", name)
            source["gap_key"] = key_of(run.seed, "gap", name)
            node = run.source_nodes.get(name)
            source["node"] = -1 if node is None else list(self.nodes).index(f"node {node}")
            source["plan_at"] = owners.index(name)
            source["plan_end"] = owners.index(name) + owners.count(name)

    def _fill_operators(self, world: World) -> None:
        """Operators, nodes, and one copy of each operator on its node."""
        operators, nodes, copies = world.operators, world.nodes, world.copies[: len(self.operators)]
        operators["per_tuple"] = [operator.per_tuple for operator in self.run.network.operators.values()]
        # the word is part of the hash: another one would change all results
        operators["hash_key"] = [key_of(self.run.seed, "fate", name) for name in self.operators]
        operators["service_key"] = [key_of(self.run.seed, "service", name) for name in self.operators]
        operators["copies"] = copies["active"] = 1
        copies["operator"] = world.copies_of[:, 0] = np.arange(len(operators))
        copies["node"], copies["head"] = self._node_of, NONE
        copies["known_selectivity"] = copies["old_selectivity"] = UNKNOWN_SELECTIVITY
        copies["known_seconds"] = copies["old_seconds"] = self.seconds
        nodes["speed"] = list(self.nodes.values())
        nodes["serving"] = NONE
        nodes["boxes"] = np.bincount(self._node_of, minlength=len(nodes))
        for node in range(len(nodes)):
            here = np.flatnonzero(copies["node"] == node)
            world.boxes_of[node, : len(here)] = here

    def _fill_plan(self, world: World, number: int) -> None:
        network, plan = self.run.network, self.run.network.plans[self.plans[number]]
        world.plans[number]["size"] = len(plan.operators)
        for place, name in enumerate(plan.operators):
            world.plan_operators[number, place] = self.operators.index(name)
            world.selectivities[number, place] = network.operators[name].selectivity_of(plan.source)
        if isinstance(plan, Paths):
            world.plans[number]["is_listed"] = 1
            for state, (_, moves) in enumerate(plan.states):
                for name, following in moves:
                    world.follows[number, state, plan.operators.index(name)] = following
        else:
            world.needs[number, : len(plan.needs)] = plan.needs

    def _schedule_first_events(self, world: World) -> None:
        firsts = [(self.run.intervals.seconds, MESSAGE, number) for number in range(len(self.operators))]
        firsts.append((CHECK_S, BALANCE, 0))
        for number, source in enumerate(world.sources):
            if np.isfinite(source["gap"]):
                chance = uniform(int(source["gap_key"]), mix(int(source["key"])))
                firsts.append((float(source["gap"]) * exponential(chance), ARRIVAL, number))
        for number, event in enumerate(sorted(firsts)):
            world.events[number] = (*event, 0)
        world.state["events"] = len(firsts)

    def set_paths(self, world: World, flows: Flows) -> None:
        """Set the paths of tuples that arrive from now on."""
        for number, name in enumerate(self.plans):
            plan = self.run.network.plans[name]
            parts = sorted(flows[name].items(), key=lambda item: -item[1])[:_MOST_PATHS]
            if isinstance(plan, Paths):
                # tuples inside refer to their path by number
                parts = [(path, flows[name].get(path, 0.0)) for path in plan.paths[:_MOST_PATHS]]
            total = sum(part for _, part in parts)
            world.paths[number] = -1
            for path, (order, _) in enumerate(parts):
                world.paths[number, path, : len(order)] = [plan.operators.index(op) for op in order]
            world.path_bounds[number, : len(parts)] = np.cumsum([part / total for _, part in parts])
            world.plans[number]["paths"] = len(parts)
