"""The one loop that runs every strategy on every engine; the protocols and observers of a run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headgate.errors import StalledError, UserCodeError, known_names
from headgate.model.event import Event, ProfilesLearnt, TickCommitted
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.shedding import TickSettings
from headgate.model.view import SystemView, Turn
from headgate.runtime.usercode import Guarded, blaming, name_of, user_code_error
from headgate.scheduling.strategy import Strategy

Observer = Callable[[Event], None]

_log = logging.getLogger("headgate")


class Engine(Protocol):
    """Executes turns: in virtual time, or on Spark."""

    @property
    def network(self) -> Network: ...

    def profiles(self) -> Profiles: ...

    def view(self) -> SystemView: ...

    def accepts_turn(self) -> bool: ...

    def start(self, turn: Turn) -> None:
        """Begin a turn; its end is reported as an event."""

    def next_event(self) -> Event | None:
        """Wait for the next event; None when the run is over."""


@dataclass(frozen=True)
class SettingsDecision:
    """The settings of the next tick, why they differ from the last ones, and the statistics behind that."""

    settings: TickSettings
    reason: str = ""
    statistics: Mapping[str, float] = field(default_factory=dict)


class Controller(Protocol):
    """Fixes the settings of each tick before its tuples are read; does no I/O."""

    def first(self) -> TickSettings: ...

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        """Settings of the next tick; ``tick`` is about to be committed and ran under ``settings``."""

    def wants_samples(self) -> bool:
        """Whether the current tick should sample how often tuples match."""


def drive(engine: Engine, strategy: Strategy, observers: Iterable[Observer] = ()) -> None:
    """Run the engine until its events end; the strategy chooses a turn whenever a processor is free."""
    plugged_in = list(observers)
    _prepare(strategy, engine)
    while (event := engine.next_event()) is not None:
        notify(plugged_in, event)
        if isinstance(event, ProfilesLearnt):
            _prepare(strategy, engine)
        while engine.accepts_turn():
            turn = _next_turn(strategy, engine)
            if turn is None:
                break
            engine.start(turn)


def _prepare(strategy: Strategy, engine: Engine) -> None:
    with blaming(f"strategy {strategy.name}"):
        strategy.prepare(engine.network, engine.profiles())


def _next_turn(strategy: Strategy, engine: Engine) -> Turn | None:
    with blaming(f"strategy {strategy.name}"):
        # a strategy of the user's may return anything
        turn: Any = strategy.choose(engine.view())
    if turn is None:
        return None
    if not isinstance(turn, Turn):
        chose = f"{turn!r} ({type(turn).__name__})"
        raise UserCodeError(f"strategy {strategy.name} chose {chose}; choose must return a Turn or None")
    unknown = [name for name in turn.operators if name not in engine.network.operators]
    if unknown or not turn.operators:
        chose = f"operator {unknown[0]!r}" if unknown else "no operator"
        known = known_names(engine.network.operators)
        raise UserCodeError(f"strategy {strategy.name} chose a turn of {chose}; operators: {known}")
    if not turn.max_tuples > 0:
        raise StalledError(f"strategy {strategy.name} chose a turn of no tuples")
    return turn


class ReplaceableStrategy:
    """A strategy that another thread may replace; a change takes effect at the next decision."""

    def __init__(self, strategy: Strategy) -> None:
        self._lock = threading.Lock()
        self._strategy = strategy
        self.name = strategy.name
        self._latencies_s: dict[str, float | None] = {}
        self._known: tuple[Network, Profiles] | None = None
        self._changed = False

    def use(self, strategy: Strategy) -> None:
        with self._lock:
            self._strategy, self.name = strategy, strategy.name
            self._changed = True

    def set_latency_bounds(self, latencies_s: Mapping[str, float | None]) -> None:
        """Change the latency bounds of queries; None removes a bound."""
        with self._lock:
            self._latencies_s.update(latencies_s)
            self._changed = True

    def latency_bounds(self, network: Network) -> dict[str, float | None]:
        """The bounds of all queries in force."""
        with self._lock:
            return {q.name: self._latencies_s.get(q.name, q.latency_s) for q in network.queries.values()}

    def prepare(self, network: Network, profiles: Profiles) -> None:
        with self._lock:
            self._known = network, profiles
            self._prepare()

    def choose(self, view: SystemView) -> Turn | None:
        with self._lock:
            if self._changed:
                self._prepare()
            return self._strategy.choose(view)

    def _prepare(self) -> None:
        assert self._known is not None
        network, profiles = self._known
        if self._latencies_s:
            queries = network.queries.values()
            bounds = [replace(q, latency_s=self._latencies_s.get(q.name, q.latency_s)) for q in queries]
            network = network.changed(queries=tuple(bounds))
        self._strategy.prepare(network, profiles)
        self._changed = False


def guarded(observers: Iterable[Observer]) -> list[Observer]:
    """Observers of the user's, so that a run need not wait for one that hangs."""
    return [Guarded(f"observer {name_of(observer)}", observer) for observer in observers]


def notify(observers: list[Observer], event: Event) -> None:
    """Call all observers; one that raises is unplugged, and the run goes on."""
    for observer in list(observers):
        try:
            observer(event)
        # not KeyboardInterrupt: on the main thread that is Ctrl-C
        except (Exception, SystemExit) as error:
            failure = user_code_error(f"observer {name_of(observer)}", error)
            _log.error("%s; it is unplugged, the run goes on", failure)
            _log.debug("its traceback", exc_info=error)
            observers.remove(observer)
