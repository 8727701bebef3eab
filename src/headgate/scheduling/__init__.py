"""Which work goes first: one file a strategy, each found by its name."""

from headgate.scheduling.registry import strategy_named, strategy_names
from headgate.scheduling.strategy import Strategy

__all__ = ["Strategy", "strategy_named", "strategy_names"]
