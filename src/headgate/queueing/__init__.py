"""Queueing models of operators: from rates and service times to queue lengths and latencies."""

from headgate.queueing.faults import Overloaded, WrongFigure
from headgate.queueing.inverse import (
    LatencyBound,
    MemoryBound,
    WaitBound,
    largest_rate,
    largest_window,
    least_capacity,
)
from headgate.queueing.mg1 import MG1, md1, mm1
from headgate.queueing.operators import (
    Rows,
    project,
    relation_join,
    select,
    select_exponential,
    two_class,
    window_join,
)
from headgate.queueing.service import Discrete, Exponential, constant

__all__ = [
    "MG1",
    "Discrete",
    "Exponential",
    "LatencyBound",
    "MemoryBound",
    "Overloaded",
    "Rows",
    "WaitBound",
    "WrongFigure",
    "constant",
    "largest_rate",
    "largest_window",
    "least_capacity",
    "md1",
    "mm1",
    "project",
    "relation_join",
    "select",
    "select_exponential",
    "two_class",
    "window_join",
]
