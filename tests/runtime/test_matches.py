"""Selectivities from samples: steady ones average, others replace."""

from __future__ import annotations

import pytest

from headgate.runtime.matches import Matches, Sampled

LINK = ("q.join", (0, 2))


def selectivity(*samples: tuple[float, float]) -> float:
    matches = Matches()
    for pairs, found in samples:
        matches.add({LINK: Sampled(pairs, found)})
    assert matches.selectivities()["q.join"][2] == 1.0
    return matches.selectivities()["q.join"][0]


def test_samples_that_agree_are_averaged() -> None:
    assert selectivity((144, 70), (144, 76)) == pytest.approx(111 / 216)


def test_a_sample_that_chance_does_not_explain_replaces_what_was() -> None:
    assert selectivity((144, 70), (144, 72), (144, 7)) == pytest.approx(7 / 144)


def test_no_match_is_not_no_chance() -> None:
    assert selectivity((1000, 0)) == pytest.approx(0.0005)
