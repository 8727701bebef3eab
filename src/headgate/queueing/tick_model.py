"""The latency model of an engine of micro-batches (ticks), which Spark is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headgate.model.profile import TickCosts
from headgate.queueing.load_model import LoadModel, TupleWork, work_by_stream
from headgate.queueing.prediction import LoadPrediction, TickLatency, fixed, in_order, prediction_of
from headgate.queueing.service_times import ParameterError, check_amount, check_busy, check_processors

# wall-clock seconds per processor second that count as none
_NO_TIME = 1e-9
# a tick of no overhead would have room for as much, were it not for the error of its costs
_MOST_UTILISATION, _SAME_UTILISATION = 0.9, 1e-3
_DEVIATIONS = 2.0
# of times that are off by more than they are
_LEAST_FACTOR = 0.1


@dataclass(frozen=True)
class InTicks:
    """Micro-batches (ticks): each takes what arrived during the previous one, and a fixed time besides.

    A tick takes ``overhead_s``, ``intake_s`` for each arriving tuple, and the work of all of them on all
    processors: ``efficiency`` is 1 where k processors take a k-th of the time. So a tick lasts
    overhead / (1 - utilisation), and no less than ``least_s``. A tuple arrives during one tick and is done at
    the end of the next.

    Ticks of the same work differ by ``spread``, a standard deviation as a share of their length. Those of
    other numbers of tuples differ by their work: streams are as bursty as the load states. Their times
    are known but for ``error``, the work of tuples but for ``work_error``: standard errors as shares of them.
    That of the overhead is ``overhead_error_s``.
    """

    overhead_s: float
    processors: int = 1
    intake_s: float = 0.0
    efficiency: float = 1.0
    spread: float = 0.0
    error: float = 0.0
    work_error: float = 0.0
    overhead_error_s: float = 0.0
    least_s: float = 0.0

    def __post_init__(self) -> None:
        for name in (
            "overhead_s",
            "intake_s",
            "spread",
            "error",
            "work_error",
            "overhead_error_s",
            "least_s",
        ):
            check_amount(name, getattr(self, name))
        check_processors(self.processors)
        if check_amount("efficiency", self.efficiency) == 0:
            raise ParameterError("efficiency = 0 is wrong; write a number above 0")

    @staticmethod
    def measured(costs: TickCosts, processors: int | None = None) -> InTicks:
        """Ticks as they were measured, on so many processors, or as many as explain how long work took."""
        # next to no time of work: that of tuples was attributed to their number alone
        work_s = max(costs.work_s, _NO_TIME)
        processors = processors or (max(1, round(1 / work_s)) if work_s > _NO_TIME else 1)
        found = InTicks(costs.empty_s, processors, costs.intake_s, 1 / (work_s * processors))
        found = replace(found, overhead_error_s=costs.overhead_error_s, least_s=costs.shortest_s)
        return replace(found, spread=costs.spread, error=costs.error, work_error=costs.work_error)

    def with_processors(self, processors: int) -> InTicks:
        return replace(self, processors=processors)

    def off_by(self, errors: float) -> InTicks:
        """The same ticks, in which all times are off by so many standard errors."""
        factor, work = (max(_LEAST_FACTOR, 1 + errors * own) for own in (self.error, self.work_error))
        off_s = errors * max(self.overhead_s * self.error, self.overhead_error_s)
        return replace(
            self,
            overhead_s=max(_LEAST_FACTOR * self.overhead_s, self.overhead_s + off_s),
            intake_s=self.intake_s * factor,
            efficiency=self.efficiency / (factor * work),
        )

    @property
    def work_s(self) -> float:
        """Wall-clock seconds per processor second of work."""
        return 1 / (self.processors * self.efficiency)

    def utilisation(self, load: LoadModel) -> float:
        """The share of a tick that is not overhead."""
        return self.intake_s * sum(load.rates.values()) + self.work_s * load.busy_processors

    def tick_s(self, load: LoadModel) -> float:
        check_busy(self.utilisation(load) * self.processors, self.processors)
        return max(self.least_s, self.overhead_s / (1 - self.utilisation(load)))

    @property
    def shortest_s(self) -> float:
        """How long a tick takes that has next to nothing to do."""
        return max(self.least_s, self.overhead_s)

    def utilisation_within(self, most_s: float) -> float:
        """The largest utilisation at which ticks are longer than that only now and then.

        Ticks grow with utilisation, and so does what one tick that is too long adds to the next ones: their
        mean and two standard deviations are to be within ``most_s``.
        """
        least, most = 0.0, _MOST_UTILISATION
        while most - least > _SAME_UTILISATION:
            middle = (least + most) / 2
            mean_s = max(self.least_s, self.overhead_s / (1 - middle))
            fits = mean_s * (1 + _DEVIATIONS * self.spread / math.sqrt(1 - middle**2)) <= most_s
            least, most = (middle, most) if fits else (least, middle)
        return least

    def predict(self, load: LoadModel) -> LoadPrediction:
        tick_s, utilisation = self.tick_s(load), self.utilisation(load)
        work = self._work_by_stream(load)
        variation = self._variation(load, tick_s, work)

        def done(path: tuple[str, ...]) -> TickLatency:
            # those who arrive together with a tuple, itself included
            stream = load.stream_of(path)
            burst_s = load.index_of_dispersion(stream, tick_s) * work[stream].mean_s
            return TickLatency(tick_s, variation, utilisation, burst_s)

        delays = {
            # what a tick takes in passes all operators in that tick
            name: done((name,)).delay if load.reads_stream(name) else fixed(busy * tick_s * self.work_s)
            for name, busy in load.busy.items()
        }
        return prediction_of(load, utilisation, delays, lambda path: in_order(done(path), load, path))

    def _work_by_stream(self, load: LoadModel) -> Mapping[str, TupleWork]:
        """Wall-clock seconds by which a tuple makes a tick longer."""
        return {
            stream: TupleWork(self.intake_s + self.work_s * own.mean_s, self.work_s**2 * own.var_s)
            for stream, own in work_by_stream(load).items()
        }

    def _variation(self, load: LoadModel, tick_s: float, work: Mapping[str, TupleWork]) -> float:
        """Standard deviation of the lengths of ticks, as a share of their mean.

        A tick differs by its own noise and by the number and the work of the tuples that arrived before it;
        its difference makes the next one differ by the utilisation times it, and so on.
        """
        memory = self.utilisation(load)
        # ticks add up what arrived over as many of them as count as much as an average of all
        scale_s = tick_s * (1 + memory) / (1 - memory)
        per_s = sum(
            rate * (work[s].var_s + load.index_of_dispersion(s, scale_s) * work[s].mean_s ** 2)
            for s, rate in load.rates.items()
        )
        squared = self.spread**2 + (per_s / tick_s if tick_s > 0 else 0.0)
        return math.sqrt(squared / (1 - memory**2))
