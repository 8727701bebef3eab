"""Scheduling strategies, which decide whose tuples move next."""

from headgate.scheduling.strategies import strategy_named, strategy_names
from headgate.scheduling.strategy import Strategy

__all__ = ["Strategy", "strategy_named", "strategy_names"]
