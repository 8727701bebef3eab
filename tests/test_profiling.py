"""What a profile is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.networks import chains

from headgate.model.event import StreamCounts
from headgate.model.measured import Measured, beside
from headgate.model.network import Network, SinkDefinition, StreamDefinition
from headgate.model.profile import Profile
from headgate.model.tick import TickCosts
from headgate.profiling import Profiler, Rests, sampled, tick_costs
from headgate.status import RunStatus, TickRecord


def with_stream(*options: tuple[str, str]) -> Network:
    network = chains(2)
    [name] = network.streams
    stream = StreamDefinition(name, "parquet", None, options)
    return Network((stream,), (), tuple(network.operators.values()), tuple(network.queries.values()))


def options_of(network: Network) -> dict[str, str]:
    [stream] = sampled(network).streams.values()
    return dict(stream.options)


def test_files_come_one_by_one_unless_the_script_says_otherwise() -> None:
    assert options_of(with_stream(("path", "in")))["maxFilesPerTrigger"] == "1"
    assert options_of(with_stream(("path", "in"), ("MaxFilesPerTrigger", "7")))["MaxFilesPerTrigger"] == "7"
    assert options_of(with_stream(("path", "in"), ("maxBytesPerTrigger", "1m"))).keys() == {
        "path",
        "maxBytesPerTrigger",
    }
    assert options_of(with_stream(("rate", "100"))) == {"rate": "100"}


def test_results_do_not_go_where_the_script_sends_them() -> None:
    assert {q.sink for q in sampled(with_stream()).queries.values()} == {SinkDefinition("memory")}


def status(rows: int, seconds: float, stream: str, ticks: int = 5) -> RunStatus:
    history = [tick(float(at), rows // ticks, 0.1) for at in range(ticks)]
    return RunStatus({}, {stream: StreamCounts(rows)}, 0, 0, 0, ticks, seconds, history)


def test_the_first_round_does_not_count() -> None:
    network = chains(2)
    [stream] = network.streams
    profiler = Profiler(network, 0.0)
    assert profiler.wants_more()
    profiler.take_in(Measured({}), status(1_000_000, 1.0, stream))
    assert profiler.wants_more() and profiler.tells_apart and profiler.goes_on
    profiler.take_in(Measured({"a": Profile(3e-6)}), status(400, 1.0, stream))
    assert profiler.wants_more() and not profiler.tells_apart and not profiler.goes_on
    profiler.take_in(Measured({"a": Profile(2e-6)}), status(600, 3.0, stream))
    assert not profiler.wants_more()
    assert profiler.measured({}).profiles == {"a": Profile(2e-6)}
    assert profiler.measured({}).tuples_per_s == {stream: 250.0}
    assert profiler.measured({stream: 7.0}).tuples_per_s == {stream: 7.0}


def test_rounds_that_tell_too_little_are_repeated_but_not_for_ever() -> None:
    network = chains(2)
    [stream] = network.streams
    profiler = Profiler(network, 0.0)
    while profiler.wants_more():
        profiler.take_in(Measured({}), status(10, 0.1, stream, ticks=1))
    assert profiler.rounds == 7
    assert profiler.measured({}).tick is None


def test_what_waits_for_nobody_comes_in_ticks_of_several_sizes() -> None:
    network = chains(2)
    [stream] = network.streams
    profiler, sizes = Profiler(network, 0.0), []
    while profiler.wants_more():
        sizes.append(profiler.files_per_tick)
        profiler.take_in(Measured({}), status(10, 0.1, stream, ticks=1))
    assert sizes == [1, 1, 1, 3, 1, 3, 1]


def test_rests_make_ticks_of_several_sizes_and_are_no_cost_of_them() -> None:
    true, rests = TickCosts(0.3, 0.0, 0.5), Rests()
    history, at_s, rest_s = [tick(0.0, 0, 0.0)], 0.0, 0.0
    for _ in range(12):
        # 10,000 tuples a second, 20 us each
        rows = int(10_000 * (rest_s + history[-1].seconds))
        seconds = true.seconds(rows, rows * 2e-5)
        at_s += rest_s + seconds
        rest_s = rests(seconds)
        phases_s = {"rest": rest_s}
        history.append(replace(tick(at_s, rows, rows * 2e-5), seconds=seconds, phases_s=phases_s))
    rows = [t.rows_in for t in history[3:]]
    assert max(rows) > 2 * min(rows)
    found = tick_costs([history])
    assert found is not None and found.overhead_s == pytest.approx(0.3, rel=0.02)


def test_a_profile_survives_being_written() -> None:
    ticks = TickCosts(0.2, 1e-6, 0.5)
    measured = Measured({"a": Profile(2e-6, 0.25, 33.0, 12, 1e-7, 0.004)}, {"s": 100.0}, ticks)
    assert Measured.from_json(measured.to_json(), "p") == measured


def tick(at_s: float, rows: int, busy_s: float) -> TickRecord:
    return TickRecord(at_s, 0.0, rows, 0, 0, 0, 0, {}, {}, busy_s)


def test_the_length_of_ticks_is_explained_by_what_they_do() -> None:
    true = TickCosts(0.2, 2e-6, 0.6)
    history, at_s = [tick(0.0, 0, 0.0)], 0.0
    for rows, busy_s in [(1000, 0.1), (50_000, 0.4), (20_000, 1.5), (0, 0.7), (90_000, 0.2)]:
        at_s += true.seconds(rows, busy_s)
        history.append(tick(at_s, rows, busy_s))
    found = tick_costs([history])
    assert found is not None
    assert (found.overhead_s, found.intake_s, found.work_s) == pytest.approx((0.2, 2e-6, 0.6), rel=1e-3)
    assert tick_costs([history[:3]]) is None


@pytest.mark.parametrize("script", ["q.sql", "folder/q.cql", "q"])
def test_a_profile_lies_beside_its_script(script: str) -> None:
    assert beside(Path(script)) == Path(script).parent / "q.profile.json"


def test_under_a_steady_load_the_time_of_ticks_is_work() -> None:
    at_s = [0.0, 0.7, 1.6, 2.7, 3.5, 4.3]
    rows = [0, 1000, 2000, 3000, 1500, 1500]
    history = [tick(at, n, n * 1e-4) for at, n in zip(at_s, rows, strict=True)]
    found = tick_costs([history])
    assert found is not None
    assert found.intake_s * 2000 < 0.01 < found.work_s
