"""Small cases worked out by hand: what a time unit, a pool, a shared operator, a join in order mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.simulator.networks import scenario, two_operators

from headgate.scheduling import strategy_named
from headgate.simulator import Behaviour, OnePerOperator, Pool, Scenario, simulate


def backlog(found: Scenario, strategy: str = "fifo") -> list[tuple[float, float]]:
    steps = simulate(found, strategy_named(strategy)).backlog
    return list(zip(steps.times_s.tolist(), steps.sizes.tolist(), strict=True))


def outputs(found: Scenario, strategy: str = "fifo") -> list[tuple[float, float, float]]:
    results = simulate(found, strategy_named(strategy)).outputs
    columns = (results.times_s, results.amounts.round(12), results.latencies_s)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def cheap_behind_dear(**settings: Any) -> Scenario:
    """A slow operator on one stream, a quick and selective one on another."""
    return scenario(
        {"s": [0], "t": [0.5]},
        {"slow": ("s", Behaviour(3)), "quick": ("t", Behaviour(1))},
        {"q": "slow", "r": "quick"},
        **settings,
    )


def test_without_a_time_unit_work_is_finished_before_the_next_choice() -> None:
    assert outputs(cheap_behind_dear(), "chain") == [(3, 1, 3), (4, 1, 3.5)]


def test_a_time_unit_interrupts_and_what_was_done_is_kept() -> None:
    # chosen anew at 1; the slow one goes on at 2 with two of its three seconds left
    assert outputs(cheap_behind_dear(time_unit_s=1.0), "chain") == [(2, 1, 1.5), (4, 1, 4)]


def test_an_arrival_within_a_time_unit_waits_for_its_end_but_not_when_nobody_works() -> None:
    found = scenario({"s": [0.25, 0.5]}, {"a": ("s", Behaviour(0.5))}, {"q": "a"}, time_unit_s=1.0)
    assert outputs(found) == [(0.75, 1, 0.5), (1.25, 1, 0.75)]


def test_backlog_is_told_at_every_change_and_at_every_time_unit() -> None:
    found = scenario({"s": [0.5]}, {"a": ("s", Behaviour(2.25))}, {"q": "a"}, time_unit_s=1.0)
    assert backlog(found) == [(0.5, 1), (1, 1), (2, 1), (2.75, 0)]


def test_two_processors_serve_one_operator_together() -> None:
    found = scenario({"s": [0, 0, 0]}, {"a": ("s", Behaviour(1))}, {"q": "a"}, processors=Pool(2))
    assert backlog(found) == [(0, 3), (1, 1), (2, 0)]


def test_a_processor_for_every_operator_makes_a_pipeline() -> None:
    found = scenario(
        {"s": [0, 0]},
        {"a": ("s", Behaviour(1)), "b": ("a", Behaviour(2))},
        {"q": "b"},
        processors=OnePerOperator(),
    )
    assert outputs(found) == [(3, 1, 3), (5, 1, 5)]


def test_a_shared_operator_hands_its_tuple_to_all_readers() -> None:
    found = scenario(
        {"s": [0]},
        {"a": ("s", Behaviour(1, 0.5)), "b": ("a", Behaviour(2)), "c": ("a", Behaviour(4, 0.1))},
        {"q": "b", "r": "c", "both": "a"},
    )
    assert outputs(found) == [(1, 0.5, 1), (2, 0.5, 2), (4, 0.05, 4)]
    assert backlog(found) == [(0, 1), (1, 1), (2, 0.5), (4, 0)]


def test_pages_may_grow() -> None:
    found = scenario({"s": [0]}, {"a": ("s", Behaviour(1, 3)), "b": ("a", Behaviour(1, 0.5))}, {"q": "b"})
    assert backlog(found) == [(0, 1), (1, 3), (4, 0)]
    assert outputs(found) == [(4, 1.5, 4)]


def test_sizes_follow_widths_and_bytes_follow_the_stream() -> None:
    found = scenario(
        {"s": [0], "t": [0]},
        {"a": ("s", Behaviour(1, 0.5, size_ratio=4)), "b": ("a t", Behaviour(2))},
        {"q": "b"},
        bytes_per_tuple={"s": 10, "t": 100},
    )
    steps = simulate(found, strategy_named("chain")).backlog
    assert dict(zip(steps.times_s.tolist(), steps.bytes.tolist(), strict=True))[0] == 110
    taken_first = simulate(found, strategy_named("fifo")).backlog
    assert taken_first.bytes.max() == 110
    assert taken_first.sizes.max() == 2


def test_tuples_without_a_size_take_no_room() -> None:
    found = scenario({"s": [0]}, {"a": ("s", Behaviour(1))}, {"q": "a"}, bytes_per_tuple={"s": 0})
    result = simulate(found, strategy_named("chain"))
    assert result.backlog.bytes.max() == 0 and outputs(found) == [(1, 1, 1)]


def test_what_is_filtered_out_entirely_goes_no_further() -> None:
    found = scenario({"s": [0]}, {"a": ("s", Behaviour(1, 0)), "b": ("a", Behaviour(1))}, {"q": "b"})
    assert backlog(found) == [(0, 1), (1, 0)]
    assert outputs(found) == []


def test_a_page_of_which_nothing_is_left_at_the_output_is_told_with_amount_0() -> None:
    assert outputs(two_operators())[0] == (2, 0, 2)


def join(**settings: Any) -> Scenario:
    """A slow selection before one side of a join, none before the other."""
    return scenario(
        {"s": [1, 4], "t": [2, 3]},
        {"a": ("s", Behaviour(5)), "j": ("a t", Behaviour(1))},
        {"q": "j"},
        processors=OnePerOperator(),
        **settings,
    )


def test_several_inputs_take_what_is_there() -> None:
    assert outputs(join()) == [(3, 1, 1), (4, 1, 1), (7, 1, 6), (12, 1, 8)]


def test_a_join_in_timestamp_order_waits_for_what_is_older() -> None:
    # the tuple of s that came at 1 is out of a at 6; before, those of t must not be joined
    assert outputs(join(ordered=["j"])) == [(7, 1, 6), (8, 1, 6), (9, 1, 6), (12, 1, 8)]


def test_a_join_in_timestamp_order_waits_for_a_silent_stream_unless_it_has_ended() -> None:
    found = scenario({"s": [0, 1], "t": [0.5, 7]}, {"j": ("s t", Behaviour(0.25))}, {"q": "j"}, ordered=["j"])
    # that of 1 may be joined once t has sent something later; that of 0.5 as soon as s has
    assert outputs(found) == [(0.75, 1, 0.75), (1.25, 1, 0.75), (7.25, 1, 6.25), (7.5, 1, 0.5)]


def test_equal_sums_of_times_are_one_instant() -> None:
    found = scenario(
        {"s": [0], "t": [0.3]},
        {"a": ("s", Behaviour(0.1)), "b": ("a", Behaviour(0.2)), "c": ("b t", Behaviour(1))},
        {"q": "c"},
    )
    assert [time for time, _ in backlog(found)] == [0, 0.1, 0.3, 1.3, 2.3]


def test_no_arrivals_are_no_backlog() -> None:
    result = simulate(scenario({"s": []}, {"a": ("s", Behaviour(1))}, {"q": "a"}), strategy_named("chain"))
    assert (result.backlog.peak, result.backlog.mean, result.latency_mean_s) == (0, 0, None)


@pytest.mark.parametrize("times", [[1e6 + 0.1, 1e6 + 0.2], [1e-6, 2e-6]])
def test_times_stay_as_they_are_written(times: list[float]) -> None:
    found = scenario({"s": times}, {"a": ("s", Behaviour(1e-6))}, {"q": "a"})
    assert [time for time, size in backlog(found) if size > 0] == times


def test_a_seed_changes_fates_and_nothing_else() -> None:
    found = scenario({"s": list(range(50))}, {"a": ("s", Behaviour(0.1, 0.5))}, {"q": "a"}, fate="random")
    assert outputs(found) != outputs(replace(found, seed=1))
    assert outputs(found) == outputs(replace(found, seed=0))


@pytest.mark.parametrize("processors", [Pool(1), Pool(2)])
def test_pages_of_next_to_nothing_are_not_forgotten(processors: Pool) -> None:
    found = scenario(
        {"s": [0, 1], "t": [0, 1]},
        {"a": ("s", Behaviour(0.5, 1e-20)), "b": ("a t", Behaviour(2))},
        {"q": "b"},
        processors=processors,
    )
    for strategy in ("fifo", "round-robin", "chain"):
        assert len(outputs(found, strategy)) == 4
