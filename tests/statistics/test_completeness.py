"""Nothing is assumed of what a profile has not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.networks import chains

from headgate.model.network import StreamDefinition
from headgate.model.profile import Profile, TickCosts
from headgate.statistics.completeness import (
    NoRate,
    NotMeasured,
    Origin,
    idle_operators,
    missing_operators,
    operator_profiles,
    stream_rates,
    tick_costs_of,
    with_reasons,
)
from headgate.statistics.profile_file import Measured

CHAIN = chains(3)
FIRST, SECOND, LAST = CHAIN.operators
KNOWN = Profile(1e-5, 0.5)


def test_a_profile_of_all_operators_is_complete() -> None:
    measured = Measured({**dict.fromkeys(CHAIN.operators, KNOWN), "other.project": KNOWN})
    assert operator_profiles(measured, CHAIN) == dict.fromkeys(CHAIN.operators, KNOWN)
    assert idle_operators(measured, CHAIN) == () and missing_operators(measured, CHAIN) == {}


def test_what_is_missing_is_named_with_the_reason_and_how_to_measure_it() -> None:
    measured = Measured({FIRST: KNOWN}, not_measured={LAST: "its results were counted in only 1 of 2 ticks"})
    with pytest.raises(NotMeasured) as refused:
        operator_profiles(measured, CHAIN, Origin("p.json", "headgate profile q.sql"))
    assert str(refused.value) == (
        "p.json has no profile of operator 0.1 (it is not in the profile), "
        "0.2 (its results were counted in only 1 of 2 ticks); measure it with headgate profile q.sql"
    )


def test_an_operator_that_has_changed_since_counts_as_not_measured() -> None:
    definitions = {name: CHAIN.definition(name) for name in CHAIN.operators}
    measured = Measured(dict.fromkeys(CHAIN.operators, KNOWN), definitions=definitions)
    assert missing_operators(measured, CHAIN) == {}
    changed = replace(measured, definitions={**definitions, SECOND: "what it was"})
    with pytest.raises(
        NotMeasured, match=r"of operator 0\.1 \(it has changed since it was measured\); measure"
    ):
        operator_profiles(changed, CHAIN)
    assert idle_operators(changed, CHAIN) == ()


def test_operators_behind_one_that_passes_nothing_are_idle() -> None:
    measured = Measured({FIRST: Profile(1e-5, 0.0)}, not_measured={SECOND: "no tuple reached it"})
    assert idle_operators(measured, CHAIN) == (SECOND, LAST)
    assert operator_profiles(measured, CHAIN)[LAST].seconds_per_tuple == 0


def test_operators_behind_one_that_was_not_measured_are_not_idle() -> None:
    assert missing_operators(Measured({}), CHAIN).keys() == CHAIN.operators.keys()
    assert missing_operators(Measured({FIRST: Profile(1e-5, 1e-9)}), CHAIN).keys() == {SECOND, LAST}


def test_rates_and_ticks_are_known_or_refused() -> None:
    ticks = TickCosts(0.2, 0.0, 0.5)
    assert tick_costs_of(Measured({}, tick=ticks)) == ticks
    with pytest.raises(NotMeasured, match=r"p has no costs of ticks \(only 2 of 6 did any work\); measure"):
        tick_costs_of(Measured({}, not_measured={"ticks": "only 2 of 6 did any work"}), Origin("p"))
    [stream] = CHAIN.streams
    assert stream_rates(Measured({}, {stream: 0.0}), CHAIN) == {stream: 0.0}
    with pytest.raises(NoRate, match=rf"no rate of stream {stream} is known$"):
        stream_rates(Measured({}), CHAIN)


def test_a_stream_brings_what_it_declares_now_and_not_what_it_did_when_profiled() -> None:
    [stream] = CHAIN.streams
    declared = StreamDefinition(stream, "rate", None, (("rowsPerSecond", "70"),))
    network, measured = CHAIN.changed(streams=(declared,)), Measured({}, {stream: 9.0})
    assert stream_rates(measured, network) == {stream: 70.0}
    assert stream_rates(measured, network, {stream: 5.0}) == {stream: 5.0}


def test_a_long_list_is_cut() -> None:
    assert with_reasons({name: "why" for name in "abcde"}) == "a (why), b (why), c (why) and 2 more"
