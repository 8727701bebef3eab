"""With either form of starvation freedom, no path waits for ever."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.experiments.workloads import Box, scenario
from headgate.scheduling import strategy_named
from headgate.simulator import Result, Scenario, simulate

# on its own, the quick path takes all there is
BUSY = scenario(
    {"r": np.arange(0.0, 400.0), "s": np.array([0.0, 1.0, 2.0])},
    {"quick": Box("r", 1.0, 0.1), "slow": Box("s", 3.0, 0.9)},
    {"q": "quick", "p": "slow"},
)


def worst_s(strategy: str, plan: Scenario = BUSY) -> float:
    result: Result = simulate(plan, strategy_named(strategy))
    slow = result.outputs.queries == list(plan.network.queries).index("p")
    return float(result.outputs.latencies_s[slow].max())


@pytest.mark.parametrize(
    "name", ["chain", "path-capacity", "segment", "simplified-segment", "greedy", "mixed"]
)
def test_a_static_priority_starves_the_slow_path_and_both_forms_do_not(name: str) -> None:
    assert worst_s(name) > 390
    assert worst_s(f"{name}+oldest") < 200
    assert worst_s(f"{name}+aging") < 200


@pytest.mark.parametrize("name", ["threshold", "chain-flush"])
def test_strategies_made_of_others_age_in_all_their_parts(name: str) -> None:
    assert worst_s(name) > 390
    assert worst_s(f"{name}+aging") < 200
    assert strategy_named(f"{name}+aging").name == f"{name}+aging"


@pytest.mark.parametrize("name", ["fifo", "round-robin", "least-slack"])
def test_some_starve_nobody_as_they_are(name: str) -> None:
    assert worst_s(name) < 200
    assert worst_s(f"{name}+aging") == worst_s(name)
