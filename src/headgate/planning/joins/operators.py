"""A chosen plan as a tree of operators, with rates and costs at each of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from headgate.planning.cost import (
    Flow,
    WindowSeconds,
    join_cost_per_s,
    joined,
    pass_cost_per_s,
    selected,
    source,
)
from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.plans import Shape
from headgate.planning.tree import Json, Tree


@dataclass(frozen=True)
class OperatorFigures:
    """An operator of a plan: what leaves it, and the processors it keeps busy."""

    does: str
    tuples_per_s: float
    cost_per_s: float
    window_tuples: float | None = None
    inputs: tuple[OperatorFigures, ...] = ()

    def to_json(self) -> Json:
        """The tree as nested dicts and lists."""
        return {
            "does": self.does,
            "tuples_per_s": self.tuples_per_s,
            "window_tuples": self.window_tuples,
            "cost_per_s": self.cost_per_s,
            "inputs": [below.to_json() for below in self.inputs],
        }

    def tree(self) -> Tree:
        """The tree for people to read."""
        held = "" if self.window_tuples is None else f", {self.window_tuples:,.6g} in its window"
        figures = f"{self.tuples_per_s:,.6g} tuples/s{held}, {self.cost_per_s:,.4g} processors"
        return Tree(f"{self.does}: {figures}", tuple(below.tree() for below in self.inputs))


def operators_of(candidate: Candidate) -> OperatorFigures:
    """The operators of a plan behind its drop boxes."""
    problem = candidate.problem
    top, flow, _, _ = _operator(candidate, candidate.shape)
    if not problem.result_seconds and problem.results_per_match == 1:
        return top
    return OperatorFigures(
        "results",
        flow.tuples_per_s * problem.results_per_match,
        pass_cost_per_s(flow, problem.result_seconds),
        None,
        (top,),
    )


def _operator(
    candidate: Candidate, shape: Shape
) -> tuple[OperatorFigures, Flow, WindowSeconds, frozenset[str]]:
    if isinstance(shape, int):
        return _stream(candidate, shape)
    left, of_left, left_seconds, left_aliases = _operator(candidate, shape[0])
    right, of_right, right_seconds, right_aliases = _operator(candidate, shape[1])
    aliases = left_aliases | right_aliases
    across = [
        p
        for p in candidate.problem.predicates
        if p.aliases <= aliases and p.aliases & left_aliases and p.aliases & right_aliases
    ]
    flow = joined(of_left, of_right, prod(p.selectivity for p in across))
    does = f"join {' AND '.join(p.text for p in across)}" if across else "cross product"
    does += _shared(candidate.problem.shares_with)
    cost = join_cost_per_s(of_left, of_right, left_seconds, right_seconds)
    figures = OperatorFigures(does, flow.tuples_per_s, cost, flow.window_tuples, (left, right))
    return figures, flow, candidate.problem.between, aliases


def _stream(candidate: Candidate, number: int) -> tuple[OperatorFigures, Flow, WindowSeconds, frozenset[str]]:
    read = candidate.problem.inputs[number]
    keep = candidate.keep[read.stream]
    arriving = source(read.window, read.tuples_per_s, keep)
    is_joined = len(candidate.problem.inputs) > 1
    named = read.stream if read.alias == read.stream else f"{read.stream} AS {read.alias}"
    does = f"stream {named} {read.window}" if is_joined else f"stream {named}"
    does += f", {keep:.4g} kept" if keep < 1 else ""
    held = arriving.window_tuples if is_joined else None
    figures = OperatorFigures(does, arriving.tuples_per_s, 0.0, held)
    flow = selected(arriving, read.selectivity)
    if read.select_seconds or read.selectivity != 1:
        cost = pass_cost_per_s(arriving, read.select_seconds)
        held = flow.window_tuples if is_joined else None
        asked = " AND ".join(read.selections) or read.alias
        does = f"select {asked}{_shared(read.shares_with)}"
        figures = OperatorFigures(does, flow.tuples_per_s, cost, held, (figures,))
    return figures, flow, read.window_seconds, frozenset({read.alias})


def _shared(query: str | None) -> str:
    return "" if query is None else f", shared with {query}"
