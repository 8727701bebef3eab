"""The join optimiser's input: streams, windows and predicates, with the cost model over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod

from headgate.errors import InternalError, SetupError
from headgate.model.window import RowWindow, TimeWindow


@dataclass(frozen=True)
class Flow:
    """The rate of tuples between two operators, and the number that a window over them holds."""

    tuples_per_s: float
    window_tuples: float

    def selected(self, selectivity: float) -> Flow:
        """The output of a selection."""
        return Flow(selectivity * self.tuples_per_s, selectivity * self.window_tuples)

    def joined(self, other: Flow, selectivity: float) -> Flow:
        """The output of a window join; a selectivity of 1 is a cross product."""
        per_s = other.window_tuples * self.tuples_per_s + self.window_tuples * other.tuples_per_s
        return Flow(selectivity * per_s, selectivity * self.window_tuples * other.window_tuples)

    def join_cost_per_s(self, other: Flow, own: WindowSeconds, others: WindowSeconds) -> float:
        """CPU time per second of a window join: a tuple enters its own window and probes the other."""
        own_s, other_s = own.upkeep_seconds + others.probe_seconds, others.upkeep_seconds + own.probe_seconds
        return self.tuples_per_s * own_s + other.tuples_per_s * other_s


# of a tuple that a join handles: each pair that a cross product on Spark compares, as
# benchmarks/cross_products.py has measured it
CROSSED_PAIR = 0.01


@dataclass(frozen=True)
class WindowSeconds:
    """Seconds of a window for each tuple that enters it, expires from it, or probes it.

    A cross product spends ``pair_seconds`` on each of its results besides; in the paper's model, nothing.
    """

    insert_seconds: float = 0.0
    expire_seconds: float = 0.0
    probe_seconds: float = 0.0
    pair_seconds: float = 0.0

    @staticmethod
    def of_probe(seconds: float) -> WindowSeconds:
        """Of joins on Spark, which take so long for every tuple that they handle."""
        return WindowSeconds(probe_seconds=seconds, pair_seconds=CROSSED_PAIR * seconds)

    @property
    def upkeep_seconds(self) -> float:
        """For a tuple to enter, and another one to expire."""
        return self.insert_seconds + self.expire_seconds


NO_TIME = WindowSeconds()


def source_flow(window: RowWindow | TimeWindow, tuples_per_s: float, keep: float = 1.0) -> Flow:
    """A stream after its drop box: a time window holds less, a row window reaches further back."""
    kept_per_s = keep * tuples_per_s
    if isinstance(window, RowWindow):
        return Flow(kept_per_s, window.rows)
    return Flow(kept_per_s, kept_per_s * window.range_us / 1e6)


def join_flows(flows: tuple[Flow, ...], selectivity: float) -> Flow:
    """The join of any number of flows, the same in every order; ``selectivity`` is that of all predicates."""
    return reduce(lambda left, right: left.joined(right, 1.0), flows).selected(selectivity)


@dataclass(frozen=True)
class JoinInput:
    """A stream of the query, with the selections between it and the join combined.

    ``select_seconds`` is the cost of the selections per tuple of the stream; ``selections`` are in predicate
    order. ``shares_with`` is another query whose selections serve this one too, at no cost.
    """

    alias: str
    stream: str
    tuples_per_s: float
    window: RowWindow | TimeWindow
    selectivity: float = 1.0
    select_seconds: float = 0.0
    window_seconds: WindowSeconds = NO_TIME
    selections: tuple[str, ...] = ()
    shares_with: str | None = None

    @property
    def flow(self) -> Flow:
        return source_flow(self.window, self.tuples_per_s).selected(self.selectivity)


@dataclass(frozen=True)
class JoinPredicate:
    """A condition over several streams, and its selectivity as a share of their cross product."""

    text: str
    aliases: frozenset[str]
    selectivity: float


@dataclass(frozen=True)
class JoinProblem:
    """A query whose join order is to be chosen.

    ``between`` is the cost of windows over results of joins; the operators above spend ``result_seconds`` on
    every joined tuple and produce ``results_per_match`` results from it. ``shares_with`` is another query
    whose join serves this one too, in its order and at its cost.
    """

    query: str
    inputs: tuple[JoinInput, ...]
    predicates: tuple[JoinPredicate, ...] = ()
    between: WindowSeconds = NO_TIME
    result_seconds: float = 0.0
    results_per_match: float = 1.0
    weight: float = 1.0
    shares_with: str | None = None

    def __post_init__(self) -> None:
        aliases = self.aliases
        if not aliases or len(set(aliases)) != len(aliases):
            raise InternalError(f"query {self.query} joins {aliases}")
        for predicate in self.predicates:
            if not predicate.aliases <= set(aliases):
                raise InternalError(f"{predicate.text} is not over {aliases}")
            if not 0 <= predicate.selectivity <= 1:
                problem = f"the selectivity of {predicate.text} is {predicate.selectivity:g}"
                hint = "it is a share of the cross product, so write a number from 0 to 1"
                raise SetupError(f"{problem}; {hint}")

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(i.alias for i in self.inputs)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams, each once: a stream has one drop box."""
        return tuple(dict.fromkeys(i.stream for i in self.inputs))

    @property
    def output_per_s(self) -> float:
        """Results per second without shedding, the same for every plan."""
        selectivity = prod(predicate.selectivity for predicate in self.predicates)
        joined = join_flows(tuple(i.flow for i in self.inputs), selectivity)
        return joined.tuples_per_s * self.results_per_match

    @property
    def is_linear(self) -> bool:
        """Whether rates are linear in keep ratios: all windows are row windows, or there is no join."""
        return len(self.inputs) == 1 or all(isinstance(i.window, RowWindow) for i in self.inputs)
