"""Queries with bounds are let in by what was measured, and watched while they run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.queueing.plans import plan_named
from tests.runtime.networks import chains

from headgate.control.admission import (
    BoundsWatch,
    Refused,
    admission,
    check_admission,
    with_machine_bounds,
)
from headgate.model.event import StreamCounts, TickCommitted
from headgate.model.network import Network
from headgate.model.profile import Profile, TickCosts
from headgate.model.status import TickRecord
from headgate.queueing.advice import Warning
from headgate.queueing.latency_models import OnServer
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

TICKS = TickCosts(0.5, 0.0, 1.0)


def bounded(latency_s: float | None, overload: str = "backpressure", operators: int = 2) -> Network:
    network = chains(operators)
    queries = (replace(q, latency_s=latency_s, overload=overload) for q in network.queries.values())
    return Network(tuple(network.streams.values()), (), tuple(network.operators.values()), tuple(queries))


def measured(network: Network, rate: float, ticks: TickCosts | None = TICKS) -> Measured:
    """A millisecond a tuple in all."""
    profiles = {name: Profile(0.0005, 1.0, 100.0) for name in network.operators}
    return Measured(profiles, dict.fromkeys(network.streams, rate), ticks)


def judged(network: Network, known: Measured) -> tuple[str, ...]:
    return check_admission(network, list(network.queries), known)


def test_a_query_that_keeps_its_bound_is_let_in() -> None:
    # at half of the capacity ticks take a second, and a tuple is done within two of them, which vary a little
    network = bounded(2.1)
    assert judged(network, measured(network, 500.0)) == ()


def test_a_query_that_breaks_its_bound_is_refused_with_the_advice() -> None:
    network = bounded(1.9)
    with pytest.raises(
        Refused, match=r"latency p99 would be 2\.02 s, 1\.06 times its bound of 1\.9 s.*--force"
    ):
        judged(network, measured(network, 500.0))


def test_an_overload_breaks_every_bound() -> None:
    network = bounded(3600.0)
    with pytest.raises(Refused, match=r"utilisation would be 1\.2"):
        judged(network, measured(network, 1200.0))


@pytest.mark.parametrize(
    "network",
    [bounded(None), bounded(0.1, overload="shed")],
    ids=["no bounds", "sheds"],
)
def test_nothing_to_break_is_let_in_with_a_warning(network: Network) -> None:
    [warning] = judged(network, measured(network, 1200.0))
    assert "utilisation would be 1.2, and has to stay below 1" in warning


def test_a_query_that_keeps_its_bound_by_shedding_is_let_in_without_a_word() -> None:
    network = bounded(1.2, overload="shed")
    assert judged(network, measured(network, 900.0)) == ()


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({"profiles": {}}, "the profile has no profile of operator 0.0 (it is not in the profile)"),
        ({"tuples_per_s": {}}, "no rate of stream s0 is known"),
        (
            {"tuples_per_s": {}, "machine_bound": {"s0": 45_000.0}},
            "no rate of stream s0 is known, only that the profiled machine reads 45,000 tuples/s of it",
        ),
        ({"tick": None}, "the profile has no costs of ticks; measure them with headgate profile"),
        (
            {"tick": None, "not_measured": {"ticks": "only 5 of 6 did any work"}},
            "the profile has no costs of ticks (only 5 of 6 did any work)",
        ),
    ],
)
def test_what_was_not_measured_is_let_in_and_named(lost: dict[str, Any], said: str) -> None:
    network = bounded(0.1)
    [warning] = judged(network, replace(measured(network, 1200.0), **lost))
    assert warning.startswith(f"bounds of q0 are not checked: {said}")
    # nothing was promised, so there is nothing to check
    assert judged(bounded(None), Measured({}, {})) == ()


def test_an_operator_that_no_tuple_reaches_need_not_be_measured() -> None:
    network = bounded(2.1)
    known = measured(network, 500.0)
    first, last = network.operators
    silent = {first: replace(known.profiles[first], seconds_per_tuple=0.001, selectivity=0.0)}
    unreached = replace(known, profiles=silent, not_measured={last: "no tuple reached it"})
    assert judged(network, unreached) == ()
    with pytest.raises(Refused, match=r"latency p99 would be 2\.02 s"):
        judged(bounded(1.9), unreached)
    # if a single tuple in a million passes, its cost matters again
    rare = replace(unreached, profiles={first: replace(silent[first], selectivity=1e-6)})
    assert "operator 0.1 (no tuple reached it)" in judged(network, rare)[0]


def test_an_operator_that_was_not_measured_is_judged_by_a_like_one_and_named() -> None:
    network = bounded(2.1, operators=3)
    first, second, _ = network.operators
    known = measured(network, 333.0)
    known = replace(known, profiles={name: own for name, own in known.profiles.items() if name != second})
    # an estimate may be off by as much as it is
    doubt, mark = judged(network, known)
    assert doubt == "query q0 keeps its bounds by a margin smaller than the error of its profile"
    assert mark == "bounds of q0 are checked by estimates of operator 0.1 (as 0.0)"
    refusal = r"latency p99 would be 2\.0\d s.*are checked by estimates of operator 0\.1 \(as 0\.0\); --force"
    with pytest.raises(Refused, match=refusal):
        judged(bounded(1.9, operators=3), known)
    # one that has changed is taken to be as it was
    changed = replace(measured(network, 333.0), definitions={first: "another"})
    *_, mark = judged(network, changed)
    assert mark.endswith("estimates of operator 0.0 (as before it changed)")
    # without bounds there is nothing to mark
    assert judged(bounded(None, operators=3), known) == ()


def test_a_margin_smaller_than_the_error_of_the_profile_is_said() -> None:
    network = bounded(2.2)
    known = measured(network, 500.0, replace(TICKS, spread=0.05, samples=12))
    [warning] = judged(network, known)
    assert warning == "query q0 keeps its bounds by a margin smaller than the error of its profile"
    assert judged(bounded(4.0), known) == ()


def test_rates_that_ticks_cannot_take_are_those_of_the_machine() -> None:
    network = bounded(None)
    within = measured(network, 500.0)
    assert with_machine_bounds(within, network) == within
    beyond = with_machine_bounds(measured(network, 4000.0), network)
    assert beyond.machine_bound == {"s0": pytest.approx(1000.0)}
    assert beyond.tuples_per_s == {"s0": 4000.0}
    assert with_machine_bounds(Measured({}, {}), network) == Measured({}, {})


def test_a_query_is_admitted_if_all_keep_their_bounds() -> None:
    both = plan_named("two queries of a stream", 0.5, latency_s=6.0)
    assert admission(both, ["q2"], OnServer()).admitted
    assert admission(both, ["q2"], OnServer()).reason == ""
    refused = admission(both.scaled(1.9), ["q2"], OnServer())
    assert not refused.admitted and refused.new == ("q2",)
    assert "running query q1: latency p99 would be" in refused.reason
    assert "query q2: latency p99 would be" in refused.reason
    assert "it would fit with 2 processors" in refused.reason and "\n" not in refused.reason
    assert "all fits at" in refused.reason


def warnings_of(network: Network, rates: list[float]) -> list[Warning]:
    """A run of ticks of a second each."""
    said: list[Warning] = []
    history: list[TickRecord] = []
    statistics = StatisticsStore(network, measured(network, 0.0))
    statistics.follow(lambda: history)
    watch = BoundsWatch(network, statistics, said.append)
    [stream] = network.streams
    for second, rate in enumerate(rates):
        busy_s = 0.001 * rate
        length_s = TICKS.seconds(rate, busy_s)
        at_s = (history[-1].at_s if history else 0.0) + length_s
        history.append(TickRecord(at_s, length_s, int(rate), 0, 0, 0, 0, {}, {}, busy_s))
        counts = {stream: StreamCounts(int(rate))}
        tick = TickCommitted(float(second), second, 1.0, counts, {}, 0, 0, 0, {}, busy_s)
        statistics.arrivals.add(tick)
        watch(tick)
    return said


def test_a_warning_names_the_query_and_the_time_at_which_it_breaks() -> None:
    # 10 tuples a second more every second: ticks of 0.5 / (1 - rate / 1000) are 1.5 s at 667 a second
    network = bounded(3.0)
    [first, *_] = warnings_of(network, [100.0 + 10.0 * second for second in range(40)])
    [query] = network.queries
    assert first.query == query
    assert 20 < first.in_s < 60
    assert f"query {query} will break in" in str(first)


def test_a_steady_rate_gives_no_warning() -> None:
    assert warnings_of(bounded(3.0), [300.0] * 60) == []


def test_a_query_that_breaks_already_is_told_once_a_minute() -> None:
    said = warnings_of(bounded(1.2), [300.0 + second % 2 for second in range(100)])
    assert len(said) == 2
    assert said[0].in_s == 0


def test_queries_without_bounds_are_not_watched() -> None:
    assert warnings_of(bounded(None), [10.0 * second for second in range(100)]) == []
