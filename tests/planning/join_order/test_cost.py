"""The closed forms of the cost model."""

from __future__ import annotations

import pytest

from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.join_order import problem as cost
from headgate.planning.join_order.problem import Flow, WindowSeconds


def test_a_selection_shrinks_the_active_window_and_reaches_no_further_back() -> None:
    assert cost.source_flow(RowWindow(100), 50.0).selected(0.2) == Flow(10.0, 20.0)
    assert cost.source_flow(TimeWindow(4_000_000), 50.0).selected(0.2) == Flow(10.0, 40.0)


def test_a_drop_box_empties_a_time_window_but_not_a_row_window() -> None:
    assert cost.source_flow(RowWindow(100), 50.0, keep=0.5) == Flow(25.0, 100)
    assert cost.source_flow(TimeWindow(4_000_000), 50.0, keep=0.5) == Flow(25.0, 100.0)
    assert cost.source_flow(TimeWindow(4_000_000), 50.0) == Flow(50.0, 200.0)


def test_a_join_of_many_is_the_same_in_every_order() -> None:
    a, b, c = Flow(10.0, 3.0), Flow(70.0, 4.0), Flow(20.0, 5.0)
    expected = Flow(0.1 * (10 * 4 * 5 + 70 * 3 * 5 + 20 * 3 * 4), 0.1 * 60)
    for flows in ((a, b, c), (c, a, b), (b, c, a)):
        assert cost.join_flows(flows, 0.1) == Flow(
            pytest.approx(expected.tuples_per_s), pytest.approx(expected.window_tuples)
        )
    step_by_step = a.joined(b, 0.5).joined(c, 0.2)
    assert step_by_step.tuples_per_s == pytest.approx(expected.tuples_per_s)


def test_a_symmetric_join_costs_the_same_for_each_tuple() -> None:
    both = WindowSeconds(0.001, 0.002, 0.003)
    assert Flow(10, 1).join_cost_per_s(Flow(5, 1), both, both) == pytest.approx(15 * 0.006)


def test_an_asymmetric_join_searches_the_other_window() -> None:
    left, right = WindowSeconds(0.001, 0.002, 0.003), WindowSeconds(0.01, 0.02, 0.03)
    # 10 enter the left window and search the right one, 5 the other way round
    expected = 10 * (0.001 + 0.002 + 0.03) + 5 * (0.01 + 0.02 + 0.003)
    assert Flow(10, 1).join_cost_per_s(Flow(5, 1), left, right) == pytest.approx(expected)
