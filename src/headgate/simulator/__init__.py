"""The engine in virtual time: networks of operators, simulated entry by entry."""

from headgate.simulator.results import Result
from headgate.simulator.scenario import Behaviour, OnePerOperator, Pool, Scenario
from headgate.simulator.virtual_engine import simulate

__all__ = ["Behaviour", "OnePerOperator", "Pool", "Result", "Scenario", "simulate"]
