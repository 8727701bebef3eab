"""Running a scenario under a strategy."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.runtime.drive import drive
from headgate.runtime.observers import Observer
from headgate.scheduling import Strategy
from headgate.simulator.engine import VirtualEngine
from headgate.simulator.layout import Layout
from headgate.simulator.priority import StaticPriority, static_priority
from headgate.simulator.result import Result
from headgate.simulator.scenario import Scenario

# below this many entries and time units the general loop is done before the compiled one is loaded
_WORTH_COMPILING = 50_000


def simulate(scenario: Scenario, strategy: Strategy, observers: Iterable[Observer] = ()) -> Result:
    """Run to the end; the same scenario and strategy always give the same result.

    Long runs of strategies with static priorities take the compiled loop, unless somebody observes.
    """
    watching = tuple(observers)
    priority = static_priority(strategy, scenario.network, scenario.profiles)
    if priority is None or watching or scenario.entries + scenario.time_units < _WORTH_COMPILING:
        return simulate_stepwise(scenario, strategy, watching)
    return simulate_compiled(scenario, strategy.name, priority)


def simulate_stepwise(scenario: Scenario, strategy: Strategy, observers: Iterable[Observer] = ()) -> Result:
    """Run through the one loop, which asks the strategy itself at every step."""
    engine = VirtualEngine(scenario)
    drive(engine, strategy, observers)
    return Result.of(strategy.name, scenario, engine.layout, engine.records())


def simulate_compiled(scenario: Scenario, name: str, priority: StaticPriority) -> Result:
    """Run through the compiled loop; the result is the same."""
    # takes half a second to import
    from headgate.simulator.compiled import run_compiled
    from headgate.simulator.servers import are_independent, run_servers

    layout = Layout.of(scenario)
    if are_independent(scenario):
        return Result.of(name, scenario, layout, run_servers(scenario, layout))
    return Result.of(name, scenario, layout, run_compiled(scenario, layout, priority))
