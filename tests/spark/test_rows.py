"""Where to cut a queue, told from quantiles."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.spark.manifest import BlockRef
from headgate.spark.rows import QUANTILES, Spread, cut_at, merged_quantiles, rows_below, share_below

TIMES = st.lists(st.integers(0, 10**6), min_size=1, max_size=400).map(sorted)
SOME = st.lists(TIMES, min_size=1, max_size=4)


def spread(times: list[int]) -> Spread:
    places = [i * (len(times) - 1) // QUANTILES for i in range(QUANTILES + 1)]
    return Spread.over(len(times), [times[place] for place in places])


@given(times=TIMES, ts=st.integers(-5, 10**6 + 5))
def test_rows_below_are_those_of_the_tuples_to_a_step_between_quantiles(times: list[int], ts: int) -> None:
    exact = sum(time < ts for time in times)
    # tuples of one timestamp stand at one place: any of them may be counted
    same = sum(time == ts for time in times)
    step = len(times) / QUANTILES + 2
    assert exact - step <= spread(times).rows_below(ts) <= exact + same + step


@given(times=TIMES)
def test_the_ends_are_exact(times: list[int]) -> None:
    told = spread(times)
    assert told.rows_below(times[0]) == 0
    assert told.rows_below(times[-1] + 1) == len(times)


@given(groups=SOME, share=st.floats(0.01, 1.0))
def test_a_cut_takes_about_the_share_that_was_asked_for(groups: list[list[int]], share: float) -> None:
    at = cut_at([spread(times) for times in groups], share, end_ts=2 * 10**6)
    everything = np.sort(np.concatenate([np.array(times) for times in groups]))
    wanted = share * len(everything)
    slack = sum(len(times) / QUANTILES + 2 for times in groups)
    # tuples of one timestamp cannot be parted
    assert (everything < at + 1).sum() >= wanted - slack
    assert (everything < at - 1).sum() <= wanted + slack


@given(groups=SOME, share=st.floats(0, 0.001))
def test_a_cut_always_takes_something(groups: list[list[int]], share: float) -> None:
    at = cut_at([spread(times) for times in groups], share, end_ts=2 * 10**6)
    assert any(time < at for times in groups for time in times)


def test_nothing_to_cut_ends_at_the_end() -> None:
    assert cut_at([], 0.5, end_ts=7) == 7
    assert share_below([], 3) == 1.0


@given(times=TIMES, ends=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)))
def test_a_part_has_the_rows_between_its_ends(times: list[int], ends: tuple[int, int]) -> None:
    low, high = min(ends), max(ends) + 1
    whole = spread(times)
    part = whole.between(low, high)
    assert part.rows == max(0.0, whole.rows_below(high) - whole.rows_below(low))
    assert rows_below([part, whole.scaled(2)], 10**7) == part.rows + 2 * len(times)


@given(times=TIMES, ts=st.integers(-5, 10**6 + 5))
def test_a_block_is_empty_only_if_no_tuple_is_left(times: list[int], ts: int) -> None:
    told = spread(times)
    block = BlockRef("b", len(times), 1, times[0], times[-1], quantiles=told.times)
    left = sum(time >= ts for time in times)
    assert (round(block.rows_from(ts)) == 0) == (left == 0)


def test_quantiles_are_between_the_ends_and_unknown_if_no_distribution_reaches_there() -> None:
    spreads = [Spread.over(100, (0, 10, 20, 30)), Spread.over(50, (5, 500))]
    found = merged_quantiles(spreads, 10, 30)
    assert found == tuple(sorted(found)) and (found[0], found[-1]) == (10, 30)
    assert merged_quantiles(spreads, 31, 40) == merged_quantiles([], 0, 1) == ()
