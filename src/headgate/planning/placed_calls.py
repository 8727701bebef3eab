"""Calls of placed functions: conditions are taken apart for the pools that evaluate them.

A condition that is one call, or compares one with something else, is evaluated as a whole: a tuple for which
it does not hold goes no further. All other calls become columns, which expressions above them read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from headgate.errors import QueryError, Span
from headgate.model.expression import Expression, NamedExpression
from headgate.model.network import FunctionDefinition
from headgate.model.operator import ByComparison, ByTruth, ByValue, PlacedPredicate
from headgate.model.sql_tree import column_tree, replace_nodes, tree_key
from headgate.planning.catalog import Catalog
from headgate.planning.logical import Node, Values

# a comparison, and the one with its sides exchanged
_SYMBOLS = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("<>", "<>"),
    exp.LT: ("<", ">"),
    exp.GT: (">", "<"),
    exp.LTE: ("<=", ">="),
    exp.GTE: (">=", "<="),
}
_TRUTHS = (exp.true(), exp.false(), exp.cast(exp.null(), "BOOLEAN"))
Call = tuple[exp.Anonymous, FunctionDefinition, str]


def with_pool(predicate: Expression, catalog: Catalog) -> Expression | None:
    """The conjunct with the pool that evaluates it, if it calls a placed function; None if no pool can."""
    calls = list(_calls(predicate, catalog))
    if not calls:
        return predicate
    if len(calls) > 1 or _verdict(predicate, calls[0]) is None:
        return None
    [(_, _, pool)] = calls
    return replace(predicate, pool=pool)


def without_pool(expression: Expression, catalog: Catalog) -> Expression:
    """The expression over groups; a QueryError if it calls a placed function."""
    for _, function, pool in _calls(expression, catalog):
        message = f"{function.name} is placed on pool {pool}, and cannot be called with groups"
        hint = "make the aggregate a stream, CREATE STREAM s AS SELECT ..., and select the call from that"
        raise QueryError(f"{message}; {hint}", expression.span)
    return expression


def in_rows(argument: Expression, catalog: Catalog) -> Expression:
    """What rows are made of; a QueryError if a pool would have to compute it."""
    for _, function, pool in _calls(argument, catalog):
        message = f"{function.name} is placed on pool {pool}, and cannot give rows"
        hint = "make the call a column, CREATE STREAM t AS SELECT *, f(x) AS y FROM s, and explode y"
        raise QueryError(f"{message}; {hint}", argument.span)
    return argument


def outside_joins(condition: Expression, catalog: Catalog) -> Expression:
    """A condition of ON that decides whether a tuple has a match; a QueryError if a pool would have to."""
    for _, function, pool in _calls(condition, catalog):
        message = f"{function.name} is placed on pool {pool}, and cannot decide whether there is a match"
        raise QueryError(f"{message}; call it in WHERE, or in a stream that is joined", condition.span)
    return condition


def with_values(
    node: Node, expressions: Sequence[Expression], catalog: Catalog
) -> tuple[Node, Callable[[Expression], Expression]]:
    """The node with what placed functions return as columns; how expressions read them."""
    layers: list[dict[str, exp.Expr]] = []

    def rewritten(expression: Expression) -> Expression:
        for names in layers:
            expression = expression.replace(lambda tree, names=names: names.get(_key(tree)))  # type: ignore[misc]
        return expression

    known = list(_values_below(node))
    layers.append({_key(value.expression.tree): column_tree(value.name) for value in known})
    while calls := _innermost(map(rewritten, expressions), catalog):
        values = []
        for number, (call, function, pool, span) in enumerate(calls, start=len(known)):
            values.append(NamedExpression(f"{function.name}#{number}", Expression(call, span, pool)))
        known += values
        node = Values(node, tuple(values))
        layers.append({_key(value.expression.tree): column_tree(value.name) for value in values})
    return node, rewritten


def placed_value(value: NamedExpression, catalog: Catalog) -> PlacedPredicate:
    """A call whose result becomes a column."""
    [(tree, function, pool)] = _calls(value.expression, catalog)
    arguments = tuple(Expression(argument.copy(), value.expression.span) for argument in tree.expressions)
    return PlacedPredicate(value.expression.text, function.name, arguments, ByValue(value.name), pool)


def placed_predicate(predicate: Expression, catalog: Catalog) -> PlacedPredicate:
    """A conjunct with a pool, taken apart: the call, its arguments, and the effect of its result."""
    [call] = _calls(predicate, catalog)
    tree, function, pool = call
    arguments = tuple(Expression(argument.copy(), predicate.span) for argument in tree.expressions)
    verdict = _verdict(predicate, call)
    assert verdict is not None, f"{predicate} is read as a value"
    return PlacedPredicate(predicate.text, function.name, arguments, verdict, pool)


def _values_below(node: Node) -> Iterator[NamedExpression]:
    """What placed functions have returned already."""
    for below in node.inputs:
        yield from _values_below(below)
    if isinstance(node, Values):
        yield from node.calls


def _innermost(
    expressions: Iterable[Expression], catalog: Catalog
) -> list[tuple[exp.Anonymous, FunctionDefinition, str, Span | None]]:
    """Calls whose arguments call no placed function, each once."""
    found = {}
    for expression in expressions:
        for tree, function, pool in _calls(expression, catalog):
            if tree.find_ancestor(exp.Lambda):
                message = f"{function.name} is placed on pool {pool}, and cannot be called for each element"
                raise QueryError(f"{message}; call it with the whole array", expression.span)
            arguments = (Expression(argument) for argument in tree.expressions)
            if not any(True for argument in arguments for _ in _calls(argument, catalog)):
                found[_key(tree)] = tree, function, pool, expression.span
    return list(found.values())


def _key(tree: exp.Expr) -> str:
    return tree_key(tree) if isinstance(tree, exp.Anonymous) else ""


def _verdict(predicate: Expression, call: Call) -> ByTruth | ByComparison | None:
    """The effect of a call's result; None if the condition is neither the call nor a comparison with it."""
    tree, function, _ = call
    return _by_truth(predicate, tree) if function.is_boolean else _by_comparison(predicate, tree)


def _calls(expression: Expression, catalog: Catalog) -> Iterator[Call]:
    for tree in expression.tree.find_all(exp.Anonymous, bfs=False):
        # after a dot it is a field
        if not isinstance(tree.parent, exp.Dot) and (found := catalog.placed(tree.name)):
            yield tree, *found


def _by_truth(predicate: Expression, call: exp.Anonymous) -> ByTruth:
    def given(truth: exp.Expr) -> Expression:
        tree = replace_nodes(predicate.tree, lambda node: truth if node == call else None)
        return Expression(tree, predicate.span)

    return ByTruth(*map(given, _TRUTHS))


def _by_comparison(predicate: Expression, call: exp.Anonymous) -> ByComparison | None:
    comparison = predicate.tree.unnest()
    if isinstance(comparison, exp.Binary) and type(comparison) in _SYMBOLS:
        symbol, mirrored = _SYMBOLS[type(comparison)]
        if comparison.left is call:
            return ByComparison(symbol, Expression(comparison.right.copy(), predicate.span))
        if comparison.right is call:
            return ByComparison(mirrored, Expression(comparison.left.copy(), predicate.span))
    return None
