"""Advice on measured queries at given rates: their load, and the model of latency that fits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from headgate.control.admission import measured_load, measured_ticks
from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.queueing.advice import DEFAULT_PERCENTILE, Advice, advise
from headgate.queueing.latency_models import ByPriority, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import LoadModel
from headgate.queueing.recorded_arrivals import Dispersion
from headgate.queueing.tick_model import InTicks
from headgate.scheduling import Strategy
from headgate.simulator.virtual_engine import static_priority
from headgate.statistics.completeness import THE_PROFILE, NoRate, NotMeasured, Origin, idle_operators
from headgate.statistics.profile_file import Measured


@dataclass(frozen=True)
class Conditions:
    """What queries run on: processors and ticks as measured, where they are None."""

    strategy: Strategy
    processors: int | None = None
    tick_s: float | None = None
    """Fixed time of a tick; 0 for none."""
    servers: str = "pool"
    """'each' if operators have their own."""
    percentile: float = DEFAULT_PERCENTILE


def predict(
    network: Network,
    measured: Measured,
    rates: Mapping[str, float],
    conditions: Conditions,
    origin: Origin = THE_PROFILE,
    dispersions: Mapping[str, tuple[Dispersion, ...]] = MappingProxyType({}),
) -> Advice:
    """Advice on queries at given rates, else at those of streams and profile.

    Streams are Poisson unless their index of dispersion is given.
    Raises ``NotMeasured`` if it would rest on anything that is not known.
    """
    try:
        load = measured_load(network, measured, rates, origin)
    except NoRate as error:
        stated = f"--rate {error.stream}=1000, or rates={{{error.stream!r}: 1000}}"
        raise NotMeasured(f"{error}; state it ({stated})") from None
    load = replace(load, dispersions=dispersions)
    model, described = _model(load, measured, conditions, origin)
    bound = measured.machine_bound
    missed = {name: bound[name] for name, rate in load.rates.items() if bound.get(name, rate) < rate}
    return replace(
        advise(load, model, conditions.percentile),
        described=described,
        idle=idle_operators(measured, network),
        machine_bound=missed,
    )


def _model(
    load: LoadModel, measured: Measured, conditions: Conditions, origin: Origin
) -> tuple[LatencyModel, str]:
    """How processors serve the load, and the same in words."""
    strategy = conditions.strategy
    if conditions.servers not in ("pool", "each"):
        raise SetupError(f"servers takes pool or each, not {conditions.servers}")
    if conditions.servers == "each":
        return OwnServers(conditions.processors or 1), "a server for each operator, which Spark has not"
    priority = static_priority(strategy, load.network, load.profiles)
    if priority is None:
        raise SetupError(f"strategy {strategy.name} has no fixed order; use headgate simulate instead")
    # a tick takes all that has come, in whatever order
    if conditions.tick_s is None:
        ticks = _profiled_ticks(measured, conditions.processors, origin)
        return ticks, f"ticks as profiled, of {ticks.shortest_s:.3g} s or more"
    processors = conditions.processors or measured.processors or os.cpu_count() or 1
    if conditions.tick_s:
        described = f"ticks as given, of {conditions.tick_s:.3g} s or more"
        return InTicks(conditions.tick_s, processors), described
    if strategy.name == "fifo":
        return OnServer(processors), "one queue without ticks, which Spark has"
    levels = dict(zip(load.network.operators, priority.levels, strict=True))
    return ByPriority(levels, processors), f"priorities of {strategy.name} without ticks, which Spark has"


def _profiled_ticks(measured: Measured, processors: int | None, origin: Origin) -> InTicks:
    try:
        return measured_ticks(measured, processors, origin)
    except NotMeasured as error:
        stated = "state one (--tick 200ms, or tick='200 ms'; 0 for an engine without ticks)"
        raise NotMeasured(f"{error}, or {stated}") from None
