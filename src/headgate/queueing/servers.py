"""Every operator on a server of its own: a network of queues, each known by rates and variabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.model.operator import StreamInput
from headgate.queueing.delay import Delay, fixed, order_delay
from headgate.queueing.faults import Overloaded
from headgate.queueing.figures import PathFigures, PlanFigures, put_together
from headgate.queueing.mg1 import MG1
from headgate.queueing.models import check_processors, waiting_share
from headgate.queueing.plan import Plan
from headgate.queueing.service import constant


@dataclass(frozen=True)
class OwnServers:
    """A server for each operator, or as many as ``servers`` each.

    Operators over streams are M/D/1 queues. Further on, arrivals are described by their squared coefficient
    of variation, as it changes by a queue, by splitting and by merging (Whitt's approximation), and the wait
    is Kraemer and Langenbach-Belz's.
    """

    servers: int = 1

    def __post_init__(self) -> None:
        check_processors(self.servers)

    def with_processors(self, processors: int) -> OwnServers:
        """The same with another number of servers each."""
        return OwnServers(processors)

    def figures(self, plan: Plan) -> PlanFigures:
        """All figures; raises ``Overloaded`` for an operator whose queue grows without end."""
        variability: dict[str, float] = {}
        delays: dict[str, Delay] = {}
        for name in plan.network.operators:
            utilisation = plan.loads[name] / self.servers
            if utilisation >= 1:
                raise Overloaded(utilisation, f"operator {name}")
            arriving = self._arriving(plan, name, variability)
            delays[name] = self._wait(plan, name, arriving) + fixed(plan.seconds(name))
            # service is constant
            leaving = 1 + (1 - utilisation**2) * (arriving - 1) - utilisation**2 / math.sqrt(self.servers)
            variability[name] = max(0.0, leaving)
        paths = []
        for query in plan.network.queries:
            for path in plan.paths_of(query):
                latency = order_delay(plan.order_waits(path)) or fixed(0.0)
                for name in path:
                    latency += delays[name]
                paths.append(PathFigures(query, path, latency))
        busiest = max((load / self.servers for load in plan.loads.values()), default=0.0)
        return put_together(plan, busiest, delays, tuple(paths))

    @staticmethod
    def _arriving(plan: Plan, name: str, variability: dict[str, float]) -> float:
        """Squared coefficient of variation of the time between arrivals, merged by rates."""
        total = weighted = 0.0
        for source in dict.fromkeys(plan.network.operators[name].inputs):
            if isinstance(source, StreamInput):
                rate, squared = plan.leaf_rate(name), 1.0
            else:
                selectivity = plan.profile[source.operator].selectivity
                rate = plan.arriving[source.operator] * selectivity
                squared = _thinned(variability[source.operator], selectivity)
            total += rate
            weighted += rate * squared
        return weighted / total if total > 0 else 1.0

    def _wait(self, plan: Plan, name: str, arriving: float) -> Delay:
        seconds, rate = plan.seconds(name), plan.arriving[name]
        queue = MG1(rate, constant(seconds / self.servers))
        utilisation = queue.utilisation
        if utilisation == 0:
            return fixed(0.0)
        share = waiting_share(self.servers, utilisation)
        factor = arriving * _evenness(arriving, utilisation)
        mean_s = share * factor * queue.mean_wait
        # as variable as behind Poisson arrivals
        second = share * factor**2 * (queue.var_wait + queue.mean_wait**2)
        return Delay(mean_s, max(0.0, second - mean_s**2), 0.0, max(0.0, 1 - share * utilisation))


def _evenness(arriving: float, utilisation: float) -> float:
    """Even arrivals wait still less than their variability says."""
    if arriving >= 1:
        return 1.0
    if arriving == 0:
        return 0.0
    return math.exp(-2 * (1 - utilisation) * (1 - arriving) ** 2 / (3 * utilisation * arriving))


def _thinned(variability: float, selectivity: float) -> float:
    """Of a stream from which a share is picked at random, or of which each tuple becomes several at once."""
    if selectivity <= 1:
        return selectivity * variability + 1 - selectivity
    return selectivity * variability + selectivity - 1
