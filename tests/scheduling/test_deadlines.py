"""Latency bounds become start deadlines; the least slack goes first."""

from __future__ import annotations

import math

import pytest
from tests.runtime.networks import chains

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile
from headgate.model.view import QueueView, SystemView
from headgate.scheduling import strategy_named
from headgate.scheduling.deadlines import ChainFlush, due_by_operator, endangered


def shared() -> Network:
    """One operator that two queries read on from, one of them in a hurry."""
    operators = (
        Synthetic("base", (StreamInput("s", "s", ()),)),
        Synthetic("calm", (OperatorInput("base"),)),
        Synthetic("hasty", (OperatorInput("base"),)),
    )
    queries = (
        QueryDefinition("slow", ("calm",), SinkDefinition("none"), latency_s=100.0),
        QueryDefinition("fast", ("hasty",), SinkDefinition("none"), latency_s=10.0),
    )
    return Network((StreamDefinition("s", "synthetic", None),), (), operators, queries)


PROFILES = {"base": Profile(1.0, 0.5), "calm": Profile(2.0, 1.0), "hasty": Profile(3.0, 1.0)}


def view(now_s: float, heads: dict[str, float], operators: object) -> SystemView:
    names = list(operators)  # type: ignore[call-overload]
    return SystemView(
        now_s,
        {n: QueueView(n, float(n in heads), float(n in heads), 1.0, heads.get(n, math.inf)) for n in names},
    )


def test_the_output_that_presses_most_sets_an_operators_deadline() -> None:
    due = due_by_operator(shared(), PROFILES, math.inf)
    assert due["base"].route == ("base", "hasty")
    assert (due["base"].latency_s, due["base"].remaining_s, due["base"].expected_s) == (10, 4, 2.5)
    assert due["calm"].slack_s(oldest_s=5.0, now_s=20.0) == 5 + 100 - 2 - 20


def test_least_slack_takes_what_can_wait_the_least() -> None:
    network = shared()
    strategy = strategy_named("least-slack")
    strategy.prepare(network, PROFILES)
    turn = strategy.choose(view(8.0, {"calm": 0.0, "hasty": 7.0, "base": 7.5}, network.operators))
    assert turn is not None and turn.operators == ("base", "hasty")
    turn = strategy.choose(view(96.0, {"calm": 0.0, "hasty": 95.0}, network.operators))
    assert turn is not None and turn.operators == ("calm",)


def test_without_bounds_least_slack_takes_the_oldest() -> None:
    network = chains(2, 2)
    strategy = strategy_named("least-slack")
    strategy.prepare(network, {name: Profile() for name in network.operators})
    turn = strategy.choose(view(8.0, {"0.0": 3.0, "1.1": 2.0}, network.operators))
    assert turn is not None and turn.operators == ("1.1",)


def test_chain_flush_flushes_the_head_that_must_start_now_all_the_way_out() -> None:
    network = chains(2)
    profiles = {"0.0": Profile(1.0, 0.1), "0.1": Profile(5.0, 1.0)}
    strategy = ChainFlush(latency_s=10.0)
    strategy.prepare(network, profiles)
    waiting = {"0.0": 0.0, "0.1": 0.0}
    calm = strategy.choose(view(3.9, waiting, network.operators))
    assert calm is not None and calm.operators == ("0.0",)
    # six seconds of work, and ten until it is due
    pressed = strategy.choose(view(4.0, waiting, network.operators))
    assert pressed is not None and pressed.operators == ("0.0", "0.1")
    # when both are late, the one that is nearer to the output goes first
    late = strategy.choose(view(5.0, waiting, network.operators))
    assert late is not None and late.operators == ("0.1",)
    strategy.margin_s = 1.0
    early = strategy.choose(view(3.0, waiting, network.operators))
    assert early is not None and early.operators == ("0.0", "0.1")


def test_a_bound_can_be_changed_while_it_runs() -> None:
    network, profiles = chains(2), {"0.0": Profile(1.0, 0.1), "0.1": Profile(5.0, 1.0)}
    strategy = ChainFlush(latency_s=10.0)
    strategy.prepare(network, profiles)
    strategy.latency_s = 1000.0
    strategy.prepare(network, profiles)
    turn = strategy.choose(view(50.0, {"0.0": 0.0, "0.1": 0.0}, network.operators))
    assert turn is not None and turn.operators == ("0.0",)


@pytest.mark.parametrize(("bound", "first"), [(20.0, None), (4.0, 1.0), (2.0, 0.0)])
def test_the_exact_rule_adds_up_the_work_of_those_before(bound: float, first: float | None) -> None:
    """Three tuples of two seconds each, at times 0, 1 and 2; it is time 1.5 but for the last."""
    tuples = [(at, at + bound - 1.5, 2.0) for at in (0.0, 1.0)]
    assert endangered(tuples) == first
