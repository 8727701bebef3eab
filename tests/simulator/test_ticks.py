"""Ticks in virtual time against sums done by hand, and every strategy to the same end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.networks import chains

from headgate.model.profile import Profile, TickCosts
from headgate.scheduling import strategy_named
from headgate.simulator.ticks import TickSimulation

NETWORK = chains(2)
FIRST, SECOND = NETWORK.operators
PROFILES = {FIRST: Profile(0.001, 0.5, 10.0), SECOND: Profile(0.01, 1.0, 4.0)}


def simulation(arrivals_s: list[float], budget_s: float, overhead_s: float = 0.1) -> TickSimulation:
    costs = TickCosts(overhead_s, 0.0, 1.0)
    return TickSimulation(NETWORK, PROFILES, {"s0": np.array(arrivals_s)}, costs, budget_s, processors=1)


def test_a_light_load_is_done_in_the_tick_that_takes_it_in() -> None:
    run = simulation([0.0] * 100, budget_s=10.0).run(strategy_named("fifo"))
    # 100 tuples through the first operator, half of them through the second
    assert run.at_s.tolist() == pytest.approx([0.1 + 0.1 + 0.5])
    assert run.peak_bytes == 0
    assert run.mean_latency_s == pytest.approx(0.7)
    assert run.results.sum() == pytest.approx(50)


def test_fifo_leaves_whole_tuples_and_chain_what_is_left_of_them() -> None:
    burst = [0.0] * 1000
    fifo = simulation(burst, budget_s=1.0).run(strategy_named("fifo"))
    chain = simulation(burst, budget_s=1.0).run(strategy_named("chain"))
    # in the first second fifo takes 1 s / (1 ms + 0.5 * 10 ms) = 166.7 tuples all the way
    assert fifo.backlog_bytes[0] == pytest.approx(10 * (1000 - 1 / 0.006))
    # chain takes all 1000 through the first operator
    assert chain.backlog_bytes[0] == pytest.approx(4 * 500)
    assert chain.at_s[-1] >= 6.0 and fifo.at_s[-1] >= 6.0


@settings(max_examples=30, deadline=None)
@given(
    gaps=st.lists(st.floats(0, 0.5), min_size=1, max_size=40),
    budget_s=st.floats(0.02, 2.0),
    name=st.sampled_from(("fifo", "round-robin", "chain", "path-capacity", "threshold", "least-slack")),
)
def test_no_tuple_is_lost_or_doubled(gaps: list[float], budget_s: float, name: str) -> None:
    arrivals = np.cumsum(gaps).tolist()
    run = simulation(arrivals, budget_s).run(strategy_named(name))
    assert run.results.sum() == pytest.approx(0.5 * len(arrivals), abs=1e-3)
    assert run.backlog_bytes[-1] == pytest.approx(0.0, abs=1e-3)
    assert (run.latencies_s > 0).all()
