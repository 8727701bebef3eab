"""Predicates: identified by meaning, and taken apart where they call placed functions.

Order of sides, blanks, case and quotes do not change the meaning of a predicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.errors import QueryError
from headgate.model.expression import Expression
from headgate.model.network import FunctionDefinition
from headgate.model.operator import ByComparison, ByTruth, PlacedPredicate
from headgate.model.sql_tree import replace_nodes, tree_key, write_tree
from headgate.planning.catalog import Catalog
from headgate.planning.logical import Scan

# a comparison with its sides exchanged
_MIRRORED: Mapping[type[exp.Expr], type[exp.Binary]] = {
    **{kind: kind for kind in (exp.EQ, exp.NEQ, exp.NullSafeEQ)},
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}
_SYMBOLS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.GT: ">", exp.LTE: "<=", exp.GTE: ">="}
_TRUTHS = (exp.true(), exp.false(), exp.cast(exp.null(), "BOOLEAN"))
_VOLATILE = frozenset(
    ["rand", "randn", "random", "uuid", "uniform", "randstr", "shuffle", "monotonically_increasing_id"]
)


@dataclass(frozen=True)
class PlanPredicate:
    """A predicate whose statistics are wanted: ways to write it, its operator, and its text in the plan."""

    text: str
    forms: tuple[str, ...]
    operator: str
    plan_text: str


def plan_predicates(
    predicates: Iterable[Expression], scans: Iterable[Scan], operator: str
) -> list[PlanPredicate]:
    own = tuple(scans)
    aliases = [scan.alias for scan in own]
    shown = ((p, write_tree(_over_sources(p, own, aliases))) for p in predicates)
    return [PlanPredicate(text, _forms(p, own), operator, p.text) for p, text in shown]


def form_of(text: str) -> str:
    """Equal for predicates of the same meaning; a text that is not an expression equals only itself."""
    try:
        return _form(Expression.parse(text).tree)
    except QueryError:
        return text


def is_volatile(expression: Expression) -> bool:
    """Whether it may have another value when evaluated again."""
    return not _VOLATILE.isdisjoint(expression.functions)


def _forms(predicate: Expression, scans: Sequence[Scan]) -> tuple[str, ...]:
    """All ways to write a predicate of a plan: by alias, by stream, by column alone, as it was written."""
    qualifiers: list[list[str | None]] = [[scan.alias for scan in scans]]
    if len({scan.name for scan in scans}) == len(scans):
        qualifiers.append([scan.name for scan in scans])
    if len(scans) == 1:
        qualifiers.append([None])
    forms = [_form(_over_sources(predicate, scans, own)) for own in qualifiers]
    if predicate.span is not None:
        forms.append(form_of(predicate.span.excerpt))
    return tuple(dict.fromkeys(forms))


def _over_sources(predicate: Expression, scans: Sequence[Scan], qualifiers: Sequence[str | None]) -> exp.Expr:
    columns = {
        column: exp.column(name, table=qualifier)
        for scan, qualifier in zip(scans, qualifiers, strict=True)
        for column, name in scan.plan_columns.items()
    }
    return over(predicate, columns).tree


def over(expression: Expression, trees: Mapping[str, exp.Expr]) -> Expression:
    def change(node: exp.Expr) -> exp.Expr | None:
        return trees[node.name].copy() if isinstance(node, exp.Column) and node.name in trees else None

    return expression.replace(change)


def _form(tree: exp.Expr) -> str:
    tree = tree.unnest()
    if (
        isinstance(tree, exp.Binary)
        and type(tree) in _MIRRORED
        and tree_key(tree.left) > tree_key(tree.right)
    ):
        tree = _MIRRORED[type(tree)](this=tree.right.copy(), expression=tree.left.copy())
    return tree_key(tree)


Call = tuple[exp.Anonymous, FunctionDefinition, str]


def with_pool(predicate: Expression, catalog: Catalog) -> Expression:
    """The conjunct with the pool that it needs; a QueryError if a pool cannot evaluate it."""
    calls = list(_calls(predicate, catalog))
    if not calls:
        return predicate
    if len(calls) > 1:
        names = " and ".join(function.name for _, function, _ in calls[:2])
        message = f"{names} are placed on pools and called in one condition"
        raise QueryError(f"{message}; write one condition for each, joined by AND", predicate.span)
    placed_predicate(predicate, catalog)
    [(_, _, pool)] = calls
    return replace(predicate, pool=pool)


def without_pool(expression: Expression, catalog: Catalog) -> Expression:
    """The expression; a QueryError if it calls a placed function."""
    for _, function, pool in _calls(expression, catalog):
        message = f"{function.name} is placed on pool {pool} and can be called in WHERE only"
        raise QueryError(message, expression.span)
    return expression


def placed_predicate(predicate: Expression, catalog: Catalog) -> PlacedPredicate:
    """A conjunct with a pool, taken apart: the call, its arguments, and the effect of its result."""
    [call] = _calls(predicate, catalog)
    tree, function, pool = call
    arguments = tuple(Expression(argument.copy(), predicate.span) for argument in tree.expressions)
    verdict = _by_truth(predicate, tree) if function.is_boolean else _by_comparison(predicate, call)
    return PlacedPredicate(predicate.text, function.name, arguments, verdict, pool)


def _calls(expression: Expression, catalog: Catalog) -> Iterator[Call]:
    for tree in expression.tree.find_all(exp.Anonymous, bfs=False):
        # after a dot it is a field
        if not isinstance(tree.parent, exp.Dot) and (found := catalog.placed(tree.name)):
            yield tree, *found


def _by_truth(predicate: Expression, call: exp.Anonymous) -> ByTruth:
    def given(truth: exp.Expr) -> Expression:
        tree = replace_nodes(predicate.tree, lambda node: truth.copy() if node == call else None)
        return Expression(tree, predicate.span)

    return ByTruth(*map(given, _TRUTHS))


def _by_comparison(predicate: Expression, call: Call) -> ByComparison:
    tree, function, pool = call
    comparison = predicate.tree.unnest()
    kind = type(comparison)
    if isinstance(comparison, exp.Binary) and kind in _SYMBOLS:
        if comparison.left is tree:
            return ByComparison(_SYMBOLS[kind], Expression(comparison.right.copy(), predicate.span))
        if comparison.right is tree:
            mirrored = _SYMBOLS[_MIRRORED[kind]]
            return ByComparison(mirrored, Expression(comparison.left.copy(), predicate.span))
    name = function.name
    problem = f"{name} is placed on pool {pool} and returns {function.returns}"
    hint = f"write {name}(...) = something, or a function that RETURNS BOOLEAN"
    raise QueryError(f"{problem}; {hint}", predicate.span)
