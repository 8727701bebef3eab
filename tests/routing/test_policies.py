"""Every router, found by name, keeps the same promises."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate.routing
from headgate.errors import SetupError
from headgate.experiments.eddies import three_selections as s3
from headgate.routing import OperatorStatistics, Outcome, RoutingView, router_named, router_names
from headgate.routing.policies import choice_bounds, next_operator, routing_chance

figure = st.floats(0.0, 1e6) | st.sampled_from([0.0, 1.0])
statistics = st.builds(OperatorStatistics, figure, figure, st.floats(0.0, 3.0), st.floats(0.0, 10.0))
views = st.fixed_dictionaries({name: statistics for name in ("op1", "op2", "op3")})


def view(**known: OperatorStatistics) -> RoutingView:
    return RoutingView(known, plan="s3", rates={"op0": 200.0})


def test_every_router_of_the_folder_has_a_name() -> None:
    found = set()
    for module in pkgutil.iter_modules(headgate.routing.__path__):
        for _, member in inspect.getmembers(importlib.import_module(f"headgate.routing.{module.name}")):
            if inspect.isclass(member) and hasattr(member, "route") and getattr(member, "name", ""):
                found.add(member.name)
    assert found == set(router_names())


@pytest.mark.parametrize("name", router_names())
@given(known=views, eligible=st.sets(st.sampled_from(["op1", "op2", "op3"]), min_size=1))
@settings(max_examples=40, deadline=None)
def test_weights_are_of_the_eligible_and_sum_to_one(
    name: str, known: dict[str, OperatorStatistics], eligible: set[str]
) -> None:
    router = router_named(name)
    router.prepare(s3())
    done = {"op1", "op2", "op3"} - eligible
    ready = sorted(eligible)
    weights = router.route(done, ready, view(**known))
    assert set(weights) == eligible
    assert all(weight >= 0 for weight in weights.values())
    assert sum(weights.values()) == pytest.approx(1.0)
    # no chance, no memory of being asked
    assert router.route(done, ready, view(**known)) == weights


@pytest.mark.parametrize("name", router_names())
def test_a_router_learns_and_goes_on(name: str) -> None:
    router = router_named(name)
    router.prepare(s3())
    router.learn(Outcome("op1", 40, 40, 20, 0.4, 0, 1.0))
    known = {f"op{n}": OperatorStatistics(selectivity=0.5, seconds=0.01) for n in (1, 2, 3)}
    assert sum(router.route((), ("op1", "op2", "op3"), view(**known)).values()) == pytest.approx(1.0)


SLOW = OperatorStatistics(queue=1.0, tickets=9.0, selectivity=0.4, seconds=0.025)
FAST = OperatorStatistics(queue=5.0, tickets=3.0, selectivity=0.2, seconds=0.005)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("q", {"slow": 1, "fast": 0}),
        ("t", {"slow": 1, "fast": 0}),
        ("sc", {"slow": 0, "fast": 1}),
        ("wsc", {"slow": 24**2 / (24**2 + 160**2), "fast": 160**2 / (24**2 + 160**2)}),
        ("scq", {"slow": 0, "fast": 1}),
        (
            "wscq",
            {"slow": 12**2 / (12**2 + (160 / 6) ** 2), "fast": (160 / 6) ** 2 / (12**2 + (160 / 6) ** 2)},
        ),
    ],
)
def test_each_policy_follows_its_rule(name: str, expected: dict[str, float]) -> None:
    found = router_named(name).route((), ("slow", "fast"), view(slow=SLOW, fast=FAST))
    assert found == pytest.approx(expected)


def test_without_tickets_the_shortest_queue_counts() -> None:
    known = {
        "a": OperatorStatistics(queue=3.0),
        "b": OperatorStatistics(queue=1.0),
        "c": OperatorStatistics(queue=1.0),
    }
    assert router_named("t").route((), ("a", "b", "c"), view(**known)) == {"a": 0.0, "b": 0.5, "c": 0.5}


def test_optimal_follows_what_is_learnt() -> None:
    router = router_named("optimal")
    router.prepare(s3())
    known = {
        "op1": OperatorStatistics(selectivity=0.5, seconds=0.01),
        "op2": OperatorStatistics(selectivity=0.2, seconds=0.005),
        "op3": OperatorStatistics(selectivity=0.4, seconds=0.025),
    }
    before = router.route((), tuple(known), view(**known))
    assert before["op2"] == pytest.approx(0.7906, abs=1e-3)
    # the two have changed roles
    known["op1"], known["op2"] = known["op2"], known["op1"]
    router.learn(Outcome("op1", 40, 40, 8, 0.2, 0, 1.0))
    later = RoutingView(known, plan="s3", now_s=60.0, rates={"op0": 200.0})
    assert router.route((), tuple(known), later)["op1"] == pytest.approx(before["op2"], abs=1e-3)


def test_optimal_routes_where_work_is_too_small_for_a_number() -> None:
    router = router_named("optimal")
    router.prepare(s3())
    selectivities = {"op1": 1.0, "op2": 1.0, "op3": 2.2e-313}
    known = {name: OperatorStatistics(0, 0, s, 0) for name, s in selectivities.items()}
    view = RoutingView(known, plan="s3", rates={"op0": 200.0})
    assert router.route({"op2", "op3"}, ["op1"], view) == {"op1": 1.0}


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SetupError, match="unknown policy x; known: optimal, q, sc, scq, t, wsc, wscq"):
        router_named("x")


def test_tuples_are_drawn_by_seed_and_number_alone() -> None:
    weights = {"a": 1.0, "b": 3.0, "c": 0.0}
    found = [next_operator(weights, routing_chance(7, number, 0)) for number in range(4000)]
    assert found == [next_operator(weights, routing_chance(7, number, 0)) for number in range(4000)]
    assert found.count("a") == pytest.approx(1000, abs=100) and found.count("c") == 0
    assert choice_bounds(weights) == {"a": (0.0, 0.25), "b": (0.25, 1.0), "c": (1.0, 1.0)}
    assert [routing_chance(7, 1, visit) for visit in range(3)] != [
        routing_chance(8, 1, visit) for visit in range(3)
    ]
