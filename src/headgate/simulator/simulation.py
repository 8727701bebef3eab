"""Running a scenario under a strategy: step by step, or by a compiled loop where its priority is static."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.runtime.drive import Observer, drive
from headgate.scheduling import Strategy
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.strategy import UnitStrategy
from headgate.simulator.results import Result
from headgate.simulator.scenario import Scenario
from headgate.simulator.virtual_engine import VirtualEngine


@dataclass(frozen=True)
class StaticPriority:
    """Serves the ready operator of least ``(level, position)``; ties go to the oldest head, then by ``scan``.

    ``begun_first``: an interrupted entry goes before others of its position.
    """

    scan: tuple[str, ...]
    levels: tuple[int, ...]
    positions: tuple[int, ...]
    begun_first: bool


def static_priority(strategy: Strategy, network: Network, profiles: Profiles) -> StaticPriority | None:
    """The fixed order in which a strategy serves; None if it depends on more than that."""
    names = tuple(network.operators)
    # a subclass may choose in another way
    if type(strategy) is Fifo:
        scan = sorted(names, key=lambda name: (len(network.path_from(name)), name))
        return StaticPriority(tuple(scan), (0,) * len(names), (0,) * len(names), begun_first=False)
    if isinstance(strategy, UnitStrategy) and type(strategy).choose is UnitStrategy.choose:
        strategy.prepare(network, profiles)
        positions = strategy.positions
        scan = sorted(names, key=lambda name: positions[name].level)
        return StaticPriority(
            tuple(scan),
            tuple(positions[name].level for name in names),
            tuple(-positions[name].depth for name in names),
            begun_first=True,
        )
    return None


# below this many entries and time units the general loop ends before the compiled one is loaded
_WORTH_COMPILING = 50_000


def simulate(scenario: Scenario, strategy: Strategy, observers: Iterable[Observer] = ()) -> Result:
    """Run to the end; the same scenario and strategy always give the same result.

    Long runs of strategies with static priorities use the compiled loop, unless there are observers.
    """
    observers = tuple(observers)
    priority = static_priority(strategy, scenario.network, scenario.profiles)
    if priority is None or observers or scenario.entries + scenario.time_units < _WORTH_COMPILING:
        return simulate_stepwise(scenario, strategy, observers)
    # takes half a second to import
    from headgate.simulator.compiled_runs import are_independent, run_priority, run_servers

    independent = are_independent(scenario)
    records = run_servers(scenario) if independent else run_priority(scenario, priority)
    return Result.of(strategy.name, scenario, records)


def simulate_stepwise(scenario: Scenario, strategy: Strategy, observers: Iterable[Observer] = ()) -> Result:
    """Run by the loop of all engines, in which the strategy chooses at every step."""
    engine = VirtualEngine(scenario)
    drive(engine, strategy, observers)
    return Result.of(strategy.name, scenario, engine.records())
