"""Aggregates over streams that may be shed count every tuple by one over its chance to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.errors import QueryError
from headgate.model.expression import AggregateExpression, Expression, NamedExpression, column_of
from headgate.model.shedding import KEEP
from headgate.model.window import RowWindow
from headgate.planning.estimates import ShedAggregate, ShedTerms, shed_avg, shed_count, shed_sum
from headgate.planning.logical import (
    Aggregate,
    Filter,
    LogicalPlan,
    Node,
    Project,
    RelationJoin,
    RelationScan,
    StreamScan,
    WindowJoin,
    scans,
)
from headgate.planning.text import quoted, tokens_of

KEPT = "kept"


def scale_aggregates(plan: LogicalPlan) -> LogicalPlan:
    """COUNT, SUM and AVG become estimates over what is kept; ``quality`` adds their intervals.

    MIN, MAX and COUNT(DISTINCT) are of the tuples that were kept. So is everything over row windows, which
    hold as many tuples as ever; and where tuples are chosen by utility: nobody knows the chances of others.
    """
    if plan.utility is not None or (plan.overload != "shed" and not plan.quality):
        return plan
    branches = tuple(_scaled(branch, plan.quality) for branch in plan.branches)
    if plan.quality:
        _check_columns(branches)
    return replace(plan, branches=branches)


def _scaled(branch: Project, quality: bool) -> Project:
    above = branch.input
    aggregate = above.input if isinstance(above, Filter) else above
    if not isinstance(aggregate, Aggregate):
        return _with_chance(branch) if quality else branch
    [scan] = [scan for scan in scans(aggregate.input) if isinstance(scan, StreamScan)]
    sums = _Sums(column_of(scan.alias, KEEP), quality, is_scaled=not isinstance(scan.window, RowWindow))
    estimates = {call.name: sums.estimate(call) for call in aggregate.aggregates}
    values = {name: estimate.value for name, estimate in estimates.items()}
    items = [replace(item, expression=_over(item.expression, values)) for item in branch.items]
    if quality:
        for item in branch.items:
            items += _interval(item, estimates)
        items.append(NamedExpression(KEPT, sums.kept_share()))
    below: Node = replace(aggregate, input=_telling(aggregate.input), aggregates=tuple(sums.calls.values()))
    if isinstance(above, Filter):
        below = Filter(below, tuple(_over(predicate, values) for predicate in above.predicates))
    return Project(below, tuple(_reading(item, sums) for item in items))


def _with_chance(branch: Project) -> Project:
    """A result of several tuples had the product of their chances."""
    below = _telling(branch.input)
    columns = tuple(column_of(s.alias, KEEP) for s in scans(below) if isinstance(s, StreamScan))
    chance = Expression(" * ".join(map(quoted, columns)), columns)
    return Project(below, (*branch.items, NamedExpression(KEPT, chance)))


def _interval(item: NamedExpression, estimates: Mapping[str, ShedAggregate]) -> list[NamedExpression]:
    """The ends of the interval, of an item that is an aggregate and nothing else."""
    own = next((e for name, e in estimates.items() if item.expression.text == quoted(name)), None)
    if own is None or not own.half_width:
        return []
    # the figure itself may be rounded; its interval is not
    ends = ((f"{item.name}_low", "-"), (f"{item.name}_high", "+"))
    return [
        NamedExpression(name, Expression(f"{_unrounded(own)} {sign} {own.half_width}", ()))
        for name, sign in ends
    ]


def _unrounded(estimate: ShedAggregate) -> str:
    return estimate.value.removeprefix(_ROUND[0]).removesuffix(_ROUND[1])


_ROUND = ("CAST(round(", ") AS BIGINT)")
# the sums that a figure is made of, and those that its interval needs beside them
_VALUE = {"COUNT": {"count"}, "SUM": {"total"}, "AVG": {"count", "total"}}
_INTERVAL = {
    "COUNT": {"count_spread", "kept"},
    "SUM": {"total_spread", "kept"},
    "AVG": {"count_spread", "total_spread", "mixed_spread", "kept"},
}


@dataclass
class _Sums:
    """The sums that estimates are made of, each computed once."""

    keep: str
    quality: bool
    is_scaled: bool
    calls: dict[tuple[object, ...], AggregateExpression] = field(default_factory=dict)

    def estimate(self, call: AggregateExpression) -> ShedAggregate:
        """The call over sums; without half a width where nothing can be said of the tuples not kept."""
        if not self.is_scaled or call.distinct or call.function not in _VALUE:
            return ShedAggregate(quoted(self._call(call.function, call.argument, call.distinct)), "")
        argument = call.argument
        columns = (self.keep, *(argument.columns if argument else ()))
        span = argument.span if argument else None
        terms = ShedTerms.of(quoted(self.keep), argument.text if argument else None)
        needed = _VALUE[call.function] | (_INTERVAL[call.function] if self.quality else set())
        sums = terms.each(
            lambda name, term: (
                quoted(self._call("SUM", Expression(term, columns, span))) if name in needed else ""
            )
        )
        if call.function == "COUNT":
            counted = shed_count(sums)
            return replace(counted, value=f"{_ROUND[0]}{counted.value}{_ROUND[1]}")
        return shed_sum(sums) if call.function == "SUM" else shed_avg(sums)

    def kept_share(self) -> Expression:
        """Tuples that were kept by tuples that there were, about."""
        kept = self._call("COUNT", None)
        there = self._call("SUM", Expression(ShedTerms.of(quoted(self.keep)).count, (self.keep,)))
        return Expression(f"{quoted(kept)} / {quoted(there)}", ())

    def _call(self, function: str, argument: Expression | None, distinct: bool = False) -> str:
        same = (function, argument and argument.text, distinct)
        name = f"a{len(self.calls)}"
        return self.calls.setdefault(same, AggregateExpression(name, function, argument, distinct)).name


def _over(expression: Expression, values: Mapping[str, str]) -> Expression:
    """The expression with the columns of calls replaced by what they are now."""
    text, done = "", 0
    for token in tokens_of(expression.text):
        value = values.get(token.key.strip("`")) if token.key.startswith("`") else None
        if value is not None:
            is_plain = len(tokens_of(value)) == 1
            text += expression.text[done : token.start] + (value if is_plain else f"({value})")
            done = token.end
    return replace(expression, text=text + expression.text[done:])


def _reading(item: NamedExpression, sums: _Sums) -> NamedExpression:
    """The item with the columns that it reads."""
    names = {token.key.strip("`") for token in tokens_of(item.expression.text) if token.key.startswith("`")}
    keys = [c for c in item.expression.columns if c in names and c.startswith("k")]
    own = [call.name for call in sums.calls.values() if call.name in names]
    return replace(item, expression=replace(item.expression, columns=(*keys, *own)))


def _telling(node: Node) -> Node:
    """The plan below with the chances of its streams' tuples."""
    if isinstance(node, StreamScan):
        return replace(node, columns=(*node.columns, KEEP))
    if isinstance(node, RelationScan):
        return node
    if isinstance(node, WindowJoin):
        return replace(node, inputs=tuple(map(_telling, node.inputs)))
    if isinstance(node, Filter):
        return replace(node, input=_telling(node.input))
    assert isinstance(node, RelationJoin), f"{node} stands above all streams"
    return replace(node, input=_telling(node.input))


def _check_columns(branches: tuple[Project, ...]) -> None:
    first = [item.name for item in branches[0].items]
    for branch in branches:
        names = [item.name for item in branch.items]
        span = branch.items[0].expression.span
        if names != first:
            raise QueryError(
                "quality = true adds other columns to this SELECT than to the first; "
                "aggregate the same in each branch of UNION ALL",
                span,
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise QueryError(
                f"quality = true adds a column {twice}, and there is one; write AS another_name", span
            )
