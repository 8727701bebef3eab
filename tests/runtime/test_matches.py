"""Selectivities from samples: steady ones average, others replace."""

from __future__ import annotations

import pytest
from tests.planning.support import catalog_of

from headgate.planning.stages import Stages
from headgate.runtime.helm import Watching
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


def test_profiles_have_selectivities_by_what_predicates_say() -> None:
    text = """CREATE QUERY q AS SELECT p.src FROM packets [ROWS 9] p, flows [ROWS 5] f, packets [ROWS 5] o
      WHERE p.src = f.src AND f.src = o.src AND p.dst <> f.src;"""
    catalog = catalog_of(text)
    network = Stages.of(catalog).lowered
    watching = Watching(network)
    assert watching.wants_samples()
    watching.sampled({("q.join", (0, 2)): Sampled(100, 10), ("q.join", (1,)): Sampled(100, 50)})
    found = watching.matches.predicates(network)["q.join"]
    assert {text: profile.selectivity for text, profile in found.items()} == {
        "`p__src` = `f__src`": 0.1,
        "`f__src` = `o__src`": 0.5,
        "`p__dst` <> `f__src`": 1.0,
    }
    two = "CREATE QUERY q AS SELECT p.src FROM packets [ROWS 9] p, flows [ROWS 5] f WHERE p.src = f.src;"
    catalog = catalog_of(two)
    # of two streams, the join itself tells
    assert not Watching(Stages.of(catalog).lowered).wants_samples()
