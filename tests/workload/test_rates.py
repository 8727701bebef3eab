"""Rates and durations as users write them."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.errors import SetupError
from headgate.workload.rates import RatePhases, duration_us


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("60 s", 60_000_000),
        ("1.5min", 90_000_000),
        ("250 ms", 250_000),
        ("7 us", 7),
        ("1 Hour", 3_600_000_000),
    ],
)
def test_duration_is_a_number_and_a_unit(text: str, microseconds: int) -> None:
    assert duration_us(text) == microseconds


@pytest.mark.parametrize("text", ["60", "s", "-1 s", "1 fortnight", ""])
def test_duration_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="as in '60 s'"):
        duration_us(text)


def test_phases_hold_from_their_start() -> None:
    phases = RatePhases.parse("500, 2000 from 60 s, 8000 from 2 min")
    assert phases == RatePhases((0, 60_000_000, 120_000_000), (500.0, 2000.0, 8000.0))
    assert phases.at(np.array([0, 59_999_999, 60_000_000, 10**12])).tolist() == [500, 500, 2000, 8000]


def test_expected_tuples_are_summed_over_phases() -> None:
    phases = RatePhases.parse("500, 2000 from 60 s")
    assert phases.expected(0, 60_000_000) == 30_000
    assert phases.expected(59_000_000, 61_000_000) == 2500
    assert phases.expected(61_000_000, 61_000_000) == 0


@pytest.mark.parametrize(
    "text",
    ["", "fast", "0", "-5", "nan", "inf", "5 from 1 s", "5, 6", "5, 6 from 2 s, 7 from 1 s", "5, 6 from 0 s"],
)
def test_rates_that_cannot_be_kept_are_refused(text: str) -> None:
    with pytest.raises(SetupError):
        RatePhases.parse(text)
