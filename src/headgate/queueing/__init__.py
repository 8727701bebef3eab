"""Queueing models of operators: from rates and service times to queue lengths and latencies."""

from headgate.queueing.mg1 import (
    MG1,
    LastRows,
    LatencyBound,
    MemoryBound,
    WaitBound,
    largest_rate,
    largest_window,
    least_capacity,
    md1,
    mm1,
    project,
    relation_join,
    select,
    select_exponential,
    window_join,
)
from headgate.queueing.service_times import Discrete, Exponential, Overloaded, ParameterError, constant

__all__ = [
    "MG1",
    "Discrete",
    "Exponential",
    "LastRows",
    "LatencyBound",
    "MemoryBound",
    "Overloaded",
    "ParameterError",
    "WaitBound",
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
    "window_join",
]
