"""Sampling lets operators rest, so that ticks differ, and leaves nothing behind for ever."""

from __future__ import annotations

from tests.runtime.networks import chains

from headgate.model.view import QueueView, SystemView, Turn
from headgate.runtime.sampling import Sampling

NETWORK = chains(3)
OPERATORS = tuple(NETWORK.operators)


def view(**ready: float) -> SystemView:
    lengths = dict.fromkeys(OPERATORS, 0.0) | ready
    return SystemView(0.0, {n: QueueView(n, ready, ready, ready, 0.0) for n, ready in lengths.items()})


def tick(strategy: Sampling, queues: dict[str, float]) -> list[str]:
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
        seen.add(tuple(tick(strategy, queues)))
    assert len(seen) >= len(OPERATORS) + 1
    assert OPERATORS in seen


def test_a_backlog_ends() -> None:
    strategy, queues = prepared(), dict.fromkeys(OPERATORS, 100.0)
    ticks = idle = 0
    while sum(queues.values()) > 0:
        idle = 0 if tick(strategy, queues) else idle + 1
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
