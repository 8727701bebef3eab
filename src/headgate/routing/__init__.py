"""Where next inside an eddy: placed operators, optimal routing, and one file a policy."""

from headgate.routing.art import least_response_time
from headgate.routing.given import evaluate
from headgate.routing.mdr import largest_rate
from headgate.routing.registry import router_named, router_names
from headgate.routing.router import Router, RoutingView
from headgate.routing.statistics import Intervals, Monitor, Outcome, Statistics

__all__ = [
    "Intervals",
    "Monitor",
    "Outcome",
    "Router",
    "RoutingView",
    "Statistics",
    "evaluate",
    "largest_rate",
    "least_response_time",
    "router_named",
    "router_names",
]
