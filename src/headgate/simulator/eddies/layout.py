"""From an ``EddyRun`` to the rows of the compiled loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headgate.errors import SetupError
from headgate.routing.network import SHARED, RoutingNetwork
from headgate.routing.plans import AnyOrder, Paths
from headgate.routing.statistics import UNKNOWN_SELECTIVITY
from headgate.simulator.eddies import world as rows
from headgate.simulator.eddies.choice import POLICIES
from headgate.simulator.eddies.moves import ARRIVAL, LOOK, MESSAGE
from headgate.simulator.eddies.setting import EddyRun
from headgate.simulator.eddies.sharing import CHECK_S
from headgate.simulator.eddies.world import Rows, World
from headgate.simulator.fate import exponential, key_of, mixed, uniform

_MOST_COPIES = 8
_MOST_PATHS = 64
# bits of a bitmap of 64, less the sign
_MOST_OPERATORS = 62


class Layout:
    """The order of sources, plans, operators and nodes, and the rows they make."""

    def __init__(self, run: EddyRun) -> None:
        self.run = run
        network = run.network
        self.sources = list(network.rates)
        self.plans = sorted(network.plans, key=lambda name: self.sources.index(network.plans[name].source))
        self.operators = list(network.operators)
        self.nodes = node_speeds(network)
        self.node_of = {name: list(self.nodes).index(node_name(network, name)) for name in self.operators}
        for name in self.plans:
            if len(network.plans[name].operators) > _MOST_OPERATORS:
                raise SetupError(f"plans.{name} has over {_MOST_OPERATORS} operators")

    def resource_of(self, operator: str) -> float:
        """All of the node that an operator is on at first."""
        return list(self.nodes.values())[self.node_of[operator]]

    def world(self) -> World:
        """All rows, with the first event of everything scheduled."""
        network = self.run.network
        plans = [network.plans[name] for name in self.plans]
        size = max(len(plan.operators) for plan in plans)
        listed = [plan.states if isinstance(plan, Paths) else 1 for plan in plans]
        most = len(self.operators) * min(_MOST_COPIES, len(self.nodes))
        world = World(
            settings=self._settings(),
            state=np.zeros(1, rows.STATE),
            tuples=np.zeros(0, rows.TUPLE),
            events=np.zeros(4096, rows.EVENT),
            sources=self._sources(),
            plans=np.zeros(len(plans), rows.PLAN),
            operators=self._operators(),
            nodes=self._nodes(),
            copies=self._copies(most),
            links=self._links(),
            pages=np.zeros(0, rows.PAGE),
            source_plans=np.arange(len(plans), dtype=np.int32),
            plan_operators=np.full((len(plans), size), -1, np.int32),
            needs=np.zeros((len(plans), size), np.int64),
            selectivities=np.zeros((len(plans), size)),
            follows=np.full((len(plans), max(listed), size), -1, np.int32),
            copies_of=np.zeros((len(self.operators), len(self.nodes) + 1), np.int32),
            paths=np.full((len(plans), _MOST_PATHS, size), -1, np.int32),
            path_bounds=np.ones((len(plans), _MOST_PATHS)),
            boxes_of=self._boxes(most),
            candidates=np.zeros((most + 1, 2), np.int32),
            scores=np.zeros(most + 1),
        )
        world.copies_of[:, 0] = np.arange(len(self.operators))
        world.state["copies"] = len(self.operators)
        world.state["overloaded"] = -1.0
        for number, plan in enumerate(plans):
            self._fill_plan(world, number, plan)
        return grown(self._first_events(world))

    def _fill_plan(self, world: World, number: int, plan: AnyOrder | Paths) -> None:
        network = self.run.network
        world.plans[number]["size"] = len(plan.operators)
        for place, name in enumerate(plan.operators):
            world.plan_operators[number, place] = self.operators.index(name)
            world.selectivities[number, place] = network.operators[name].selectivity_of(plan.source)
        if isinstance(plan, AnyOrder):
            world.needs[number, : len(plan.needs)] = plan.needs
            return
        world.plans[number]["is_listed"] = 1
        for state in range(plan.states):
            for name, following in plan.moves(state):
                world.follows[number, state, plan.operators.index(name)] = following

    def set_paths(self, world: World, flows: Mapping[str, Mapping[tuple[str, ...], float]]) -> None:
        """Let tuples that arrive from now on take these paths."""
        for number, name in enumerate(self.plans):
            plan = self.run.network.plans[name]
            parts = sorted(flows[name].items(), key=lambda item: -item[1])[:_MOST_PATHS]
            if isinstance(plan, Paths):
                # tuples on their way keep the path of their number
                parts = [(path, flows[name].get(path, 0.0)) for path in plan.paths[:_MOST_PATHS]]
            total = sum(part for _, part in parts)
            world.paths[number] = -1
            for path, (order, _) in enumerate(parts):
                world.paths[number, path, : len(order)] = [plan.operators.index(op) for op in order]
            world.path_bounds[number, : len(parts)] = np.cumsum([part / total for _, part in parts])
            world.plans[number]["paths"] = len(parts)

    def _settings(self) -> Rows:
        run, row = self.run, np.zeros(1, rows.SETTINGS)
        values: dict[str, Any] = {
            "policy": POLICIES.index(run.policy),
            "exponential": run.service == "exponential",
            "has_links": run.links is not None,
            "is_sharing": run.sharing is not None,
            "interval_s": run.intervals.seconds,
            "interval_tuples": run.intervals.tuples,
            "overloaded_at": run.overloaded_at,
            "stop_at": run.stop_at,
            "warm_up_s": run.warm_up_s,
            "route_key": key_of(run.seed, "route", ""),
            "path_key": key_of(run.seed, "path", ""),
        }
        if run.sharing is not None:
            values |= {"split_at": run.sharing.split_at, "accept_below": run.sharing.accept_below}
        if run.links is not None:
            links = run.links
            values |= {"page_tuples": links.page_tuples, "tuple_bytes": links.tuple_bytes}
            values |= {"page_timer_s": links.page_timer_s}
        for key, value in values.items():
            row[key] = value
        return row

    def _sources(self) -> Rows:
        run, found = self.run, np.zeros(len(self.sources), rows.SOURCE)
        shares = run.network.shares()
        owners = [run.network.plans[name].source for name in self.plans]
        for number, name in enumerate(self.sources):
            row = found[number]
            rate = run.rate * shares[name]
            row["gap"] = 1.0 / rate if rate > 0 else np.inf
            row["key"] = key_of(run.seed, "source", name)
            row["gap_key"] = key_of(run.seed, "gap", name)
            node = run.source_nodes.get(name)
            row["node"] = -1 if node is None else list(self.nodes).index(f"node {node}")
            row["plan_at"] = owners.index(name)
            row["plan_end"] = owners.index(name) + owners.count(name)
        return found

    def _operators(self) -> Rows:
        found = np.zeros(len(self.operators), rows.OPERATOR)
        for number, name in enumerate(self.operators):
            row = found[number]
            row["per_tuple"] = self.run.network.operators[name].per_tuple
            row["fate_key"] = key_of(self.run.seed, "fate", name)
            row["service_key"] = key_of(self.run.seed, "service", name)
            row["copies"] = 1
        return found

    def _nodes(self) -> Rows:
        found = np.zeros(len(self.nodes), rows.NODE)
        found["speed"] = list(self.nodes.values())
        found["boxes"] = np.bincount(list(self.node_of.values()), minlength=len(self.nodes))
        return found

    def _boxes(self, most: int) -> Rows:
        found = np.full((len(self.nodes), most), -1, np.int32)
        for node in range(len(self.nodes)):
            here = [n for n, name in enumerate(self.operators) if self.node_of[name] == node]
            found[node, : len(here)] = here
        return found

    def _copies(self, most: int) -> Rows:
        found = np.zeros(most, rows.COPY)
        for number, name in enumerate(self.operators):
            row = found[number]
            row["operator"], row["node"], row["active"] = number, self.node_of[name], 1
            seconds = self.run.network.operators[name].per_tuple / self.resource_of(name)
            row["head"] = -1
            row["selectivity"] = UNKNOWN_SELECTIVITY
            for age in ("known", "old"):
                row[f"{age}_selectivity"], row[f"{age}_seconds"] = UNKNOWN_SELECTIVITY, seconds
        return found

    def _links(self) -> Rows:
        links, nodes = self.run.links, list(self.nodes)
        found = np.zeros(len(nodes) ** 2 if links is not None else 1, rows.LINK)
        found["head"] = found["tail"] = -1
        if links is not None:
            least, most = links.bytes_per_s
            key = key_of(self.run.seed, "link", "")
            chances = [uniform(key, mixed(number)) for number in range(len(found))]
            found["bytes_per_s"] = least + (most - least) * np.array(chances)
        return found

    def _first_events(self, world: World) -> World:
        firsts: list[tuple[float, int, int]] = []
        for number, source in enumerate(world.sources):
            if np.isfinite(source["gap"]):
                chance = uniform(int(source["gap_key"]), mixed(int(source["key"])))
                firsts.append((float(source["gap"]) * exponential(chance), ARRIVAL, number))
        for number in range(len(self.operators)):
            firsts.append((self.run.intervals.seconds, MESSAGE, number))
        firsts.append((CHECK_S, LOOK, 0))
        for number, (time, kind, which) in enumerate(sorted(firsts)):
            world.events[number] = (time, kind, which, 0)
        world.state["events"] = len(firsts)
        return world


def node_name(network: RoutingNetwork, operator: str) -> str:
    """Where an operator is at first: on its node, or on one of its own."""
    placed = network.operators[operator]
    return operator if placed.node is None else f"node {placed.node}"


def node_speeds(network: RoutingNetwork) -> dict[str, float]:
    """The resource of every node; those who share one begin with equal parts, on a node each."""
    sharing = [name for name in network.operators if network.server_of(name) == SHARED]
    speeds = {f"node {name}": resource for name, resource in network.nodes.items()}
    for name in network.operators:
        if network.operators[name].node is None:
            whole = network.servers[network.server_of(name)]
            speeds[name] = whole / len(sharing) if name in sharing else whole
    return speeds


def grown(world: World) -> World:
    """The same with room for more tuples, pages and events."""
    tuples, pages = _more(world.tuples, 16_384), _more(world.pages, 4096)
    state = world.state
    for kept, more, free, count in (
        (world.tuples, tuples, "free_tuple", "free_tuples"),
        (world.pages, pages, "free_page", "free_pages"),
    ):
        # the new rows go in front of the list of free ones
        more["next"][len(kept) :] = np.arange(len(kept) + 1, len(more) + 1)
        more["next"][-1] = state[free][0] if len(kept) else -1
        state[free] = len(kept)
        state[count] += len(more) - len(kept)
    return world._replace(tuples=tuples, pages=pages, events=_more(world.events, 4096))


def _more(kept: Rows, least: int) -> Rows:
    more = np.zeros(max(least, 2 * len(kept)), kept.dtype)
    more[: len(kept)] = kept
    return more
