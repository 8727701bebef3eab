"""Where next inside an eddy: placed operators, optimal routing, and one file a policy."""

from headgate.routing.art import least_response_time
from headgate.routing.given import evaluate
from headgate.routing.mdr import largest_rate

__all__ = ["evaluate", "largest_rate", "least_response_time"]
