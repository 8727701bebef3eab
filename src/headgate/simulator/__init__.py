"""The engine in virtual time: networks of operators simulated entry by entry."""

from headgate.simulator.result import Result
from headgate.simulator.run import simulate
from headgate.simulator.scenario import Figures, OnePerOperator, Pool, Scenario

__all__ = ["Figures", "OnePerOperator", "Pool", "Result", "Scenario", "simulate"]
