"""Published statistics: by hand, and the engine's against those of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.experiments.eddies import three_selections as s3
from headgate.experiments.eddy_plans import windows_first
from headgate.routing import Intervals, Monitor, OperatorStatistics
from headgate.routing.routing_network import RoutingNetwork
from headgate.simulator.eddies import EddyRun
from headgate.simulator.eddies.kernel import REACHED, advance
from headgate.simulator.eddies.world import World, WorldBuilder


def test_statistics_are_published_after_enough_tuples_or_time() -> None:
    monitor = Monitor(intervals=Intervals(5.0, 40), known_seconds=0.02, is_assumed=False)
    monitor.observe(1.0, queue=10, received=40, done=30, out=15, busy_s=0.3)
    assert monitor.published == OperatorStatistics(seconds=0.02)
    monitor.observe(2.0, queue=6, received=6, done=10, out=5, busy_s=0.1)
    # nothing queued in the first second, 10 tuples in the second one
    assert monitor.published == OperatorStatistics(
        queue=5.0, tickets=26.0, selectivity=pytest.approx(0.5), seconds=pytest.approx(0.018)
    )
    monitor.observe(4.0, queue=0, done=6, out=6, busy_s=0.12)
    monitor.advance(6.9)
    assert monitor.published.queue == 5.0
    monitor.advance(7.0)
    # 0.8 of the previous value and 0.2 of the interval, in which every tuple passed
    assert monitor.published.selectivity == pytest.approx(0.6)
    assert monitor.published == OperatorStatistics(
        queue=pytest.approx(2.4), tickets=20.0, selectivity=pytest.approx(0.6), seconds=pytest.approx(0.0184)
    )


def test_an_overloaded_operator_has_no_tickets() -> None:
    monitor = Monitor()
    monitor.observe(1.0, queue=2001, received=2101, done=100)
    assert monitor.published.tickets == 0.0


def test_the_first_call_replaces_an_unknown_service_time() -> None:
    monitor = Monitor()
    monitor.observe(1.0, queue=0, received=1, done=1, out=1, busy_s=0.3)
    assert monitor.published.seconds == 0.3


def test_time_without_observation_does_not_count() -> None:
    monitor = Monitor(100.0)
    monitor.observe(103.0, queue=4, received=4)
    monitor.resume(1000.0)
    monitor.advance(1001.9)
    assert monitor.published == OperatorStatistics()
    monitor.advance(1002.0)
    assert monitor.published.queue == pytest.approx(4 * 2 / 5)


@pytest.mark.parametrize("policy", ["wscq", "t"])
@pytest.mark.parametrize(
    ("network", "rate", "seconds"),
    [(s3(), 260.0, 20.0), (windows_first(3, plans=1, operators=(8, 8), nodes=3), 150.0, 30.0)],
    ids=["overloaded", "on nodes"],
)
def test_engine_and_simulator_publish_the_same_at_the_same_time(
    network: RoutingNetwork, policy: str, rate: float, seconds: float
) -> None:
    """Every event of a simulation is replayed on the monitors of the engine."""
    run = EddyRun(network, policy, rate, seconds, ticket_limit=2000)
    builder = WorldBuilder(run)
    world = builder.world()
    monitors = [
        Monitor(known_seconds=float(copy["known_seconds"]), is_assumed=False)
        for copy in world.copies[: len(builder.operators)]
    ]
    publications = 0
    before, started_s = totals(world), world.copies["started"].copy()
    while (now_s := float(world.events["time"][0])) <= seconds:
        assert advance(world, now_s, 100) == REACHED
        after = totals(world)
        for number, monitor in enumerate(monitors):
            queue, done, out = (after - before)[:, number].tolist()
            monitor.advance(now_s)
            if queue or done:
                busy_s = now_s - float(started_s[number]) if done else 0.0
                monitor.observe(now_s, int(after[0, number]), queue + done, done, out, busy_s)
            row = world.copies[number]
            assert monitor.begin_s == row["begin_s"]
            published = (row[f"known_{key}"] for key in ("queue", "tickets", "selectivity", "seconds"))
            assert monitor.published == OperatorStatistics(*map(float, published))
            publications += monitor.begin_s == now_s
        before, started_s = after, world.copies["started"].copy()
    assert publications == world.state["messages"][0] > 50


def totals(world: World) -> np.ndarray:
    """Queue lengths, and counts since the beginning, by operator."""
    operators = world.operators
    queues = world.copies["queue"][: len(operators)]
    return np.array([queues, operators["visits"], operators["passed"]])
