"""The worked examples of the two papers, to the last digit."""

from __future__ import annotations

import pytest
from tests.simulator.networks import two_operators, two_streams

from headgate.scheduling import strategy_named
from headgate.simulator import Result, simulate


def run(name: str, make: object) -> Result:
    return simulate(make(), strategy_named(name))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("strategy", "sizes"),
    [
        ("fifo", [1.0, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0]),
        ("greedy", [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]),
        ("chain", [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]),
    ],
)
def test_two_operators(strategy: str, sizes: list[float]) -> None:
    backlog = run(strategy, two_operators).backlog
    assert backlog.times_s.tolist() == list(range(15))
    assert backlog.sizes.tolist()[:7] == sizes
    assert backlog.sizes[13] > 0
    assert backlog.sizes[14] == 0


FIFO = [1.0, 1.2, 3.0, 2.2, 2.0, 1.2, 1.0, 0.2, 0]
CHAIN = [1.0, 1.2, 2.4, 1.6, 0.8, 0.6, 0.4, 0.2, 0]


@pytest.mark.parametrize(
    ("strategy", "sizes", "latencies"),
    [("fifo", FIFO, {3: 2, 5: 3, 7: 4, 9: 6}), ("chain", CHAIN, {6: 5, 7: 5, 8: 5, 9: 6})],
)
def test_two_streams(strategy: str, sizes: list[float], latencies: dict[float, float]) -> None:
    result = run(strategy, two_streams)
    assert result.backlog.times_s.tolist() == list(range(1, 10))
    assert result.backlog.sizes.tolist() == sizes
    outputs = result.outputs
    assert dict(zip(outputs.times_s.tolist(), outputs.latencies_s.tolist(), strict=True)) == latencies
    assert outputs.amounts == pytest.approx([0.16] * 4, abs=1e-15)


def test_every_operator_is_busy_for_the_time_of_what_it_got() -> None:
    assert run("fifo", two_streams).busy_s == {"1": 2, "2": 2, "3": 4}
