"""Running a scenario under a strategy."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.runtime.drive import drive
from headgate.runtime.observers import Observer
from headgate.scheduling import Strategy
from headgate.simulator.engine import VirtualEngine
from headgate.simulator.result import Result
from headgate.simulator.scenario import Scenario


def simulate(scenario: Scenario, strategy: Strategy, observers: Iterable[Observer] = ()) -> Result:
    """Run to the end; the same scenario and strategy always give the same result."""
    engine = VirtualEngine(scenario)
    drive(engine, strategy, observers)
    return Result.of(strategy.name, scenario, engine.layout, engine.records())
