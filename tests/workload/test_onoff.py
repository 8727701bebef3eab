"""On/off traffic: replay, rate, burstiness."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.workload.onoff import EPOCH_US, AlwaysOn, OnOff, _epoch
from headgate.workload.traffic import Arrivals, RatePhases

SECOND_US = 1_000_000
PROCESSES = (
    OnOff(7, RatePhases.constant(1000)),
    OnOff(8, RatePhases.constant(37), flows=3),
    OnOff(9, RatePhases.parse("200, 60000 from 2.000001 s, 900 from 3.7 s"), flows=128),
    AlwaysOn(10, RatePhases.constant(2000), flows=4),
)


def rows(arrivals: Arrivals) -> list[tuple[int, int, int]]:
    return list(zip(arrivals.time_us.tolist(), arrivals.flow.tolist(), arrivals.id.tolist(), strict=True))


def dispersion(times_us: NDArray[np.int64], scale_us: int, end_us: int) -> float:
    counts = np.bincount(times_us // scale_us, minlength=end_us // scale_us)
    return float(counts.var() / counts.mean())


@pytest.mark.slow
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("origin_us", [0, EPOCH_US - 3 * SECOND_US, 40 * EPOCH_US])
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 6 * SECOND_US), max_size=12))
def test_any_cut_of_the_timeline_gives_the_same_tuples(
    process: OnOff, origin_us: int, cuts: list[int]
) -> None:
    edges = [origin_us + cut for cut in [0, *sorted(cuts), 6 * SECOND_US]]
    parts = [process.arrivals(start, end) for start, end in pairwise(edges)]
    whole = process.arrivals(edges[0], edges[-1])
    assert rows(Arrivals.concatenate(parts)) == rows(whole)


def test_a_cold_start_far_away_gives_the_same_tuples() -> None:
    process, far_us = PROCESSES[0], 86_400 * SECOND_US
    warm = rows(process.arrivals(far_us - SECOND_US, far_us + SECOND_US))
    _epoch.cache_clear()
    assert rows(process.arrivals(far_us, far_us + SECOND_US)) == [row for row in warm if row[0] >= far_us]


@pytest.mark.parametrize("process", PROCESSES)
def test_tuples_are_sorted_by_time_inside_the_interval_and_have_distinct_ids(process: OnOff) -> None:
    start_us, end_us = 1_234_567, 8_765_432
    arrivals = process.arrivals(start_us, end_us)
    assert len(arrivals) > 0
    assert arrivals.time_us[0] >= start_us and arrivals.time_us[-1] < end_us
    assert (np.diff(arrivals.time_us) >= 0).all()
    assert len(np.unique(arrivals.id)) == len(arrivals)
    assert set(arrivals.flow.tolist()) <= set(range(process.flows))


def test_other_seeds_give_other_tuples() -> None:
    one, other = (OnOff(seed, RatePhases.constant(1000)).arrivals(0, SECOND_US) for seed in (1, 2))
    assert rows(one) != rows(other)


def test_mean_rate_comes_out_over_an_hour() -> None:
    process, hour_us = OnOff(7, RatePhases.constant(200)), 3600 * SECOND_US
    count = sum(len(block) for block in process.blocks(0, hour_us))
    assert count == pytest.approx(200 * 3600, rel=0.03)


@pytest.mark.slow
def test_short_runs_have_the_mean_rate_on_average_over_seeds() -> None:
    counts = [len(OnOff(seed, RatePhases.constant(500)).arrivals(0, 4 * SECOND_US)) for seed in range(150)]
    standard_error = np.std(counts) / len(counts) ** 0.5
    assert abs(np.mean(counts) - 2000) < 4 * standard_error
    assert standard_error < 30


def test_phases_change_the_rate() -> None:
    process = OnOff(7, RatePhases.parse("100, 1000 from 500 s"), flows=128)
    slow, fast = (len(process.arrivals(start, start + 400 * SECOND_US)) for start in (0, 500 * SECOND_US))
    assert slow == pytest.approx(40_000, rel=0.15)
    assert fast == pytest.approx(400_000, rel=0.15)


def test_dispersion_of_counts_grows_with_the_time_scale() -> None:
    end_us = 3000 * SECOND_US
    times = OnOff(7, RatePhases.constant(1000)).arrivals(0, end_us).time_us
    scales_us = [10_000, 100_000, SECOND_US, 10 * SECOND_US, 60 * SECOND_US]
    indices = [dispersion(times, scale, end_us) for scale in scales_us]
    # a AlwaysOn process has 1 at every scale
    assert indices == sorted(indices)
    assert indices[2] > 4 and indices[3] > 15 and indices[4] > 40


def test_gaps_within_an_on_period_are_exponential() -> None:
    process = OnOff(7, RatePhases.constant(20_000), flows=2)
    flows, begins, ends = _epoch(7, 2, process.on_time, process.off_time, 0)
    longest = int(np.argmax(ends - begins))
    begin, end = int(begins[longest]), int(min(ends[longest], begins[longest] + 5 * SECOND_US))
    arrivals = process.arrivals(begin, end)
    gaps = np.diff(arrivals.time_us[arrivals.flow == flows[longest]])
    mean_us = 1e6 * 2 * process.on_share / 20_000
    assert len(gaps) > 1000
    assert gaps.mean() == pytest.approx(mean_us, rel=0.05)
    assert gaps.std() == pytest.approx(mean_us, rel=0.05)
    assert np.mean(gaps > mean_us) == pytest.approx(np.exp(-1), abs=0.03)


def test_flows_emit_only_while_on() -> None:
    process = OnOff(7, RatePhases.constant(2000), flows=4)
    arrivals = process.arrivals(0, 20 * SECOND_US)
    flows, begins, ends = _epoch(7, 4, process.on_time, process.off_time, 0)
    for flow in range(4):
        times = arrivals.time_us[arrivals.flow == flow]
        period = np.searchsorted(begins[flows == flow], times, side="right") - 1
        assert (period >= 0).all()
        assert (times < ends[flows == flow][period]).all()


@pytest.mark.parametrize("process", PROCESSES)
@settings(max_examples=40, deadline=None)
@given(start_us=st.integers(0, 4 * SECOND_US), max_tuples=st.integers(1, 20_000))
def test_advance_grants_as_many_tuples_as_it_may(process: OnOff, start_us: int, max_tuples: int) -> None:
    horizon_us = 5 * SECOND_US
    end_us = process.advance(start_us, horizon_us, max_tuples)
    assert start_us < end_us <= horizon_us
    granted = len(process.arrivals(start_us, end_us))
    assert granted <= max_tuples or end_us == start_us + 1
    if end_us < horizon_us:
        assert len(process.arrivals(start_us, end_us + 1)) > max_tuples


def test_advance_stays_where_there_is_no_time() -> None:
    assert PROCESSES[0].advance(5, 5, 10) == 5
    assert len(PROCESSES[0].arrivals(5, 5)) == 0


@given(start_us=st.integers(0, 10**9), length_us=st.integers(1, 10**8), parts=st.integers(1, 8))
def test_cuts_cover_the_stretch_in_order(start_us: int, length_us: int, parts: int) -> None:
    cuts = PROCESSES[0].cuts(start_us, start_us + length_us, parts)
    assert cuts[0] == start_us and cuts[-1] == start_us + length_us
    assert cuts == sorted(set(cuts)) and len(cuts) <= parts + 1


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -1},
        {"flows": 0},
        {"flows": 5000},
        {"rate": RatePhases.constant(1e9)},
        {"shortest_us": 0},
        {"longest_us": 2 * EPOCH_US},
        {"on_shape": 0.0},
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(SetupError):
        OnOff(**{"seed": 1, "rate": RatePhases.constant(10), **options})  # type: ignore[arg-type]


def test_time_before_the_beginning_is_refused() -> None:
    with pytest.raises(SetupError, match="begins at 0"):
        PROCESSES[0].arrivals(-1, 5)


def test_flows_that_are_always_on_give_counts_of_a_poisson_process() -> None:
    process, end_us = AlwaysOn(3, RatePhases.constant(1000), flows=5), 200 * SECOND_US
    times_us = process.arrivals(0, end_us).time_us
    for scale_us in (10_000, 100_000, SECOND_US):
        windows = end_us // scale_us
        # the variance of a sample, in standard errors
        off = (dispersion(times_us, scale_us, end_us) - 1) / np.sqrt(2 / windows)
        assert abs(off) < 4
    assert abs(len(times_us) - 200_000) < 4 * np.sqrt(200_000)
