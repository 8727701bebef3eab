"""Advice on measured queries at given rates: their load, and the model of latency that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.queueing.advice import DEFAULT_PERCENTILE, Advice, advise
from headgate.queueing.latency_models import ByPriority, InTicks, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import LoadModel
from headgate.scheduling import Strategy
from headgate.simulator.virtual_engine import static_priority
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


@dataclass(frozen=True)
class Predicted:
    """The advice, and what it is based on."""

    load: LoadModel
    model: LatencyModel
    advice: Advice


def predict(
    network: Network, measured: Measured, rates: Mapping[str, float], conditions: Conditions
) -> Predicted:
    """Advice on queries whose operators were all measured; ``rates`` has every stream."""
    profiled = {stream: measured.tuples_per_s.get(stream, per_s) for stream, per_s in rates.items()}
    load = LoadModel(network, measured.profiles, profiled).at(rates)
    model = _model(load, measured, conditions)
    return Predicted(load, model, advise(load, model, conditions.percentile))


def _model(load: LoadModel, measured: Measured, conditions: Conditions) -> LatencyModel:
    processors, strategy = conditions.processors, conditions.strategy
    if conditions.servers not in ("pool", "each"):
        raise SetupError(f"servers takes pool or each, not {conditions.servers}")
    if conditions.servers == "each":
        return OwnServers(processors or 1)
    priority = static_priority(strategy, load.network, load.profiles)
    if priority is None:
        raise SetupError(f"strategy {strategy.name} has no fixed order; use headgate simulate instead")
    # a tick takes all that has come, in whatever order
    if conditions.tick_s is None and measured.tick is not None:
        ticks = InTicks.measured(measured.tick)
        return ticks if processors is None else ticks.with_processors(processors)
    if conditions.tick_s:
        return InTicks(conditions.tick_s, processors or 1)
    if strategy.name == "fifo":
        return OnServer(processors or 1)
    return ByPriority(dict(zip(load.network.operators, priority.levels, strict=True)), processors or 1)
