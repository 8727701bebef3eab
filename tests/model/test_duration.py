"""Durations are rounded up to what a reader would write, and CQL reads them again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cql.measure import parse_duration_us
from headgate.model.duration import rounded_up


@given(st.integers(1, 10**15))
def test_a_rounded_duration_is_at_least_as_long_and_not_much_longer(duration_us: int) -> None:
    rounded_us = parse_duration_us(rounded_up(duration_us))
    assert duration_us <= rounded_us <= duration_us * 1.1
    assert len(rounded_up(duration_us)) <= 8


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (1, "1 us"),
        (999, "1000 us"),
        (1_500, "1.5 ms"),
        (2_000_000, "2 s"),
        (3_000_001, "3.1 s"),
        (75_000_000, "75 s"),
        (431_000_000, "440 s"),
        (600_000_000, "10 min"),
        (3_600_000_000, "60 min"),
        (36_000_000_000, "10 h"),
        (86_400_000_000, "24 h"),
        (20 * 86_400_000_000, "20 d"),
    ],
)
def test_durations_have_two_digits_and_the_unit_that_fits(duration_us: int, text: str) -> None:
    assert rounded_up(duration_us) == text
