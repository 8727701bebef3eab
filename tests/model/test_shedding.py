"""Drop boxes close for rows that nobody expected, and no further."""

from __future__ import annotations

import pytest

from headgate.model.shedding import TickSettings


def test_boxes_that_let_too_much_through_close_in_proportion() -> None:
    settings = TickSettings({"a": 0.5}, 7, {"j": ("x", "y")}, most_rows=1000)
    closed = settings.closed_to({"a": 6000, "b": 1000})
    assert closed.keep == {"a": 0.125, "b": 0.25}
    assert (closed.seed, closed.orders, closed.most_rows) == (7, {"j": ("x", "y")}, 1000)


@pytest.mark.parametrize("rows", [{}, {"a": 0}, {"a": 1200, "b": 400}, {"b": 1090}])
def test_what_fits_leaves_them_as_they_are(rows: dict[str, int]) -> None:
    settings = TickSettings({"a": 0.5}, most_rows=1000)
    assert settings.closed_to(rows) is settings


def test_without_a_limit_everything_fits() -> None:
    settings = TickSettings()
    assert settings.closed_to({"a": 10**9}) is settings


def test_rows_that_have_no_box_count_as_well() -> None:
    assert TickSettings(most_rows=1000).closed_to({"a": 1600}, others=200).keep == {"a": 0.5}
    assert TickSettings(most_rows=1000).closed_to({"a": 1600}, others=2000).keep == {"a": 0.0}


def test_a_limit_alone_is_no_other_choice() -> None:
    settings = TickSettings({"a": 0.5}, most_rows=1000)
    assert settings.chooses_like(TickSettings({"a": 0.5}, most_rows=2000))
    assert not settings.chooses_like(TickSettings({"a": 0.6}, most_rows=1000))
