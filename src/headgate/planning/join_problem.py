"""From a logical plan and figures to the problem that the join optimiser solves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from headgate.errors import InternalError
from headgate.model.expression import Expression, column_of
from headgate.model.profile import in_a_row
from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.cost import NO_TIME, WindowSeconds
from headgate.planning.joins.problem import JoinInput, JoinPredicate, JoinProblem
from headgate.planning.logical import (
    Aggregate,
    Filter,
    LogicalPlan,
    Node,
    Project,
    RelationJoin,
    StreamScan,
    WindowJoin,
    scans,
)
from headgate.planning.predicates import Asked, Running, asked_of
from headgate.planning.statistics import Known, Missing, Statistics


@dataclass(frozen=True)
class Posed:
    """A problem, and the predicates whose figures it was made with."""

    problem: JoinProblem
    asked: tuple[Asked, ...]


def problems_of(
    plan: LogicalPlan, statistics: Statistics, missing: Missing, running: Running = str
) -> tuple[Posed, ...]:
    """A problem for every branch of the query; after ``optimize``, when predicates stand where they stay.

    ``running`` tells which operator does the work of another: what a query shares costs it nothing.
    """
    posed = []
    for name, branch in plan.named_branches():
        walk = _Branch(name, plan.query, branch, statistics, missing, running)
        problem = walk.problem()
        posed.append(Posed(problem, tuple(walk.asked)))
    return tuple(posed)


@dataclass
class _Branch:
    """One branch on its way from its select list down to its streams."""

    name: str
    query: str
    top: Project
    statistics: Statistics
    missing: Missing
    running: Running
    asked: list[Asked] = field(default_factory=list)

    def problem(self) -> JoinProblem:
        above, below = _parted(self.top)
        sides = below.inputs if isinstance(below, WindowJoin) else (below,)
        inputs = tuple(self._input(side, is_joined=len(sides) > 1) for side in sides)
        across = below.predicates if isinstance(below, WindowJoin) else ()
        join = f"{self.name}.join"
        asked = self._asked(across, join)
        selectivities = self.statistics.join_selectivities(asked, [i.flow() for i in inputs], self.missing)
        seconds, factor = self._above(above)
        between = inputs[0].window_seconds
        if len(inputs) > 1:
            between = self._window_seconds(None)
        return JoinProblem(
            query=self.name,
            inputs=inputs,
            predicates=tuple(
                JoinPredicate(one.text, _aliases(predicate, below), selectivity)
                for one, predicate, selectivity in zip(asked, across, selectivities, strict=True)
            ),
            between=between,
            result_seconds=seconds,
            results_per_match=factor,
            weight=self.statistics.weight(self.query),
            shares_with=self._payer(join),
        )

    def _input(self, side: Node, is_joined: bool) -> JoinInput:
        [scan] = [scan for scan in scans(side) if isinstance(scan, StreamScan)]
        operator = f"{self.name}.select_{scan.alias}"
        known = self._selections(_filters(side), operator)
        seconds, selectivity = _chained(known)
        given = JoinInput(
            alias=scan.alias,
            stream=scan.stream,
            tuples_per_s=self.statistics.tuples_per_s(scan.stream, self.missing),
            window=RowWindow(1),
            selectivity=selectivity,
            select_seconds=seconds,
            selections=tuple(one.text for one in known),
            shares_with=self._payer(operator),
        )
        if not is_joined:
            return given
        return replace(given, window=self._window(scan), window_seconds=self._window_seconds(scan.stream))

    def _payer(self, operator: str) -> str | None:
        """The query whose operator does the work, if it is not this one's own."""
        runs = self.running(operator)
        return None if runs == operator else runs.rpartition(".")[0]

    def _window_seconds(self, stream: str | None) -> WindowSeconds:
        join = f"{self.name}.join"
        found = self.statistics.window_seconds(self.running(join), stream, self.missing)
        return NO_TIME if self._payer(join) else found

    def _pass_seconds(self, operator: str, kind: str) -> float:
        found = self.statistics.pass_seconds(self.running(operator), kind)
        return 0.0 if self._payer(operator) else found

    def _window(self, scan: StreamScan) -> RowWindow | TimeWindow:
        if isinstance(scan.window, RowWindow) and scan.window.keys:
            return RowWindow(round(scan.window.rows * self.statistics.keys(scan.stream, self.missing)))
        if isinstance(scan.window, (RowWindow, TimeWindow)):
            return scan.window
        raise InternalError(f"{scan} is joined without a window")

    def _above(self, nodes: Sequence[Node]) -> tuple[float, float]:
        """What the operators above the join take for a joined tuple, and what they make of it."""
        seconds, factor = 0.0, 1.0
        for node in reversed(nodes):
            name = f"{self.name}.{_role(node)}"
            if isinstance(node, RelationJoin):
                seconds += factor * self._pass_seconds(name, "relation")
                matches = self.statistics.rows(node.relation.relation)
                for known in self._selections(node.predicates, name):
                    matches *= known.selectivity
                factor *= matches
            elif isinstance(node, Filter):
                taken, passing = _chained(self._selections(node.predicates, name))
                seconds, factor = seconds + factor * taken, factor * passing
            else:
                seconds += factor * self._pass_seconds(name, _kind(node))
        return seconds, factor

    def _selections(self, predicates: Iterable[Expression], operator: str) -> tuple[Known, ...]:
        known = self.statistics.selections(self._asked(predicates, operator), self.missing)
        return tuple(replace(one, seconds=0.0) for one in known) if self._payer(operator) else known

    def _asked(self, predicates: Iterable[Expression], operator: str) -> list[Asked]:
        asked = asked_of(predicates, tuple(scans(self.top)), self.running(operator))
        self.asked.extend(asked)
        return asked


def _parted(top: Node) -> tuple[list[Node], Node]:
    """The nodes above the join, or above the one stream with its selections; and that."""
    above: list[Node] = []
    node = top
    while not isinstance(node, (WindowJoin, StreamScan)) and not _is_selected_stream(node):
        # what HAVING says of groups is not known before they are
        if not (isinstance(node, Filter) and isinstance(node.input, Aggregate)):
            above.append(node)
        node = node.inputs[0]
    return above, node


def _is_selected_stream(node: Node) -> bool:
    while isinstance(node, Filter):
        node = node.input
    return isinstance(node, StreamScan)


def _filters(node: Node) -> list[Expression]:
    predicates: list[Expression] = []
    while isinstance(node, Filter):
        predicates += node.predicates
        node = node.input
    return predicates


def _chained(known: Sequence[Known]) -> tuple[float, float]:
    """Seconds that predicates one after the other take for a tuple, and the share that passes all."""
    return in_a_row((one.seconds, one.selectivity) for one in known)


def _aliases(predicate: Expression, join: Node) -> frozenset[str]:
    return frozenset(
        scan.alias
        for scan in scans(join)
        if any(column_of(scan.alias, name) in predicate.columns for name in scan.columns)
    )


def _kind(node: Node) -> str:
    return "aggregate" if isinstance(node, Aggregate) else "project"


def _role(node: Node) -> str:
    if isinstance(node, RelationJoin):
        return f"relation_{node.relation.alias}"
    return "where" if isinstance(node, Filter) else _kind(node)
