"""The compiled loop and the general one give the same result, to the last digit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.networks import scenario, two_operators
from tests.simulator.random_scenarios import scenarios

from headgate.model.event import Event
from headgate.scheduling import strategy_named
from headgate.simulator import Figures, OnePerOperator, Result, Scenario, fate
from headgate.simulator.compiled import run_compiled
from headgate.simulator.layout import Layout
from headgate.simulator.priority import static_priority
from headgate.simulator.result import Outputs
from headgate.simulator.run import simulate, simulate_stepwise
from headgate.simulator.servers import are_independent, run_servers

STATIC = ("fifo", "greedy", "chain", "mixed", "path-capacity", "segment", "simplified-segment")


def assert_same(one: Result, other: Result) -> None:
    assert one.backlog.times_s.tolist() == other.backlog.times_s.tolist()
    assert one.backlog.sizes.tolist() == other.backlog.sizes.tolist()
    assert one.backlog.bytes.tolist() == other.backlog.bytes.tolist()
    for field in ("times_s", "queries", "amounts", "latencies_s"):
        assert getattr(one.outputs, field).tolist() == getattr(other.outputs, field).tolist()
    assert one.busy_s == other.busy_s
    assert one.turns == other.turns


@settings(max_examples=300, deadline=None)
@given(scenarios(), st.sampled_from(STATIC))
def test_both_loops_give_the_same_result(found: Scenario, name: str) -> None:
    strategy = strategy_named(name)
    priority = static_priority(strategy, found.network, found.profiles)
    assert priority is not None
    layout = Layout.of(found)
    compiled = Result.of(name, found, layout, run_compiled(found, layout, priority))
    assert_same(compiled, simulate_stepwise(found, strategy))


@settings(max_examples=100, deadline=None)
@given(scenarios(processors=st.just(OnePerOperator()), most_inputs=1))
def test_servers_of_their_own_one_after_the_other_give_the_same_result(made: Scenario) -> None:
    found = replace(made, time_unit_s=None)
    assert are_independent(found)
    layout = Layout.of(found)
    result = Result.of("fifo", found, layout, run_servers(found, layout))
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


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_chance_is_the_same_in_both_loops(key: int, number: int) -> None:
    from headgate.simulator import jit

    identity = fate.tuple_id(key, number)
    assert int(jit.tuple_id(np.uint64(key), number)) == identity
    assert int(jit.child_id(np.uint64(key), number)) == fate.child_id(key, number)
    chance = fate.uniform(key, identity)
    assert 0 <= chance < 1
    assert jit.uniform(np.uint64(key), np.uint64(identity)) == chance
    assert jit.exponential(chance) == fate.exponential(chance)


def test_long_runs_are_compiled_unless_somebody_observes() -> None:
    found = scenario(
        {"s": list(range(25_000))}, {"a": ("s", Figures(2, 0.5)), "b": ("a", Figures(1))}, {"q": "b"}
    )
    events: list[Event] = []
    quick, observed = (simulate(found, strategy_named("chain"), o) for o in ([], [events.append]))
    assert len(events) > 50_000
    assert_same(quick, observed)
