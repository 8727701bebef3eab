"""The one loop: every engine runs every strategy through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from headgate.errors import StalledError, UserCodeError, known_names
from headgate.model.event import ProfilesLearnt
from headgate.model.view import Turn
from headgate.runtime.engine import Engine
from headgate.runtime.observers import Observer, Observers
from headgate.runtime.usercode import is_from_user, user_code_error
from headgate.scheduling.strategy import Strategy


def drive(engine: Engine, strategy: Strategy, observers: Iterable[Observer] = ()) -> None:
    """Run the engine until its events end, asking the strategy whenever a processor is free."""
    watching = Observers(observers)
    _prepare(strategy, engine)
    while (event := engine.next_event()) is not None:
        watching.notify(event)
        if isinstance(event, ProfilesLearnt):
            _prepare(strategy, engine)
        while engine.accepts_turn():
            turn = _chosen(strategy, engine)
            if turn is None:
                break
            engine.start(turn)


def _prepare(strategy: Strategy, engine: Engine) -> None:
    with _named(strategy):
        strategy.prepare(engine.network, engine.profiles())


def _chosen(strategy: Strategy, engine: Engine) -> Turn | None:
    with _named(strategy):
        # one of the user's may return anything
        turn: Any = strategy.choose(engine.view())
    if turn is None:
        return None
    if not isinstance(turn, Turn):
        chose = f"{turn!r} ({type(turn).__name__})"
        raise UserCodeError(f"strategy {strategy.name} chose {chose}; choose must return a Turn or None")
    unknown = [name for name in turn.operators if name not in engine.network.operators]
    if unknown or not turn.operators:
        chose = f"operator {unknown[0]!r}" if unknown else "no operator"
        known = known_names(list(engine.network.operators))
        raise UserCodeError(f"strategy {strategy.name} chose a turn of {chose}; operators: {known}")
    if not turn.max_tuples > 0:
        raise StalledError(f"strategy {strategy.name} chose a turn of no tuples")
    return turn


@contextmanager
def _named(strategy: Strategy) -> Iterator[None]:
    """What a strategy of the user's raises is reported as its own; a defect of ours stays one."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if is_from_user(error):
            raise user_code_error(f"strategy {strategy.name}", error) from error
        raise
