"""Queues of operators are those of the specification."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.queueing import (
    MG1,
    Discrete,
    Exponential,
    LastRows,
    ParameterError,
    project,
    relation_join,
    select,
    select_exponential,
    window_join,
)


def points_of(queue: MG1) -> list[float]:
    assert isinstance(queue.service, Discrete)
    return [figure for point in queue.service.points for figure in point]


def test_select_project_and_relation_join_take_constant_time() -> None:
    for queue in (select(100, 0.002), project(100, 0.002), relation_join(100, 0.0015, page_seconds=0.0005)):
        load = 0.2
        assert queue.utilisation == pytest.approx(load)
        # M/D/1
        assert queue.mean_in_system == pytest.approx(load + load**2 / (2 * (1 - load)))
        assert queue.mean_wait == pytest.approx(0.002 * load / (2 * (1 - load)))


def test_conjuncts_are_evaluated_until_one_fails() -> None:
    queue = select(10, conditions=[(0.01, 0.5), (0.02, 0.1), (0.03, 0.9)])
    assert points_of(queue) == pytest.approx([0.5, 0.01, 0.45, 0.03, 0.05, 0.06])
    generator = np.random.default_rng(1)
    first, second = generator.random(200_000) < 0.5, generator.random(200_000) < 0.1
    seconds = 0.01 + 0.02 * first + 0.03 * (first & second)
    assert queue.service.moments[0] == pytest.approx(seconds.mean(), rel=0.01)
    assert queue.service.moments[1] == pytest.approx((seconds**2).mean(), rel=0.02)
    as_exponential = select_exponential(10, [(0.01, 0.5), (0.02, 0.1), (0.03, 0.9)])
    assert as_exponential.service == Exponential(queue.service.moments[0])
    assert as_exponential.mean_wait > queue.mean_wait


def test_a_window_join_is_one_queue_of_two_classes() -> None:
    rates, windows, buckets = (100.0, 50.0), (10.0, 20.0), (200, 500)
    queue = window_join(rates, windows, 1e-5, 2e-4, buckets)
    # both windows hold 1000 tuples
    left, right = 2e-5 + 2e-4 * 1000 / 500, 2e-5 + 2e-4 * 1000 / 200
    assert points_of(queue) == pytest.approx([2 / 3, left, 1 / 3, right])
    assert queue.rate == 150
    second = (100 * left**2 + 50 * right**2) / 150
    assert queue.mean_wait == pytest.approx(150 * second / (2 * (1 - 100 * left - 50 * right)))


def test_row_windows_outputs_and_overhead_count() -> None:
    queue = window_join(
        (10, 20),
        (LastRows(300), 5.0),
        1e-3,
        1e-4,
        (10, 10),
        output_seconds=1e-3,
        selectivity=0.01,
        overhead=1.1,
    )
    _, left, _, right = points_of(queue)
    assert left == pytest.approx(1.1 * (2e-3 + 100 * 1e-5 + 100 * 0.01 * 1e-3))
    assert right == pytest.approx(1.1 * (2e-3 + 300 * 1e-5 + 300 * 0.01 * 1e-3))


def test_equal_classes_are_one_class() -> None:
    queue = window_join((30, 70), (LastRows(1), LastRows(1)), 1e-3, 2e-3)
    assert queue.mean_wait == pytest.approx(select(100, 0.004).mean_wait)
    assert window_join((0, 0), (1, 1), 0.1, 0.2).mean_wait == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: select(10),
        lambda: select(10, 0.1, conditions=[(0.1, 0.5)]),
        lambda: select(-10, 0.1),
        lambda: select(10, conditions=[(0.1, 1.5)]),
        lambda: project(10, -1),
        lambda: relation_join(10, 0.01, page_seconds=-1),
        lambda: window_join((-1, 1), (1, 1), 1e-3, 1e-3),
        lambda: window_join((1, 1), (-1, 1), 1e-3, 1e-3),
        lambda: window_join((1, 1), (1, 1), 1e-3, 1e-3, buckets=(0, 1)),
        lambda: window_join((1, 1), (1, LastRows(-5)), 1e-3, 1e-3),
    ],
)
def test_wrong_parameters_are_refused(wrong: object) -> None:
    with pytest.raises(ParameterError):
        wrong()  # type: ignore[operator]
