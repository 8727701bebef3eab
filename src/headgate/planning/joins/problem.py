"""What the join optimiser is asked: streams, windows, predicates, and what each of them costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from headgate.errors import InternalError, SetupError
from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.cost import NO_TIME, Flow, WindowSeconds, joined_all, selected, source


@dataclass(frozen=True)
class JoinInput:
    """A stream of the query, with the selections between it and the join taken together.

    ``select_seconds`` is what the selections take for a tuple of the stream; ``selections`` are in the order
    they are asked. ``shares_with`` is another query whose selections do for this one too, at no cost here.
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

    def flow(self, keep: float = 1.0) -> Flow:
        """What reaches the join when a share of the stream is kept."""
        return selected(source(self.window, self.tuples_per_s, keep), self.selectivity)


@dataclass(frozen=True)
class JoinPredicate:
    """A condition over several streams, and the share of their cross product that fulfils it."""

    text: str
    aliases: frozenset[str]
    selectivity: float


@dataclass(frozen=True)
class JoinProblem:
    """A query to be ordered.

    ``between`` is what windows over results of joins take; ``result_seconds`` is spent on every joined tuple
    by the operators above, which make ``results_per_match`` results of it. ``shares_with`` is another query
    whose join does for this one too, in its order and at its cost.
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
                raise SetupError(
                    f"the selectivity of {predicate.text} is {predicate.selectivity:g}; "
                    "it is a share of the cross product, so write a number from 0 to 1"
                )

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names of the inputs, in order of FROM."""
        return tuple(i.alias for i in self.inputs)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams, each once: where drop boxes can be."""
        return tuple(dict.fromkeys(i.stream for i in self.inputs))

    @property
    def output_per_s(self) -> float:
        """Results a second while nothing is shed, the same for every plan."""
        selectivity = prod(predicate.selectivity for predicate in self.predicates)
        flows = tuple(i.flow() for i in self.inputs)
        return joined_all(flows, selectivity).tuples_per_s * self.results_per_match

    @property
    def is_linear(self) -> bool:
        """Whether rates are linear in what is kept: all windows are of rows, or there is no join."""
        return len(self.inputs) == 1 or all(isinstance(i.window, RowWindow) for i in self.inputs)
