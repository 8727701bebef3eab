"""Routing of tuples between placed operators: analytic optimum, policies, published statistics."""

from headgate.routing.monitor import Intervals, Monitor, OperatorStatistics, Outcome
from headgate.routing.policies import Router, RoutingView, router_named, router_names
from headgate.routing.solution import evaluate
from headgate.routing.solvers import largest_rate, least_response_time

__all__ = [
    "Intervals",
    "Monitor",
    "OperatorStatistics",
    "Outcome",
    "Router",
    "RoutingView",
    "evaluate",
    "largest_rate",
    "least_response_time",
    "router_named",
    "router_names",
]
