"""A plan with its drop boxes, judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.planning.joins.plans import Shape, flattened, is_left_deep
from headgate.planning.joins.problem import JoinProblem

# how orders are written: a row of aliases, with rows inside where a plan is bushy
Order = list["str | Order"]


@dataclass(frozen=True)
class Candidate:
    """A plan and what it would do.

    ``cost_per_s`` is the processor time that it would take with nothing shed, ``kept_cost_per_s`` what it
    takes behind its drop boxes; ``keep`` is the share kept of each stream.
    """

    problem: JoinProblem
    shape: Shape
    cost_per_s: float
    kept_cost_per_s: float
    output_per_s: float
    keep: Mapping[str, float]
    crosses: int
    is_feasible: bool

    @property
    def objective(self) -> float:
        """Output for its cost, R(p)."""
        if self.kept_cost_per_s > 0:
            return self.output_per_s / self.kept_cost_per_s
        return float("inf") if self.output_per_s > 0 else 0.0

    @property
    def order(self) -> Order:
        """The aliases in the order they are joined."""
        if is_left_deep(self.shape):
            return [self.problem.aliases[i] for i in flattened(self.shape)]
        order = self._named(self.shape)
        return order if isinstance(order, list) else [order]

    def __str__(self) -> str:
        return self._written(self.shape).removeprefix("(").removesuffix(")")

    def _named(self, shape: Shape) -> str | Order:
        if isinstance(shape, int):
            return self.problem.aliases[shape]
        return [self._named(side) for side in shape]

    def _written(self, shape: Shape) -> str:
        if isinstance(shape, int):
            return self.problem.aliases[shape]
        return f"({self._written(shape[0])}, {self._written(shape[1])})"
