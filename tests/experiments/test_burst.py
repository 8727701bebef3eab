"""The burst of one query without Spark: the claims of the study, over ticks in virtual time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from headgate.experiments.burst import BETA, MARGIN_S, ROOM
from headgate.experiments.flood import TICK_BUDGET_S
from headgate.experiments.study import script
from headgate.experiments.workloads import generated_arrivals
from headgate.model.profile import Profile, TickCosts
from headgate.scheduling import Strategy
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.capacity import PathCapacity, Threshold
from headgate.scheduling.chain_envelope import Chain
from headgate.scheduling.deadlines import ChainFlush
from headgate.session.session import Session
from headgate.simulator.ticks import TickedRun, TickSimulation

# a hash takes a microsecond: what passes the filter, one tuple in eight, is dearer than the filter
FILTER, DIGEST = Profile(45e-6, 1 / 8, 60.0), Profile(800e-6, 1.0, 60.0)
PROCESSORS = 2
RATE = 1.5 * PROCESSORS / (FILTER.seconds_per_tuple + FILTER.selectivity * DIGEST.seconds_per_tuple)


@cache
def simulation(operators: tuple[Profile, Profile]) -> TickSimulation:
    text = script("burst.sql", QUIET=f"{0.05 * RATE:.0f}", BURST=f"{RATE:.0f}", SEED=7)
    network = Session().execute(text).network()
    profiles = dict(zip(network.operators, operators, strict=True))
    costs = TickCosts(0.3, 0.0, 1 / PROCESSORS)
    return TickSimulation(network, profiles, generated_arrivals(network), costs, TICK_BUDGET_S, PROCESSORS)


def run(strategy: Strategy, operators: tuple[Profile, Profile] = (FILTER, DIGEST)) -> TickedRun:
    return simulation(operators).run(strategy)


def test_chain_saves_memory_and_path_capacity_answers_sooner() -> None:
    fifo, chain, path = run(Fifo()), run(Chain()), run(PathCapacity())
    assert chain.peak_bytes < 0.6 * fifo.peak_bytes
    assert path.mean_latency_s < chain.mean_latency_s
    assert fifo.results.sum() == pytest.approx(chain.results.sum())


def test_bounds_on_memory_and_latency_are_kept() -> None:
    chain, path = run(Chain()), run(PathCapacity())
    limit_bytes = chain.peak_bytes + ROOM * (path.peak_bytes - chain.peak_bytes)
    assert run(Threshold(limit_bytes, BETA)).peak_bytes < limit_bytes
    bound_s = 1.25 * float(run(Fifo()).latencies_s.max())
    assert float(run(ChainFlush(bound_s, margin_s=MARGIN_S)).latencies_s.max()) < bound_s


def test_chain_saves_nothing_behind_a_filter_that_drops_nothing() -> None:
    operators = replace(FILTER, selectivity=1.0), replace(DIGEST, seconds_per_tuple=100e-6)
    fifo, chain = run(Fifo(), operators), run(Chain(), operators)
    assert chain.peak_bytes > 0.9 * fifo.peak_bytes > 0
