"""The compiled loop and the general one give the same result, to the last digit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.networks import scenario, two_operators
from tests.simulator.random_scenarios import scenarios

from headgate.model.event import Event
from headgate.model.uniform_hash import child_id, exponential, tuple_id, uniform
from headgate.scheduling import strategy_named
from headgate.simulator import Behaviour, OnePerOperator, Result, Scenario
from headgate.simulator.compilation import jit
from headgate.simulator.compiled_runs import are_independent, run_priority, run_servers
from headgate.simulator.results import Outputs
from headgate.simulator.virtual_engine import simulate, simulate_stepwise, static_priority

STATIC = ("fifo", "greedy", "chain", "mixed", "path-capacity", "segment", "simplified-segment")


def assert_same(one: Result, other: Result) -> None:
    assert one.backlog.times_s.tolist() == other.backlog.times_s.tolist()
    assert one.backlog.sizes.tolist() == other.backlog.sizes.tolist()
    assert one.backlog.bytes.tolist() == other.backlog.bytes.tolist()
    for field in ("times_s", "queries", "amounts", "latencies_s"):
        assert getattr(one.outputs, field).tolist() == getattr(other.outputs, field).tolist()
    assert one.busy_s == other.busy_s
    assert one.turns == other.turns


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(scenarios(), st.sampled_from(STATIC))
def test_both_loops_give_the_same_result(found: Scenario, name: str) -> None:
    strategy = strategy_named(name)
    priority = static_priority(strategy, found.network, found.profiles)
    assert priority is not None
    compiled = Result.of(name, found, run_priority(found, priority))
    assert_same(compiled, simulate_stepwise(found, strategy))


@settings(max_examples=100, deadline=None)
@given(scenarios(processors=st.just(OnePerOperator()), most_inputs=1))
def test_servers_of_their_own_one_after_the_other_give_the_same_result(made: Scenario) -> None:
    found = replace(made, time_unit_s=None)
    assert are_independent(found)
    result = Result.of("fifo", found, run_servers(found))
    expected = simulate_stepwise(found, strategy_named("fifo"))
    assert result.backlog.times_s.tolist() == expected.backlog.times_s.tolist()
    assert result.backlog.sizes.tolist() == expected.backlog.sizes.tolist()
    assert result.busy_s == expected.busy_s
    assert result.turns == expected.turns
    # operators that end at one instant have no order among them
    assert sorted(rows(result.outputs)) == sorted(rows(expected.outputs))


def rows(outputs: Outputs) -> list[tuple[float, ...]]:
    columns = (outputs.times_s, outputs.queries, outputs.amounts, outputs.latencies_s)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("name", ["round-robin", "chain-flush", "threshold", "least-slack", "chain+aging"])
def test_strategies_that_look_at_more_are_asked_at_every_step(name: str) -> None:
    found = two_operators()
    assert static_priority(strategy_named(name), found.network, found.profiles) is None


def chances(key: Any, number: Any) -> tuple[Any, ...]:
    identity = tuple_id(key, number)
    chance = uniform(key, identity)
    return identity, child_id(key, number), chance, exponential(chance)


compiled_chances = jit(chances)


@settings(deadline=None)  # the first case compiles
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_chance_is_the_same_in_both_loops(key: int, number: int) -> None:
    exact = chances(key, number)
    assert 0 <= exact[2] < 1
    assert compiled_chances(np.uint64(key), np.uint64(number)) == exact
    identities = tuple_id(np.uint64(key), np.array([number], np.uint64))
    assert (identities.tolist(), uniform(np.uint64(key), identities).tolist()) == ([exact[0]], [exact[2]])


@pytest.mark.slow
def test_long_runs_are_compiled_unless_somebody_observes() -> None:
    found = scenario(
        {"s": list(range(25_000))}, {"a": ("s", Behaviour(2, 0.5)), "b": ("a", Behaviour(1))}, {"q": "b"}
    )
    events: list[Event] = []
    quick, observed = (simulate(found, strategy_named("chain"), o) for o in ([], [events.append]))
    assert len(events) > 50_000
    assert_same(quick, observed)


@pytest.mark.slow
def test_compiled_runs_report_their_progress_and_can_be_interrupted() -> None:
    behaviours = {"a": ("s", Behaviour(1e-9)), "b": ("a", Behaviour(1e-9)), "c": ("b", Behaviour(1e-9))}
    found = scenario({"s": (np.arange(800_000) * 1e-6).tolist()}, behaviours, {"q": "c"})
    shares: list[float] = []
    simulate(found, strategy_named("chain"), report=shares.append)
    assert shares == sorted(shares) and shares[-1] <= 1

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(found, strategy_named("chain"), report=interrupt)
