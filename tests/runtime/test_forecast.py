"""A tick in predicted time spends its budget, and no tuple is taken twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.networks import chains

from headgate.model.profile import Profile
from headgate.model.view import Turn
from headgate.runtime.forecast import Forecast, ForecastQueue

NETWORK = chains(3)
PROFILES = {
    "0.0": Profile(seconds_per_tuple=0.001, selectivity=0.5),
    "0.1": Profile(seconds_per_tuple=0.01, selectivity=0.1),
    "0.2": Profile(seconds_per_tuple=0.1, selectivity=1.0),
}


def forecast(ready: float, budget_s: float, share: float = 1.0) -> Forecast:
    queues = {name: ForecastQueue(0.0, 0.0, 0.0) for name in NETWORK.operators}
    queues["0.0"] = ForecastQueue(ready, 0.0, 0.0)
    queues["0.1"].ready_share = share
    return Forecast(NETWORK, PROFILES, queues, now_s=100.0, budget_s=budget_s)


def test_a_turn_costs_what_the_profiles_say_of_its_whole_path() -> None:
    tick = forecast(ready=100, budget_s=10)
    tick.run(Turn(("0.0", "0.1", "0.2"), 100))
    # 100 * (0.001 + 0.5 * 0.01 + 0.05 * 0.1)
    assert tick.now_s == pytest.approx(100 + 1.1)
    assert tick.taken == pytest.approx({"0.0": 100, "0.1": 50, "0.2": 5})


def test_the_budget_cuts_a_turn() -> None:
    tick = forecast(ready=100, budget_s=0.55)
    tick.run(Turn(("0.0", "0.1", "0.2"), 100))
    assert tick.spent
    assert tick.taken_share("0.0") == pytest.approx(0.5)
    assert tick.view().queues["0.0"].ready == pytest.approx(50)


def test_a_turn_takes_one_tuple_at_least_or_a_backlog_would_never_end() -> None:
    tick = forecast(ready=100, budget_s=1e-9)
    tick.run(Turn(("0.0",), 100))
    assert tick.taken["0.0"] == 1


def test_an_operator_takes_no_more_than_it_may_and_leaves_the_budget_to_others() -> None:
    queues = {name: ForecastQueue(100.0, 0.0, 0.0) for name in NETWORK.operators}
    tick = Forecast(NETWORK, PROFILES, queues, now_s=0.0, budget_s=10, most={"0.0": 30})
    tick.run(Turn(("0.0",), 20))
    assert tick.view().queues["0.0"].ready == 10
    tick.run(Turn(("0.0",), 100))
    assert (tick.taken["0.0"], tick.taken_share("0.0")) == (30, 0.3)
    assert tick.view().queues["0.0"].ready == 0 and tick.view().queues["0.0"].length == 70
    # as much as 30 tuples cost
    assert tick.spent_s == pytest.approx(0.03)
    assert tick.turns == {("0.0",): 30}
    assert tick.view().queues["0.1"].ready == 115


def test_tuples_that_wait_for_timestamp_order_stop_before_the_join() -> None:
    tick = forecast(ready=100, budget_s=10, share=0.25)
    tick.run(Turn(("0.0", "0.1", "0.2"), 100))
    queue = tick.view().queues["0.1"]
    assert queue.length == pytest.approx(37.5) and queue.ready == 0
    assert tick.taken["0.1"] == pytest.approx(12.5)


def test_backlog_above_the_memory_limit_can_be_given_more_time() -> None:
    tick = forecast(ready=100, budget_s=0.1)
    tick.run(Turn(("0.0",), 100))
    assert tick.spent
    tick.extend(1.0)
    assert not tick.spent


@given(
    ready=st.floats(1, 1e6),
    budget_s=st.floats(1e-6, 100),
    shares=st.lists(st.floats(0.01, 1), min_size=1, max_size=6),
)
def test_what_is_taken_was_offered(ready: float, budget_s: float, shares: list[float]) -> None:
    tick = forecast(ready, budget_s)
    for share in shares:
        for queue in tick.view().ready():
            tick.run(Turn(NETWORK.path_from(queue.operator), queue.ready * share))
    for name in NETWORK.operators:
        assert tick.taken[name] <= tick.offered[name] * (1 + 1e-9) + 1e-6
        assert 0 <= tick.taken_share(name) <= 1
