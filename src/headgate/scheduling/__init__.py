"""Scheduling strategies, which decide whose tuples move next, by name.

A name is ``chain``, ``mixed:least_slope=0.2``, ``chain+oldest`` or ``file.py:ClassName``.
"""

from __future__ import annotations

import importlib.util
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from headgate.errors import HeadgateError, SetupError, known_names, nearest
from headgate.formats.quantity import Quantity
from headgate.scheduling.baselines import Aging, Fifo, OldestInTurn, RoundRobin
from headgate.scheduling.capacity import Greedy, PathCapacity, SegmentStrategy, SimplifiedSegment, Threshold
from headgate.scheduling.chain_envelope import Chain, Mixed
from headgate.scheduling.deadlines import ChainFlush, ExactChainFlush, LeastSlack
from headgate.scheduling.strategy import Strategy, UnitStrategy

__all__ = ["Strategy", "room_of", "strategy_named", "strategy_names"]

_CLASSES: tuple[Any, ...] = (
    *(Fifo, RoundRobin, Greedy, Chain, ChainFlush, ExactChainFlush, Mixed),
    *(PathCapacity, SegmentStrategy, SimplifiedSegment, Threshold, LeastSlack),
)
SETTING = Quantity("", 0, 1e15)
"""Settings of strategies: seconds, bytes and ratios."""
_STRATEGIES: dict[str, Any] = {strategy.name: strategy for strategy in _CLASSES}


def strategy_names() -> tuple[str, ...]:
    return tuple(_STRATEGIES)


def strategy_named(text: str) -> Strategy:
    """A new strategy; ``+oldest`` or ``+aging`` at the end of a name keeps tuples from starving."""
    name, plus, ending = text.rpartition("+")
    if ending in _WRAPPERS:
        return _WRAPPERS[ending](strategy_named(name))
    file, colon, class_name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return _own_strategy(file, class_name)
    if plus:
        known = known_names([f"{name}+{known}" for known in _WRAPPERS])
        raise SetupError(f"unknown ending +{ending}; known: {known}")
    return _with_settings(text)


def room_of(strategy: Strategy) -> Callable[[float], float] | None:
    """How many more bytes may arrive, given those in queues; None if a strategy does not limit them."""
    if isinstance(strategy, OldestInTurn):
        return room_of(strategy.base)
    return strategy.room_bytes if isinstance(strategy, Threshold) else None


def _free_of_starvation(strategy: Strategy) -> Strategy:
    """The strategy with priorities that grow with waiting, in all of its parts."""
    if isinstance(strategy, UnitStrategy):
        return Aging(strategy)
    name = strategy.name
    if isinstance(strategy, ChainFlush):
        strategy.base = _free_of_starvation(strategy.base)
    elif isinstance(strategy, Threshold):
        strategy.normal = _free_of_starvation(strategy.normal)
        strategy.saving = _free_of_starvation(strategy.saving)
    # these never starve a tuple
    elif not isinstance(strategy, (Fifo, RoundRobin, LeastSlack)):
        raise SetupError(f"{name} has no priorities to raise; use {name}+oldest")
    strategy.name = f"{name}+aging"
    return strategy


_WRAPPERS: dict[str, Callable[[Strategy], Strategy]] = {"oldest": OldestInTurn, "aging": _free_of_starvation}


def _with_settings(text: str) -> Strategy:
    name, colon, settings = text.partition(":")
    if name not in _STRATEGIES:
        known = known_names(strategy_names())
        alike = nearest(name, strategy_names())
        raise SetupError(f"unknown strategy {name}; {alike}known: {known}, or your own as file.py:ClassName")
    parameters = inspect.signature(_STRATEGIES[name]).parameters.values()
    numeric = [parameter.name for parameter in parameters if "float" in str(parameter.annotation)]
    given: dict[str, float] = {}
    for setting in settings.split(",") if colon else ():
        key, _, value = setting.strip().partition("=")
        key = key.strip()
        if key not in numeric:
            alike = nearest(key, numeric)
            raise SetupError(f"strategy {name} has no setting {key!r}; {alike}it has {known_names(numeric)}")
        given[key] = SETTING.read(value.strip(), f"strategy {name}: {key}=")
    strategy: Strategy = _STRATEGIES[name](**given)
    return strategy


def _own_strategy(file: str, class_name: str) -> Strategy:
    where = f"{file}:{class_name}"
    path = Path(file)
    if not path.is_file():
        raise SetupError(f"there is no file {file}; write the strategy as file.py:ClassName")
    module = _imported(path)
    own = getattr(module, class_name, None)
    if not isinstance(own, type):
        classes = [
            n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__
        ]
        raise SetupError(f"{file} has no class {class_name}; it has {known_names(classes)}")
    for method in ("choose", "prepare"):
        if not callable(getattr(own, method, None)):
            arguments = "view" if method == "choose" else "network, profiles"
            raise SetupError(f"{where} is not a strategy: it needs a method {method}(self, {arguments})")
    try:
        strategy: Strategy = own()
    except HeadgateError:
        raise
    except Exception as error:
        raise SetupError(f"{where} cannot be created without arguments: {_one_line(error)}") from None
    if not hasattr(strategy, "name"):
        strategy.name = class_name
    return strategy


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_own_strategy_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        raise SetupError(f"{path}{f':{line}' if line else ''}: {_one_line(error)}") from None
    return module


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
