"""What a tick takes on grows quickly where ticks are short, and never so far that one gets far too long."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.runtime.allowance import Allowance, Portion, SourceLimits, TakenIn, first_rows

TARGET_S = 1.0
COSTS_S = st.floats(1e-7, 1e-3)


def drained(rows: int, limits: SourceLimits, seconds_per_row: float, power: float = 1.0) -> list[tuple]:
    """Rows and work of every tick until a source is empty; a tick takes all that it may."""
    ticks = []
    while rows:
        taken = min(rows, limits.limits()["s"])
        work_s = (seconds_per_row * taken) ** power
        ticks.append((taken, work_s))
        limits.add(TakenIn({"s": taken}, 0.0, work_s, arrived_bytes=100 * taken, backlog_bytes=0))
        rows -= taken
    return ticks


def of_rows(**settings: float) -> SourceLimits:
    return SourceLimits({"s": Portion(first_rows(TARGET_S))}, TARGET_S, **settings)


def test_a_first_tick_has_rows_for_its_length_within_bounds() -> None:
    assert [first_rows(target_s) for target_s in (0.001, 0.5, 60, inf)] == [1000, 5000, 50_000, 50_000]


def test_four_million_cheap_rows_take_few_ticks() -> None:
    ticks = drained(4_000_000, of_rows(), seconds_per_row=2e-7)
    assert ticks[0][0] == 10_000
    assert len(ticks) <= 5


@given(COSTS_S)
def test_where_costs_are_proportional_only_the_first_ticks_are_too_long(seconds_per_row: float) -> None:
    ticks = drained(1_000_000, of_rows(), max(seconds_per_row, 2e-5))
    assert all(work_s <= 1.01 * TARGET_S for _, work_s in ticks[3:])
    # and none wastes the time that it has
    assert all(work_s >= 0.49 * TARGET_S for _, work_s in ticks[5:-1])


@given(COSTS_S, st.floats(1.0, 3.0))
@example(seconds_per_row=1e-3, power=2.0)
def test_where_costs_grow_faster_a_tick_is_at_most_as_much_too_long_as_growth_allows(
    seconds_per_row: float, power: float
) -> None:
    ticks = drained(300_000, of_rows(), max(seconds_per_row, 1e-5), power)
    for (_, before_s), (_, work_s) in pairwise(ticks[1:]):
        assert work_s <= max(TARGET_S, before_s) * 8 ** (power - 1) * 1.01


def test_quiet_ticks_prove_nothing_about_full_ones() -> None:
    allowance = Allowance(10_000, TARGET_S)
    for _ in range(100):
        allowance.add(used=10, seconds=0.0)
    assert allowance.amount == 10_000


def test_one_long_tick_is_forgiven_as_quickly_as_it_is_punished() -> None:
    allowance = Allowance(100, TARGET_S)
    allowance.add(100, TARGET_S / 64)
    assert allowance.amount == 800
    allowance.add(10, 30.0)
    assert allowance.amount == 100
    allowance.add(100, TARGET_S / 64)
    assert allowance.amount == 800


@pytest.mark.parametrize("fixed_s", [1.2, 3.0, 20.0])
def test_ticks_that_are_long_whatever_they_take_on_grow_all_the_same(fixed_s: float) -> None:
    allowance = Allowance(10_000, TARGET_S)
    for _ in range(30):
        allowance.add(allowance.amount, fixed_s + 1e-6 * allowance.amount)
    assert 3e5 < allowance.amount < 2e6


def test_what_ticks_have_told_of_their_fixed_part_is_remembered_while_they_are_of_one_size() -> None:
    allowance, lowest = Allowance(10_000, TARGET_S), []
    for _ in range(60):
        # a rate that does not change, so that ticks tell nothing once all of it is taken on
        used = min(allowance.amount, 50_000)
        allowance.add(used, 3.0 + 1e-6 * used)
        lowest.append(allowance.amount)
    assert min(lowest[20:]) >= 50_000


def test_an_amount_never_falls_to_nothing() -> None:
    allowance = Allowance(100, TARGET_S)
    lowest = []
    for _ in range(40):
        allowance.add(allowance.amount, 1e4 * allowance.amount)
        lowest.append(allowance.amount)
    # now and then it looks whether twice as much is possible
    assert min(lowest) == 10 and max(lowest[5:]) == 20
    limits = SourceLimits({"s": Portion(1, of_files=True)}, TARGET_S, memory_bytes=10)
    limits.add(TakenIn({"s": 1}, 99.0, 99.0, arrived_bytes=1e9, backlog_bytes=1e9))
    assert limits.limits() == {"s": 1}


def test_a_slow_intake_does_not_keep_rows_in_their_source() -> None:
    # as on a busy machine
    limits, found = of_rows(), []
    for _ in range(8):
        found.append(limits.limits()["s"])
        limits.add(TakenIn({"s": found[-1]}, 1.3, 0.0, arrived_bytes=1, backlog_bytes=0))
    assert sum(found) > 320_000


def test_files_and_rows_grow_together_by_the_source_that_has_brought_most() -> None:
    limits = SourceLimits({"f": Portion(1, of_files=True), "r": Portion(1000)}, TARGET_S)
    limits.add(TakenIn({"f": 1, "r": 3}, 0.08, 0.02, arrived_bytes=1, backlog_bytes=0))
    assert limits.limits() == {"f": 5, "r": 5000}
    assert limits.waiting({"f": 5, "r": 4000}) == {"f"}


@pytest.mark.parametrize("backlog_bytes", [0, 600_000, 999_999, 5_000_000])
def test_a_tick_takes_no_more_than_memory_has_room_for(backlog_bytes: int) -> None:
    limits = of_rows(memory_bytes=1_000_000)
    limits.add(TakenIn({"s": 10_000}, 0.01, 0.01, arrived_bytes=1_000_000, backlog_bytes=backlog_bytes))
    room = 1_000_000 - backlog_bytes
    least = 1 if room <= 0 else 1000
    assert limits.limits()["s"] == max(least, round(max(0, room) / 100))


def test_where_tuples_are_shed_sources_wait_until_costs_are_known_and_no_longer() -> None:
    limits = of_rows(sheds=True)
    found = []
    for _ in range(4):
        found.append(limits.limits()["s"])
        # boxes are closed: the work is that of what they let through, and too much of it closes them further
        limits.add(TakenIn({"s": found[-1]}, 0.01, 9.0, arrived_bytes=1, backlog_bytes=0))
    assert found == [10_000, 10_000, 80_000, 640_000]


def test_where_costs_are_known_the_first_tick_may_be_large() -> None:
    assert of_rows(is_known=True).limits()["s"] == 640_000
