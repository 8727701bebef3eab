"""Strategies by name: ``chain``, ``mixed:least_slope=0.2``, ``chain+oldest``, ``file.py:ClassName``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headgate.errors import SetupError, known_names
from headgate.scheduling.chain import Chain
from headgate.scheduling.chain_flush import ChainFlush
from headgate.scheduling.chain_flush_exact import ExactChainFlush
from headgate.scheduling.fifo import Fifo
from headgate.scheduling.greedy import Greedy
from headgate.scheduling.least_slack import LeastSlack
from headgate.scheduling.mixed import Mixed
from headgate.scheduling.own import own_strategy
from headgate.scheduling.path_capacity import PathCapacity
from headgate.scheduling.round_robin import RoundRobin
from headgate.scheduling.segment import SegmentStrategy
from headgate.scheduling.simplified_segment import SimplifiedSegment
from headgate.scheduling.starvation import Aging, OldestInTurn
from headgate.scheduling.strategy import Strategy
from headgate.scheduling.threshold import Threshold
from headgate.scheduling.units import UnitStrategy

_CLASSES: tuple[Any, ...] = (
    Fifo,
    RoundRobin,
    Greedy,
    Chain,
    ChainFlush,
    ExactChainFlush,
    Mixed,
    PathCapacity,
    SegmentStrategy,
    SimplifiedSegment,
    Threshold,
    LeastSlack,
)
_STRATEGIES: dict[str, Any] = {strategy.name: strategy for strategy in _CLASSES}


def strategy_names() -> tuple[str, ...]:
    """All strategies there are."""
    return tuple(_STRATEGIES)


def strategy_named(text: str) -> Strategy:
    """A new strategy; ``+oldest`` or ``+aging`` at the end of a name keeps tuples from starving."""
    name, plus, ending = text.rpartition("+")
    if ending in _WRAPPERS:
        return _WRAPPERS[ending](strategy_named(name))
    file, colon, class_name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return own_strategy(file, class_name)
    if plus:
        known = known_names([f"{name}+{known}" for known in _WRAPPERS])
        raise SetupError(f"unknown ending +{ending}; known: {known}")
    return _with_settings(text)


def free_of_starvation(strategy: Strategy) -> Strategy:
    """The strategy with priorities that grow with waiting, in all of its parts."""
    if isinstance(strategy, UnitStrategy):
        return Aging(strategy)
    if isinstance(strategy, ChainFlush):
        aged = ChainFlush(strategy.latency_s, strategy.margin_s, free_of_starvation(strategy.base))
        return _renamed(aged, strategy)
    if isinstance(strategy, Threshold):
        modes = free_of_starvation(strategy.normal), free_of_starvation(strategy.saving)
        settings = strategy.memory_bytes, strategy.beta, strategy.interval_s
        return _renamed(Threshold(*settings, *modes), strategy)
    if isinstance(strategy, (Fifo, RoundRobin, LeastSlack)):
        # these let nobody starve as they are
        return _renamed(strategy, strategy)
    raise SetupError(f"{strategy.name} has no priorities that could grow; use {strategy.name}+oldest")


_WRAPPERS: dict[str, Callable[[Strategy], Strategy]] = {"oldest": OldestInTurn, "aging": free_of_starvation}


def _renamed(strategy: Strategy, origin: Strategy) -> Strategy:
    strategy.name = f"{origin.name}+aging"
    return strategy


def _with_settings(text: str) -> Strategy:
    name, colon, settings = text.partition(":")
    if name not in _STRATEGIES:
        known = known_names(strategy_names())
        raise SetupError(f"unknown strategy {name}; known: {known}, or your own as file.py:ClassName")
    numeric = _numeric_settings(_STRATEGIES[name])
    given: dict[str, float] = {}
    for setting in settings.split(",") if colon else ():
        key, _, value = setting.partition("=")
        if key.strip() not in numeric:
            raise SetupError(f"strategy {name} has no setting {key.strip()!r}; it has {known_names(numeric)}")
        given[key.strip()] = _number(f"strategy {name}: {setting.strip()}", value, key.strip())
    strategy: Strategy = _STRATEGIES[name](**given)
    return strategy


def _numeric_settings(strategy: Any) -> list[str]:
    parameters = inspect.signature(strategy).parameters.values()
    return [parameter.name for parameter in parameters if "float" in str(parameter.annotation)]


def _number(what: str, text: str, key: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SetupError(f"{what} is no number; write {key}=0.5") from None
    if not value >= 0:
        raise SetupError(f"{what} is out of range; write a number of 0 or more")
    return value
