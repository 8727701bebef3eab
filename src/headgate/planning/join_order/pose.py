"""From a logical plan and statistics to the problem that the join optimiser solves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headgate.model.expression import Expression
from headgate.model.joins import aliases_of
from headgate.model.profile import in_sequence
from headgate.model.window import RowWindow, TimeWindow
from headgate.planning import logical
from headgate.planning.join_order.problem import NO_TIME, JoinInput, JoinPredicate, JoinProblem, WindowSeconds
from headgate.planning.logical import LogicalPlan, Node, scans, stream_below
from headgate.planning.plan_statistics import (
    Missing,
    PlanPredicate,
    PredicateEstimate,
    Running,
    Statistics,
    plan_predicates,
)


@dataclass(frozen=True)
class Posed:
    """A problem, and the predicates whose statistics it contains."""

    problem: JoinProblem
    predicates: tuple[PlanPredicate, ...]


# the last part of the names of operators; any other node is a select list
_KINDS = {logical.Aggregate: "aggregate", logical.Top: "top", logical.Table: "table"}


def problems_of(
    plan: LogicalPlan, statistics: Statistics, missing: Missing, running: Running = str
) -> tuple[Posed, ...]:
    """A problem for every branch of the query, after ``optimize``."""
    walks = [_Branch(name, top, statistics, missing, running) for name, top in plan.named_branches()]
    return tuple(Posed(walk.problem(), tuple(walk.predicates)) for walk in walks)


# what windows that are not bounded by time are compared as
_LONG = TimeWindow(3_600_000_000)


@dataclass
class _Branch:
    """Walks one branch from its select list down to its streams."""

    name: str
    top: logical.Project
    statistics: Statistics
    missing: Missing
    running: Running
    predicates: list[PlanPredicate] = field(default_factory=list)

    def problem(self) -> JoinProblem:
        above, below = _parted(self.top)
        sides, across = below.inputs, below.predicates
        inputs = tuple(self._input(side, is_joined=len(sides) > 1) for side in sides)
        join = f"{self.name}.join"
        predicates = self._plan_predicates(across, join)
        flows = [i.flow for i in inputs]
        selectivities = self.statistics.join_selectivities(predicates, flows, self.missing)
        known = [i.alias for i in inputs]
        aliases = [frozenset(aliases_of(predicate, known)) for predicate in across]
        seconds, factor = 0.0, 1.0
        for node in reversed(above):
            taken, passing = self._passed(node)
            seconds, factor = seconds + factor * taken, factor * passing
        return JoinProblem(
            query=self.name,
            inputs=inputs,
            predicates=tuple(map(JoinPredicate, (one.text for one in predicates), aliases, selectivities)),
            between=self._window_seconds(None) if len(inputs) > 1 else NO_TIME,
            result_seconds=seconds,
            results_per_match=factor,
            weight=self.statistics.weight(self.name.partition(".")[0]),
            shares_with=self._payer(join),
        )

    def _input(self, side: Node, is_joined: bool) -> JoinInput:
        scan = stream_below(side)
        operator = f"{self.name}.select_{scan.alias}"
        # after ``optimize``, a stream has one selection at most
        predicates = side.predicates if isinstance(side, logical.Filter) else ()
        known = self._selections(predicates, operator)
        seconds, selectivity = in_sequence((one.seconds, one.selectivity) for one in known)
        return JoinInput(
            alias=scan.alias,
            stream=scan.name,
            tuples_per_s=self.statistics.tuples_per_s(scan.name, self.missing),
            window=self._window(scan) if is_joined else RowWindow(1),
            selectivity=selectivity,
            select_seconds=seconds,
            window_seconds=self._window_seconds(scan.name) if is_joined else NO_TIME,
            selections=tuple(one.text for one in known),
            shares_with=self._payer(operator),
        )

    def _window(self, scan: logical.StreamScan) -> RowWindow | TimeWindow:
        if isinstance(scan.window, RowWindow) and scan.window.keys:
            return RowWindow(round(scan.window.rows * self.statistics.keys(scan.name, self.missing)))
        if isinstance(scan.window, (RowWindow, TimeWindow)):
            return scan.window
        # it holds as many tuples as there were, or as live
        assumption = f"{scan.alias} {scan.window} is taken for {scan.alias} {_LONG}"
        if assumption not in self.missing.assumed:
            self.missing.assumed.append(assumption)
        return _LONG

    def _payer(self, operator: str) -> str | None:
        """The query whose operator does the work, if it is not this one's own."""
        runs = self.running(operator)
        return None if runs == operator else runs.rpartition(".")[0]

    def _window_seconds(self, stream: str | None) -> WindowSeconds:
        join = f"{self.name}.join"
        found = self.statistics.window_seconds(self.running(join), stream, self.missing)
        return NO_TIME if self._payer(join) else found

    def _passed(self, node: Node) -> tuple[float, float]:
        if isinstance(node, logical.Filter):
            known = self._selections(node.predicates, f"{self.name}.{node.role}")
            return in_sequence((one.seconds, one.selectivity) for one in known)
        if isinstance(node, logical.Values):
            # pools have slots of their own
            return 0.0, 1.0
        if isinstance(node, logical.Explode):
            known = self._selections((node.call,), f"{self.name}.rows_{node.rows.alias}")
            return in_sequence((one.seconds, one.selectivity) for one in known)
        if not isinstance(node, logical.RelationJoin):
            kind = _KINDS.get(type(node), "project")
            return self._pass_seconds(f"{self.name}.{kind}", kind), 1.0
        name = f"{self.name}.relation_{node.relation.alias}"
        matches = self.statistics.rows(node.relation.name)
        for one in self._selections(node.predicates, name):
            matches *= one.selectivity
        return self._pass_seconds(name, "relation"), matches

    def _pass_seconds(self, operator: str, kind: str) -> float:
        found = self.statistics.pass_seconds(self.running(operator), kind, self.missing)
        return 0.0 if self._payer(operator) else found

    def _selections(self, predicates: Iterable[Expression], operator: str) -> tuple[PredicateEstimate, ...]:
        known = self.statistics.selections(self._plan_predicates(predicates, operator), self.missing)
        return tuple(replace(one, seconds=0.0) for one in known) if self._payer(operator) else known

    def _plan_predicates(self, predicates: Iterable[Expression], operator: str) -> list[PlanPredicate]:
        found = plan_predicates(predicates, scans(self.top), self.running(operator))
        self.predicates.extend(found)
        return found


def _parted(top: Node) -> tuple[list[Node], logical.WindowJoin]:
    """The nodes above the join, and the join itself; one stream with its selections is a join of one."""
    above: list[Node] = []
    node = top
    while not isinstance(node, (logical.WindowJoin, logical.StreamScan)):
        if isinstance(node, logical.Filter) and isinstance(node.input, logical.StreamScan):
            break
        # the selectivity of HAVING is not known before there are groups
        if not (isinstance(node, logical.Filter) and isinstance(node.input, logical.Aggregate)):
            above.append(node)
        node = node.inputs[0]
    return above, node if isinstance(node, logical.WindowJoin) else logical.WindowJoin((node,))
