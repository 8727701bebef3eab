"""Profiling: rounds over a sample, in which operators rest, and ticks of several sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.networks import chains

from headgate.model.event import StreamCounts
from headgate.model.network import Network, SinkDefinition, StreamDefinition
from headgate.model.profile import TickCosts
from headgate.model.status import RunStatus, TickRecord
from headgate.model.view import QueueView, SystemView, Turn
from headgate.statistics.estimators import TickWork, tick_costs
from headgate.statistics.operators import Passed
from headgate.statistics.profiling import KnownRates, Profiler, Sampling, rests, sampled
from headgate.statistics.store import StatisticsStore

CHAIN = chains(2)
[STREAM] = CHAIN.streams


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


def test_generated_tuples_come_in_ticks_of_bounded_size_unless_the_script_says_otherwise() -> None:
    def most(*options: tuple[str, str], rate: float | None = 100.0, format: str = "burst") -> dict[str, str]:
        stream = StreamDefinition("s0", format, None, options)
        network = chains(2).changed(streams=(stream,))
        [found] = sampled(network, rates={} if rate is None else {"s0": rate}).streams.values()
        return dict(found.options)

    assert most() == {"maxRowsPerTrigger": "200"}
    assert most(("RowsPerTrigger", "7")) == {"RowsPerTrigger": "7"}
    assert most(rate=None) == {}
    # Spark's own source knows no such option
    assert most(format="rate") == {}


def test_results_do_not_go_where_the_script_sends_them() -> None:
    assert {q.sink for q in sampled(with_stream()).queries.values()} == {SinkDefinition("memory")}


class Round:
    """A round of a run: its ticks, followed by the store, and its status.

    A tick begins when the one before it ends, and takes what has arrived by then.
    """

    def __init__(self, store: StatisticsStore, per_s: float, ticks: int = 5, tick_s: float = 1.0) -> None:
        rows = int(per_s * tick_s)
        for number in range(ticks):
            # half as much again in every second tick, so that ticks tell what each costs anyway
            worked = [TickWork(dict.fromkeys(CHAIN.operators, rows * (1 + number % 2 / 2)), 0.0, 0.1)]
            store.operators.add(worked, dict.fromkeys(CHAIN.operators, Passed(rows, rows)), {})
        history = [
            TickRecord(at_s * tick_s, tick_s, rows, 0, 0, 0, 0, {}, {}, 0.1) for at_s in range(1, ticks + 1)
        ]
        store.follow(lambda: history)
        # before the first tick, as much again was waiting
        waiting = [replace(history[0], rows_in=2 * rows), *history[1:]] if history else []
        counts = StreamCounts(sum(tick.rows_in for tick in waiting))
        self.status = RunStatus({}, {STREAM: counts}, 0, 0, 0, ticks, ticks * tick_s, waiting)


def profiler(seconds: float = 0.0) -> tuple[Profiler, StatisticsStore]:
    store = StatisticsStore(CHAIN)
    return Profiler(CHAIN, seconds, store), store


def run_through(profiling: Profiler, store: StatisticsStore, per_s: float, ticks: int) -> list[str]:
    """Rounds of so many ticks, as long as more are wanted; what was said when the time was too short."""
    said: list[str] = []
    while profiling.wants_more() or profiling.extend(said.append):
        profiling.end_round(Round(store, per_s, ticks).status)
    return [text.removeprefix("measuring longer than requested: ") for text in said]


def test_the_first_round_does_not_count() -> None:
    profiling, store = profiler()
    assert profiling.wants_more()
    profiling.end_round(Round(store, 1_000_000, 9).status)
    assert profiling.wants_more() and profiling.separates_operators
    # its ticks measure Java's compiler
    assert store.tick_costs() is None and store.unmeasured().keys() == {*CHAIN.operators, "ticks"}
    profiling.end_round(Round(store, 400, 9).status)
    assert profiling.wants_more() and not profiling.separates_operators
    # ticks in which operators rest are not those that will be run
    assert store.tick_costs() is None
    profiling.end_round(Round(store, 600, 9).status)
    assert not profiling.wants_more() and not profiling.extend(print)
    # what waited before a round is no part of its rate
    assert profiling.measured(KnownRates(), 2).tuples_per_s == {STREAM: pytest.approx(500.0)}
    assert profiling.measured(KnownRates(), 2).processors == 2


def test_a_rate_that_is_declared_or_recorded_needs_no_counting() -> None:
    profiling, store = profiler()
    run_through(profiling, store, 500, 9)
    declared = profiling.measured(KnownRates(declared={STREAM: (700.0,)}), 2)
    assert declared.tuples_per_s == {STREAM: 700.0} and declared.machine_bound == {}
    recorded = profiling.measured(KnownRates(recorded={STREAM: 9000.0}), 2)
    assert recorded.tuples_per_s == {STREAM: 9000.0} and recorded.machine_bound == {}


def test_a_declared_rate_that_was_not_reached_is_machine_bound() -> None:
    profiling, store = profiler()
    run_through(profiling, store, 500, 9)
    found = profiling.measured(KnownRates(declared={STREAM: (5000.0,)}), 2)
    assert found.tuples_per_s == {STREAM: 5000.0}
    assert found.machine_bound == {STREAM: pytest.approx(500.0)}


def test_a_rate_that_changes_is_counted_unless_the_machine_is_too_slow_for_any_phase() -> None:
    profiling, store = profiler()
    run_through(profiling, store, 500, 9)
    counted = profiling.measured(KnownRates(declared={STREAM: (400.0, 9000.0)}), 2)
    assert counted.tuples_per_s == {STREAM: pytest.approx(500.0)} and counted.machine_bound == {}
    missed = profiling.measured(KnownRates(declared={STREAM: (4000.0, 9000.0)}), 2)
    assert missed.tuples_per_s == {} and missed.machine_bound == {STREAM: pytest.approx(500.0)}


def test_a_machine_that_rests_between_ticks_is_not_slow() -> None:
    profiling, store = profiler()
    profiling.end_round(Round(store, 500, 9).status)
    working = Round(store, 500, 9).status
    # as many tuples, in five times the time: a second of each tick, and four of rest
    ticks = [replace(t, at_s=5 * t.at_s - 4, phases_s={"rest": 4.0}) for t in working.history]
    profiling.end_round(replace(working, history=ticks))
    found = profiling.measured(KnownRates(declared={STREAM: (500.0,)}), 2)
    assert found.machine_bound == {} and found.tuples_per_s == {STREAM: 500.0}
    assert profiling.measured(KnownRates(), 2).tuples_per_s == {STREAM: pytest.approx(100.0)}


def test_what_is_read_as_fast_as_possible_has_no_rate() -> None:
    profiling, store = profiler()
    run_through(profiling, store, 500, 9)
    found = profiling.measured(KnownRates(unpaced={STREAM}), 2)
    assert found.tuples_per_s == {} and found.machine_bound == {STREAM: pytest.approx(500.0)}


def test_a_time_that_is_too_short_is_extended_until_all_is_measured() -> None:
    profiling, store = profiler()
    said = run_through(profiling, store, 500, 3)
    assert said[0].startswith("0.0 (only 1 of 4 ticks had 200 tuples or more for its query), 0.1 (")
    assert "ticks (too few of them did any work)" in said[0]
    assert profiling.measured(KnownRates(), 2).not_measured == {}
    assert profiling.stage.endswith("longer than requested")


def test_a_stream_that_is_too_slow_for_large_ticks_is_measured_by_small_ones() -> None:
    profiling, store = profiler()
    said = run_through(profiling, store, 20, 5)
    assert said[0].startswith("0.0 (only 0 of 4 ticks had 200 tuples or more for its query)")
    found = profiling.measured(KnownRates(), 2)
    assert found.not_measured == {}
    # it may all be Spark's own time
    for profile in found.profiles.values():
        assert profile.seconds_per_tuple_error > 0.2 * profile.seconds_per_tuple > 0


def test_a_time_is_not_extended_for_ever() -> None:
    # a tick of a round has no beginning: the costs of ticks are never known
    profiling, store = profiler()
    said = run_through(profiling, store, 500, 1)
    assert 1 < len(said) <= 6
    assert profiling.measured(KnownRates(), 2).tick is None
    # nor where nothing comes that could be measured
    idle, nothing = profiler()
    assert len(run_through(idle, nothing, 0, 0)) == 1
    assert idle.measured(KnownRates(), 2).not_measured.keys() == {*CHAIN.operators, "ticks"}


def test_what_waits_for_nobody_comes_in_ticks_of_several_sizes() -> None:
    profiling, store = profiler()
    sizes: list[int] = []
    while profiling.wants_more() or profiling.extend(print):
        sizes.append(profiling.files_per_tick)
        profiling.end_round(Round(store, 500, 2).status)
    assert sizes[:6] == [1, 1, 1, 3, 1, 3]


def tick(at_s: float, rows: int, busy_s: float) -> TickRecord:
    return TickRecord(at_s, 0.0, rows, 0, 0, 0, 0, {}, {}, busy_s)


def test_rests_make_ticks_of_several_sizes_and_are_no_cost_of_them() -> None:
    true, next_rest_s = TickCosts(0.3, 0.0, 0.5), rests()
    history, at_s, rest_s = [tick(0.0, 0, 0.0)], 0.0, 0.0
    for _ in range(12):
        # 10,000 tuples a second, 20 us each
        rows = int(10_000 * (rest_s + history[-1].seconds))
        seconds = true.seconds(rows, rows * 2e-5)
        at_s += rest_s + seconds
        rest_s = next_rest_s(seconds)
        phases_s = {"rest": rest_s}
        history.append(replace(tick(at_s, rows, rows * 2e-5), seconds=seconds, phases_s=phases_s))
    rows = [t.rows_in for t in history[3:]]
    assert max(rows) > 2 * min(rows)
    found = tick_costs([history])
    assert found is not None and found.overhead_s == pytest.approx(0.3, rel=0.02)


NETWORK = chains(3)
OPERATORS = tuple(NETWORK.operators)


def view(**ready: float) -> SystemView:
    lengths = dict.fromkeys(OPERATORS, 0.0) | ready
    return SystemView(0.0, {n: QueueView(n, ready, ready, ready, 0.0) for n, ready in lengths.items()})


def worked_in_tick(strategy: Sampling, queues: dict[str, float]) -> list[str]:
    """Choose until the strategy has enough; what each turn takes goes to the next operator."""
    worked = []
    while (turn := strategy.choose(view(**queues))) is not None:
        [name] = turn.operators
        worked.append(name)
        following = OPERATORS.index(name) + 1
        if following < len(OPERATORS):
            queues[OPERATORS[following]] += queues[name]
        queues[name] = 0.0
    return worked


def prepared(seed: int = 0) -> Sampling:
    strategy = Sampling(seed)
    strategy.prepare(NETWORK, {})
    return strategy


def test_ticks_differ_in_the_operators_that_work() -> None:
    strategy, queues = prepared(), dict.fromkeys(OPERATORS, 0.0)
    seen = set()
    for _ in range(40):
        queues[OPERATORS[0]] += 100
        seen.add(tuple(worked_in_tick(strategy, queues)))
    assert len(seen) >= len(OPERATORS) + 1
    assert OPERATORS in seen


def test_a_backlog_ends() -> None:
    strategy, queues = prepared(), dict.fromkeys(OPERATORS, 100.0)
    ticks = idle = 0
    while sum(queues.values()) > 0:
        idle = 0 if worked_in_tick(strategy, queues) else idle + 1
        assert idle <= 2, "nothing is done although there is work"
        ticks += 1
    assert ticks <= 16


def test_ticks_of_one_operator_differ_in_how_much_they_take() -> None:
    one = chains(1)
    [name] = one.operators
    strategy, waiting, taken = Sampling(1), 0.0, []
    strategy.prepare(one, {})
    for _ in range(40):
        waiting += 100
        if (turn := strategy.choose(view(**{name: waiting}))) is not None:
            taken.append(waiting)
            waiting = 0.0
            assert strategy.choose(view()) is None
            assert turn.operators == (name,)
    assert {100.0, 200.0} <= set(taken) <= {100.0, 200.0, 300.0}


def test_a_turn_takes_all_that_is_ready() -> None:
    strategy = prepared()
    assert strategy.choose(view(**{OPERATORS[1]: 7.0})) == Turn((OPERATORS[1],), 7.0)
    assert strategy.choose(view()) is None
