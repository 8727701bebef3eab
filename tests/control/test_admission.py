"""Queries with bounds are let in by what was measured, and watched while they run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.queueing.plans import plan_named
from tests.runtime.networks import chains

from headgate.control.admission import BoundsWatch, Refused, admission, check_admission
from headgate.model.event import StreamCounts, TickCommitted
from headgate.model.network import Network
from headgate.model.profile import Profile, TickCosts
from headgate.queueing.advice import Warning
from headgate.queueing.latency_models import OnServer
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore
from headgate.status import TickRecord

TICKS = TickCosts(0.5, 0.0, 1.0)


def bounded(latency_s: float | None, overload: str = "backpressure") -> Network:
    network = chains(2)
    queries = (replace(q, latency_s=latency_s, overload=overload) for q in network.queries.values())
    return Network(tuple(network.streams.values()), (), tuple(network.operators.values()), tuple(queries))


def measured(network: Network, rate: float, ticks: TickCosts | None = TICKS) -> Measured:
    """A millisecond a tuple in all."""
    profiles = {name: Profile(0.0005, 1.0, 100.0) for name in network.operators}
    return Measured(profiles, dict.fromkeys(network.streams, rate), ticks)


def judged(network: Network, known: Measured) -> None:
    check_admission(network, list(network.queries), known, processors=1)


def test_a_query_that_keeps_its_bound_is_let_in() -> None:
    # at half of the capacity ticks take a second, and a tuple is done within two of them
    network = bounded(2.1)
    judged(network, measured(network, 500.0))


def test_a_query_that_breaks_its_bound_is_refused_with_the_advice() -> None:
    network = bounded(1.9)
    with pytest.raises(
        Refused, match=r"latency p99 would be 1\.99 s, 1\.05 times its bound of 1\.9 s.*--force"
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
def test_nothing_to_break_is_let_in(network: Network) -> None:
    judged(network, measured(network, 1200.0))


def test_nothing_is_said_of_what_was_not_measured() -> None:
    network = bounded(0.1)
    judged(network, Measured({}, {}))
    judged(network, replace(measured(network, 1200.0), tuples_per_s={}))


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
