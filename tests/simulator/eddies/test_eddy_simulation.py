"""Eddies in virtual time: closed forms, the analysis, and what nodes, links and messages do."""

from __future__ import annotations

import math
import pickle
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headgate.errors import UserCodeError
from headgate.experiments.eddies import sharing_selections as ds3
from headgate.experiments.eddies import three_selections as s3
from headgate.experiments.eddies import three_streams as j3
from headgate.experiments.eddy_plans import windows_first
from headgate.routing import (
    Outcome,
    RoutingView,
    largest_rate,
    least_response_time,
    router_named,
    router_names,
)
from headgate.routing.routing_network import AnyOrder, Paths, PlacedOperator, RoutingNetwork
from headgate.simulator.eddies import EddyRun, Links, LoadSharing
from headgate.simulator.eddies.eddy_simulation import simulate_eddy

# the loop is compiled when it is first used, which takes half a minute
pytestmark = pytest.mark.slow


def one_server(rate: float, seconds_per_tuple: float) -> RoutingNetwork:
    operators = {"a": PlacedOperator("a", seconds_per_tuple, 1.0, 1.0)}
    return RoutingNetwork({"s": rate}, operators, {"p": AnyOrder("p", "s", ("a",))})


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_operator_is_an_m_m_1_queue(load: float) -> None:
    found = simulate_eddy(EddyRun(one_server(100, load / 100), "q", 100.0, 4000.0))
    assert found.art == pytest.approx(load / 100 / (1 - load), rel=0.03)
    assert found.queue["a"] == pytest.approx(load / (1 - load), rel=0.03)
    assert found.utilisation["a"] == pytest.approx(load, rel=0.01)


def test_one_operator_with_constant_service_is_an_m_d_1_queue() -> None:
    found = simulate_eddy(EddyRun(one_server(100, 0.008), "q", 100.0, 4000.0, service="constant"))
    assert found.art == pytest.approx(0.008 * (1 + 0.8 / (2 * 0.2)), rel=0.03)


def test_a_tandem_is_a_jackson_network() -> None:
    seconds = {"a": 0.005, "b": 0.00625, "c": 0.008}
    operators = {name: PlacedOperator(name, s, 1.0, 1.0) for name, s in seconds.items()}
    network = RoutingNetwork({"s": 100.0}, operators, {"p": Paths("p", "s", (tuple(seconds),))})
    found = simulate_eddy(EddyRun(network, "q", 100.0, 4000.0))
    expected = {name: 100 * s / (1 - 100 * s) for name, s in seconds.items()}
    assert found.queue == pytest.approx(expected, rel=0.05)
    assert found.art == pytest.approx(sum(expected.values()) / 100, rel=0.03)


def test_random_routing_is_a_jackson_network() -> None:
    # half of the tuples in either order, by equal benefits; a quarter of the tuples is left at the end
    operators = {name: PlacedOperator(name, 0.01, 0.5, 1.0) for name in "ab"}
    network = RoutingNetwork({"s": 100.0}, operators, {"p": AnyOrder("p", "s", ("a", "b"))})
    found = simulate_eddy(EddyRun(network, "wsc", 100.0, 4000.0))
    assert found.visits["a"] == pytest.approx(found.visits["b"], rel=0.1)
    # 75 tuples a second into each: three waiting on average
    assert sum(found.queue.values()) == pytest.approx(6.0, rel=0.1)
    assert found.delivered == pytest.approx(0.25 * 100 * 4000, rel=0.02)


def test_a_tuple_that_multiplies_loads_what_follows() -> None:
    operators = {
        "grow": PlacedOperator("grow", 0.001, 2.5, 1.0),
        "after": PlacedOperator("after", 0.001, 1.0, 1.0),
    }
    network = RoutingNetwork({"s": 100.0}, operators, {"p": Paths("p", "s", (("grow", "after"),))})
    found = simulate_eddy(EddyRun(network, "q", 100.0, 500.0))
    assert found.visits["after"] / found.visits["grow"] == pytest.approx(2.5, rel=0.01)


def test_a_run_of_so_many_tuples_ends_with_the_last_one() -> None:
    # twice as many arrive as are served: the last of 2000 has waited for the service of half of them
    found = simulate_eddy(EddyRun(one_server(100, 0.02), "q", 100.0, math.inf, tuples=2000))
    assert found.visits["a"] == found.delivered == 2000
    assert found.seconds == pytest.approx(40.0, rel=0.1)
    assert found.art == pytest.approx(2000 / 2 * (0.02 - 0.01), rel=0.1)


@pytest.mark.parametrize("policy", ["optimal", "wscq", router_named("wscq")])
def test_all_tuples_of_a_run_leave_under_every_kind_of_router(policy: Any) -> None:
    found = simulate_eddy(EddyRun(s3(), policy, 220.0, math.inf, tuples=1000))
    # every tuple is dropped by an operator or delivered
    assert sum(found.visits.values()) >= 1000 and found.delivered == pytest.approx(40, abs=20)
    assert found.seconds == pytest.approx(1000 / 220, rel=0.3)


@pytest.mark.parametrize("rate", [200.0, 220.0])
def test_optimal_reaches_the_response_time_of_the_analysis(rate: float) -> None:
    found = simulate_eddy(EddyRun(s3(), "optimal", rate, 2000.0))
    assert found.art == pytest.approx(least_response_time(s3(), rate).art(rate), rel=0.1)


def test_listed_paths_are_kept_to() -> None:
    found = simulate_eddy(EddyRun(j3(), "optimal", 120.0, 500.0))
    # of A a tenth goes on to op5, of C two fifths to op3, of B all go to both in some order
    assert found.visits["op4"] == pytest.approx(40 * 500, rel=0.02)
    assert found.art == pytest.approx(0.0809, rel=0.05)


def test_operators_that_must_wait_for_others_do() -> None:
    operators = {name: PlacedOperator(name, 0.001, 0.5, 1.0) for name in "abc"}
    plan = AnyOrder("p", "s", ("a", "b", "c"), before=(("b", "a"), ("c", "b")))
    for policy in ("q", "wscq", "optimal"):
        found = simulate_eddy(
            EddyRun(RoutingNetwork({"s": 100.0}, operators, {"p": plan}), policy, 100.0, 200.0)
        )
        assert found.visits["c"] > 1.8 * found.visits["b"] > 3.2 * found.visits["a"]


def test_policies_meet_the_same_tuples_with_the_same_outcomes() -> None:
    found = [simulate_eddy(EddyRun(s3(), policy, 150.0, 100.0)) for policy in ("q", "sc", "wscq", "optimal")]
    # all but those that are still on their way
    delivered = [result.delivered for result in found]
    assert max(delivered) - min(delivered) <= 5


def test_a_run_is_a_value_and_gives_the_same_again() -> None:
    run = EddyRun(s3(), "wscq", 220.0, 50.0, seed=3)
    again = pickle.loads(pickle.dumps(run))
    assert simulate_eddy(run) == simulate_eddy(again)
    assert simulate_eddy(replace(run, seed=4)).art != simulate_eddy(run).art


class Reversed:
    """A user's router: always the last of the eligible operators."""

    name = "reversed"

    def __init__(self) -> None:
        self.views: list[RoutingView] = []
        self.outcomes: list[Outcome] = []

    def prepare(self, network: RoutingNetwork) -> None:
        self.network = network

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        self.views.append(view)
        return {eligible[-1]: 1.0}

    def learn(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


@pytest.mark.parametrize("policy", [name for name in router_names() if name != "optimal"])
def test_a_router_in_python_decides_as_the_compiled_policy_does(policy: str) -> None:
    nodes = windows_first(1, plans=2, operators=(4, 6), nodes=3)
    over_links = EddyRun(nodes, policy, 80.0, 20.0, links=Links())
    for run in (EddyRun(s3(), policy, 220.0, 20.0), over_links, replace(over_links, boxes="by turns")):
        assert simulate_eddy(replace(run, policy=router_named(policy))) == simulate_eddy(run)


def test_a_router_of_the_users_knows_what_it_would_on_the_engine() -> None:
    router = Reversed()
    found = simulate_eddy(EddyRun(s3(), router, 100.0, 50.0))
    assert found.policy == "reversed"
    # op3 first, then op2
    assert found.visits["op3"] > 2 * found.visits["op2"] > 4 * found.visits["op1"]
    assert router.network.rates == {"op0": 100.0}
    last = router.views[-1]
    assert (last.plan, set(last.statistics)) == ("s3", {"op1", "op2", "op3"})
    assert last.statistics["op3"].selectivity == pytest.approx(0.4, abs=0.15)
    assert last.rates["op0"] == pytest.approx(100, rel=0.1)
    for name in ("op1", "op2", "op3"):
        own = [outcome for outcome in router.outcomes if outcome.operator == name]
        assert sum(o.tuples_done for o in own) == pytest.approx(found.visits[name], rel=0.02)
        assert sum(o.tuples_in - o.tuples_done for o in own) == own[-1].queue


def test_copies_of_an_operator_share_what_a_router_of_the_users_sends_there() -> None:
    run = EddyRun(ds3(), Reversed(), 300.0, 60.0, sharing=LoadSharing(100, 2000))
    found = simulate_eddy(run)
    assert found.splits >= 1
    assert simulate_eddy(replace(run, stop_at=300)).overloaded_s is not None


def test_a_router_of_the_users_that_fails_is_named() -> None:
    class Lost(Reversed):
        name = "lost"

        def route(self, done: Any, eligible: Any, view: Any) -> dict[str, float]:
            return {"nowhere": 1.0}

    with pytest.raises(UserCodeError, match=r"router lost returned \{'nowhere': 1.0\}; route must return"):
        simulate_eddy(EddyRun(s3(), Lost(), 100.0, 5.0))


def two_nodes() -> RoutingNetwork:
    operators = {
        "a": PlacedOperator("a", 0.001, 1.0, None, "n1"),
        "b": PlacedOperator("b", 0.001, 1.0, None, "n2"),
    }
    plans = {"p": Paths("p", "s", (("a", "b"),))}
    return RoutingNetwork({"s": 20.0}, operators, plans, nodes={"n1": 1.0, "n2": 1.0})


def test_pages_wait_until_they_are_full_or_the_timer_is_over() -> None:
    plain = simulate_eddy(EddyRun(two_nodes(), "q", 20.0, 300.0))
    paged = simulate_eddy(EddyRun(two_nodes(), "q", 20.0, 300.0, links=Links()))
    # 20 tuples a second: the timer ends a page after a second, in which a tuple waits for half of it
    assert paged.art == pytest.approx(plain.art + 0.5, rel=0.1)
    assert paged.pages == pytest.approx(300, rel=0.1)
    quick = simulate_eddy(EddyRun(two_nodes(), "q", 400.0, 100.0, links=Links()))
    # 400 a second fill a page of 40 in a tenth of a second
    assert quick.pages == pytest.approx(1000, rel=0.05)
    assert quick.art < 0.1


def test_a_slow_link_is_a_queue_of_pages() -> None:
    links = Links(bytes_per_s=(1500.0, 1500.0))
    # 20 tuples of 100 bytes a second do not pass through 1500 bytes a second
    found = simulate_eddy(EddyRun(two_nodes(), "q", 20.0, 200.0, links=links))
    assert found.visits["b"] == pytest.approx(0.75 * found.visits["a"], rel=0.05)


@pytest.mark.parametrize("boxes", ["in parallel", "by turns"])
def test_boxes_of_a_node_share_it(boxes: Any) -> None:
    operators = {name: PlacedOperator(name, 0.004, 1.0, None, "n") for name in "ab"}
    network = RoutingNetwork(
        {"s": 50.0, "t": 50.0},
        operators,
        {"p": AnyOrder("p", "s", ("a",)), "q": AnyOrder("q", "t", ("b",))},
        nodes={"n": 1.0},
    )
    found = simulate_eddy(EddyRun(network, "q", 100.0, 3000.0, boxes=boxes))
    # equal service times: in all as many tuples as in one queue
    assert sum(found.queue.values()) == pytest.approx(0.4 / 0.6, rel=0.05)


@pytest.mark.parametrize(("boxes", "tuples_per_s"), [("in parallel", (5.0, 0.5)), ("by turns", (0.91, 0.91))])
def test_a_busy_box_gets_half_of_its_node_or_every_second_tuple(
    boxes: Any, tuples_per_s: tuple[float, float]
) -> None:
    operators = {"a": PlacedOperator("a", 0.1, 1.0, None, "n"), "b": PlacedOperator("b", 1.0, 1.0, None, "n")}
    plans = {name: AnyOrder(name, f"s{name}", (name,)) for name in operators}
    network = RoutingNetwork({"sa": 50.0, "sb": 50.0}, operators, plans, nodes={"n": 1.0})
    found = simulate_eddy(EddyRun(network, "q", 100.0, 500.0, boxes=boxes))
    assert [found.visits[name] / 500 for name in "ab"] == pytest.approx(tuples_per_s, rel=0.1)


def test_messages_come_after_so_many_tuples_or_seconds() -> None:
    busy = simulate_eddy(EddyRun(one_server(100, 0.001), "q", 100.0, 100.0))
    assert busy.messages == pytest.approx(100 * 100 / 40, rel=0.05)
    idle = simulate_eddy(EddyRun(one_server(1, 0.001), "q", 1.0, 100.0))
    assert idle.messages == 20


def test_an_overloaded_box_is_split_and_merges_when_it_is_not_needed() -> None:
    operators = {"a": PlacedOperator("a", 1.0, 0.5, None, "n1")}
    network = RoutingNetwork(
        {"s": 15.0}, operators, {"p": AnyOrder("p", "s", ("a",))}, nodes={"n1": 10.0, "n2": 10.0}
    )
    alone = simulate_eddy(EddyRun(network, "scq", 15.0, 400.0))
    shared = simulate_eddy(EddyRun(network, "scq", 15.0, 400.0, sharing=LoadSharing(100, 2000)))
    assert alone.art > 50 and alone.longest_queue["node n1"] > 1500
    assert shared.splits >= 1 and shared.art < 20
    assert shared.visits["a"] == pytest.approx(15 * 400, rel=0.05)
    # nobody waits long in the mean, but now and then: copies come and go
    bursty = simulate_eddy(EddyRun(network, "scq", 9.0, 3000.0, sharing=LoadSharing(20, 2000)))
    assert bursty.splits >= 1 and bursty.merges >= 1


def test_of_two_boxes_on_an_overloaded_node_one_slides() -> None:
    operators = {name: PlacedOperator(name, 1.0, 1.0, None, "n1") for name in ("a", "b", "c")}
    plans = {name: AnyOrder(name, f"s{name}", (name,)) for name in operators}
    rates = {f"s{name}": 5.0 for name in operators}
    network = RoutingNetwork(rates, operators, plans, nodes={"n1": 10.0, "n2": 10.0})
    found = simulate_eddy(EddyRun(network, "q", 15.0, 300.0, sharing=LoadSharing(100, 2000)))
    assert found.slides >= 1
    assert found.art < 30


def test_a_shared_resource_moves_to_where_it_is_needed() -> None:
    run = EddyRun(ds3(), "wscq", 500.0, 300.0, sharing=LoadSharing(300, 2000))
    assert simulate_eddy(run).art < 5
    # parts stay as they were: op1 and op2 have too little
    assert simulate_eddy(replace(run, sharing=None, rate=560.0)).art > 10


def test_a_run_ends_when_a_node_is_overloaded() -> None:
    found = simulate_eddy(EddyRun(s3(), "sc", 300.0, 450.0, stop_at=1000))
    assert found.overloaded_s == found.seconds < 20
    assert found.longest_queue["op2"] == 1001
    assert simulate_eddy(EddyRun(s3(), "wscq", 200.0, 50.0, stop_at=1000)).overloaded_s is None


def test_queues_grow_without_end_where_the_rate_is_beyond_reach() -> None:
    most = largest_rate(s3()).mdr
    found = simulate_eddy(EddyRun(s3(), "optimal", 1.3 * most, 400.0))
    assert sum(found.longest_queue.values()) > 5000 and math.isfinite(found.art or math.nan)
