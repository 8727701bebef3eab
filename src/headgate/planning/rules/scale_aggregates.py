"""Aggregates over streams that may be shed become estimates, with a confidence interval each.

Every tuple is kept with an inclusion probability, the keep ratio of its drop box at that time. Weighting kept
tuples by its inverse makes COUNT and SUM unbiased (Horvitz and Thompson); AVG is their ratio. Estimates and
intervals are computed from six sums over kept tuples, which any SQL engine can maintain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from headgate.errors import QueryError
from headgate.model import operator as physical
from headgate.model.expression import AggregateExpression, Expression, NamedExpression, column_of
from headgate.model.shedding import KEEP
from headgate.model.sql_tree import column_tree, operand, quote
from headgate.model.window import RowWindow
from headgate.planning import logical
from headgate.planning.logical import (
    Aggregate,
    Explode,
    Filter,
    LogicalPlan,
    Node,
    Project,
    Table,
    Top,
    nodes,
    scans,
    stream_below,
)
from headgate.planning.plan_statistics import Context

# half of a 95 % interval, in standard errors
Z_95 = 1.959963984540054
# the standard error of few tuples is uncertain itself: the first term of Student's quantile; twice that where
# it is estimated from values of unknown distribution
FEW = (Z_95**2 + 1) / 4
FEW_VALUES = 2 * FEW


def shed_terms(of_argument: bool) -> dict[str, str]:
    """What estimates are sums of, in SQL over the probability ``x`` and the value ``v`` of a kept tuple.

    Tuples whose argument is NULL add nothing, as in SQL.
    """
    spread = "(1 - (x)) / ((x) * (x))"
    terms = {"count": "1 / (x)", "count_spread": spread, "total": "(v) / (x)"}
    terms |= {"total_spread": f"{spread} * (v) * (v)", "mixed_spread": f"{spread} * (v)", "kept": "1"}
    if of_argument:
        for name in ("count", "count_spread", "kept"):
            terms[name] = f"CASE WHEN (v) IS NOT NULL THEN {terms[name]} END"
    return terms


def _half(few: float, error: str) -> str:
    return f"{Z_95} * (1 + {few} / greatest(coalesce(kept, 1), 1)) * {error}"


_MEAN = "(total / nullif(count, 0))"
_SPREAD = f"total_spread - 2 * {_MEAN} * mixed_spread + {_MEAN} * {_MEAN} * count_spread"
# an estimate and half of its interval, in SQL over the sums of terms
SHED_AGGREGATES = {
    "COUNT": ("coalesce(count, 0)", _half(FEW, "sqrt(greatest(coalesce(count_spread, 0), 0))")),
    "SUM": ("total", _half(FEW_VALUES, "sqrt(greatest(total_spread, 0))")),
    "AVG": (_MEAN, _half(FEW_VALUES, f"sqrt(greatest({_SPREAD}, 0)) / nullif(count, 0)")),
}
KEEP_RATIO = "keep_ratio"


def scale_aggregates(plan: LogicalPlan, context: Context) -> LogicalPlan:
    """COUNT, SUM and AVG become estimates from the kept tuples; ``quality`` adds their intervals.

    MIN, MAX and COUNT(DISTINCT) are computed over the kept tuples. So is everything over row windows, which
    hold as many tuples as without shedding, and where tuples are chosen by utility, whose inclusion
    probabilities are unknown.
    """
    del context
    if plan.query.utility is not None or (plan.query.overload != "shed" and not plan.quality):
        return plan
    branches = tuple(_scaled(branch, plan.quality) for branch in plan.branches)
    if plan.quality:
        _check_columns(branches)
    return replace(plan, branches=branches)


def _scaled(branch: Project, quality: bool) -> Project:
    if isinstance(branch, Table) or _lists_rows(branch):
        return branch
    top = branch.input if isinstance(branch.input, Top) else None
    above = branch.input if top is None else top.input
    aggregate = above.input if isinstance(above, Filter) else above
    if not isinstance(aggregate, Aggregate):
        return _with_probability(branch) if quality else branch
    if quality and aggregate.operator in (physical.Departures, physical.Contents):
        message = "quality = true is for tuples as they come, and for aggregates; leave it out"
        raise QueryError(message, aggregate.keys[0].expression.span)
    if quality:
        _check_apart(aggregate)
    scan = stream_below(aggregate)
    sums = _Sums(column_of(scan.alias, KEEP), quality, is_scaled=not isinstance(scan.window, RowWindow))
    estimates = {call.name: sums.estimate(call) for call in aggregate.aggregates}
    values = {name: operand(value.tree) for name, (value, *_) in estimates.items()}
    items = [replace(item, expression=item.expression.over(values)) for item in branch.items]
    if quality:
        for item in branch.items:
            # an item that is just an aggregate has an interval
            tree = item.expression.tree
            bounds = estimates.get(tree.name, [])[1:] if isinstance(tree, exp.Column) else []
            names = (f"{item.name}_low", f"{item.name}_high")
            items += [NamedExpression(name, bound) for name, bound in zip(names, bounds, strict=False)]
        items.append(NamedExpression(KEEP_RATIO, sums.keep_ratio()))
    source = _with_keep_column(aggregate.input)
    below: Node = replace(aggregate, input=source, aggregates=tuple(sums.calls.values()))
    if isinstance(above, Filter):
        below = Filter(below, tuple(predicate.over(values) for predicate in above.predicates))
    if top is not None:
        below = Top(below, top.ranking.over(values))
    return Project(below, tuple(items))


def _check_apart(aggregate: Aggregate) -> None:
    """Reject intervals over rows that are kept or dropped together: they would be too narrow."""
    for node in nodes(aggregate):
        if isinstance(node, Explode):
            message = "quality = true takes tuples to be kept independently, and rows of one tuple are not"
            raise QueryError(f"{message}; leave it out, or aggregate without them", node.call.span)


def _lists_rows(branch: Project) -> bool:
    """Whether results are the first tuples of windows or instants, which shedding may replace by others."""
    if not isinstance(branch.input, Top):
        return False
    below = branch.input.input
    groups = below.input if isinstance(below, Filter) else below
    return not isinstance(groups, Aggregate) or groups.operator is physical.Contents


def _with_probability(branch: Project) -> Project:
    """The inclusion probability of a result is the product of those of its tuples."""
    below = _with_keep_column(branch.input)
    columns = tuple(column_of(s.alias, KEEP) for s in scans(below) if isinstance(s, logical.StreamScan))
    probability = Expression.parse(" * ".join(map(quote, columns)))
    return Project(below, (*branch.items, NamedExpression(KEEP_RATIO, probability)))


@dataclass
class _Sums:
    """The sums that estimates need, each computed once."""

    keep: str
    quality: bool
    is_scaled: bool
    calls: dict[tuple[object, ...], AggregateExpression] = field(default_factory=dict)

    def estimate(self, call: AggregateExpression) -> list[Expression]:
        """The call over sums; with ``quality``, its bounds, where anything is known about dropped tuples."""
        if not self.is_scaled or call.distinct or call.function not in SHED_AGGREGATES:
            name = self._call(call.function, *call.arguments, distinct=call.distinct)
            return [Expression(column_tree(name))]
        value, half_width = SHED_AGGREGATES[call.function]
        # counts are whole numbers in results; the bounds are not rounded
        texts = [f"CAST(round({value}) AS BIGINT)" if call.function == "COUNT" else value]
        if self.quality:
            texts += [f"{value} - {half_width}", f"{value} + {half_width}"]
        estimates = [Expression.parse(text) for text in texts]
        needed = {name for estimate in estimates for name in estimate.columns}
        terms = shed_terms(call.argument is not None).items()
        sums = {name: self._sum(term, call.argument) for name, term in terms if name in needed}
        return [estimate.over(sums) for estimate in estimates]

    def keep_ratio(self) -> Expression:
        """Kept tuples divided by the estimated number of all tuples."""
        ratio = {"kept": column_tree(self._call("COUNT")), "there": self._sum("1 / (x)", None)}
        return Expression.parse("kept / there").over(ratio)

    def _sum(self, term: str, argument: Expression | None) -> exp.Column:
        names: dict[str, exp.Expr] = {"x": column_tree(self.keep)}
        if argument is not None:
            names["v"] = argument.tree
        expression = Expression.parse(term, argument.span if argument else None).over(names)
        return column_tree(self._call("SUM", expression))

    def _call(self, function: str, *arguments: Expression, distinct: bool = False) -> str:
        argument, others = (arguments[0] if arguments else None), arguments[1:]
        new = AggregateExpression(f"a{len(self.calls)}", function, argument, distinct, others)
        return self.calls.setdefault((function, arguments, distinct), new).name


def _with_keep_column(node: Node) -> Node:
    def change(one: Node) -> Node:
        return replace(one, columns=(*one.columns, KEEP)) if isinstance(one, logical.StreamScan) else one

    return logical.rewrite(node, change)


def _check_columns(branches: tuple[Project, ...]) -> None:
    first = [item.name for item in branches[0].items]
    for branch in branches:
        names = [item.name for item in branch.items]
        span = branch.items[0].expression.span
        if names != first:
            message = "quality = true adds other columns to this SELECT than to the first"
            raise QueryError(f"{message}; aggregate the same in each branch of UNION ALL", span)
        for twice in (name for name in names if names.count(name) > 1):
            message = f"quality = true adds a column {twice}, and there is one; write AS another_name"
            raise QueryError(message, span)
