"""Progress charts and their lower envelopes, against the definition."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.profile import Profile
from headgate.scheduling.chain_envelope import Point, ProgressChart

EXAMPLE = ProgressChart.of([Profile(1.0, 0.2), Profile(5.0, 0.0)])

charts = st.lists(
    st.builds(
        Profile,
        st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),
        st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.5, 2.0]),
        st.sampled_from([1.0, 2.0, 64.0]),
    ),
    min_size=1,
    max_size=8,
).map(ProgressChart.of)


def steepest(chart: ProgressChart, start: int) -> int:
    """By definition: look at every later point; ties to the nearest."""

    def slope(end: int) -> float:
        a, b = chart.points[start], chart.points[end]
        released = a.size - b.size
        if b.seconds > a.seconds:
            return released / (b.seconds - a.seconds)
        return math.inf if released > 0 else -math.inf

    slopes = [slope(end) for end in range(start + 1, len(chart.points))]
    best = max(slopes)
    nearest = (i for i, s in enumerate(slopes) if s == best or math.isclose(s, best, rel_tol=1e-12))
    return start + 1 + next(nearest)


def test_the_worked_example_has_two_segments() -> None:
    assert EXAMPLE.points == (Point(0, 1), Point(1, 0.2), Point(2, 0))
    assert [(s.first, s.last, s.slope) for s in EXAMPLE.segments] == [(0, 1, 0.8), (1, 2, 0.2)]


def test_a_selective_operator_behind_a_weak_one_is_in_its_segment() -> None:
    chart = ProgressChart.of(
        [Profile(1, 0.9), Profile(1 / 0.9, 1.0), Profile(1 / 0.9, 0.1), Profile(10, 0.0)]
    )
    assert [(s.first, s.last) for s in chart.segments] == [(0, 3), (3, 4)]
    assert chart.gap(chart.segments[0]) == pytest.approx(0.9 - chart.envelope_at(3))


@given(charts)
def test_every_hop_is_the_steepest_descent(chart: ProgressChart) -> None:
    at = 0
    for segment in chart.segments:
        assert (segment.first, segment.last) == (at, steepest(chart, at))
        at = segment.last
    assert at == len(chart.points) - 1


@given(charts)
def test_the_envelope_is_convex_and_below_the_chart(chart: ProgressChart) -> None:
    assert all(here.slope >= after.slope * (1 - 1e-9) for here, after in pairwise(chart.segments))
    for point in chart.points:
        assert chart.envelope_at(point.seconds) <= point.size + 1e-9
    assert chart.gaps >= -1e-9


@given(charts)
def test_points_follow_from_the_profiles(chart: ProgressChart) -> None:
    assert chart.points[0] == Point(0.0, 1.0)
    assert chart.points[-1].size == 0
    assert all(a.seconds <= b.seconds for a, b in pairwise(chart.points))


@given(
    st.lists(
        st.builds(Profile, st.floats(1e-6, 10), st.floats(0, 1), st.just(64.0)), min_size=1, max_size=8
    ).map(ProgressChart.of)
)
def test_without_selectivities_above_1_the_gaps_of_a_path_are_one_unit_at_most(chart: ProgressChart) -> None:
    assert chart.gaps <= 1 + 1e-9


def test_widths_count() -> None:
    chart = ProgressChart.of([Profile(1, 1.0, 100), Profile(1, 1.0, 10)])
    assert [point.size for point in chart.points] == [1, 0.1, 0]


def test_a_chart_plots_itself() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    EXAMPLE.plot(axes)
    assert [line.get_label() for line in axes.lines] == ["progress chart", "lower envelope"]
