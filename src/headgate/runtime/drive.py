"""The one loop: every engine runs every strategy through it."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.errors import StalledError
from headgate.model.event import ProfilesLearnt
from headgate.runtime.engine import Engine
from headgate.runtime.observers import Observer, Observers
from headgate.scheduling.strategy import Strategy


def drive(engine: Engine, strategy: Strategy, observers: Iterable[Observer] = ()) -> None:
    """Run the engine until its events end, asking the strategy whenever a processor is free."""
    watching = Observers(observers)
    strategy.prepare(engine.network, engine.profiles())
    while (event := engine.next_event()) is not None:
        watching.notify(event)
        if isinstance(event, ProfilesLearnt):
            strategy.prepare(engine.network, engine.profiles())
        while engine.accepts_turn():
            turn = strategy.choose(engine.view())
            if turn is None:
                break
            if turn.max_tuples <= 0:
                raise StalledError(f"strategy {strategy.name} chose a turn of no tuples")
            engine.start(turn)
