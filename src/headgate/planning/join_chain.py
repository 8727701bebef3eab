"""Joins of several streams of which some keep tuples without a match: two by two, in the order of FROM.

In windows that tumble alike, the results of one join lie in the window of its tuples, and are joined with the
next stream as a stream of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlglot import exp

from headgate.cql.syntax import JoinKind
from headgate.model.expression import Expression, column_of
from headgate.model.sql_tree import column_tree
from headgate.planning.from_clause import Scope
from headgate.planning.from_items import Source
from headgate.planning.logical import Filter, Node, WindowJoin
from headgate.planning.source_checks import STREAM_JOINS
from headgate.planning.source_columns import Joins

_KEEPS_RIGHT = (JoinKind.RIGHT, JoinKind.FULL)


def is_chain(scope: Scope) -> bool:
    """Whether streams are joined two by two."""
    return len(scope.streams) > 2 and any(s.item.join is not JoinKind.INNER for s in scope.streams)


def joined_in_turn(
    scope: Scope, predicates: Sequence[Expression], read: Iterable[Expression], derived: Joins
) -> tuple[Node, dict[str, exp.Expr]]:
    """The join of all streams, and its columns in place of those of the streams, where they differ.

    ``predicates`` are those of WHERE, of which some hold before the last join; ``read`` is what else is
    evaluated of the results.
    """
    streams, scans = scope.streams, scope.scans()
    conditions = [scope.on_of_stream(stream) for stream in streams]
    taken = {stream.alias.lower() for stream in streams}
    alias = next(one for one in map("joined{}".format, ("", *range(len(taken)))) if one not in taken)
    renamed: dict[str, exp.Expr] = {}
    node: Node = scans[0]
    for place in range(1, len(scans)):
        on = tuple(one.over(renamed) for one in conditions[place])
        node = WindowJoin((node, scans[place]), on, operator=STREAM_JOINS[streams[place].item.join])
        if place == len(scans) - 1:
            break
        below = _columns(streams[: place + 1])
        soon = [one for one in predicates if _holds_before(one, below, streams[place + 1 :])]
        if soon:
            node = Filter(node, tuple(one.over(renamed) for one in soon))
        later = (one for of_join in conditions[place + 1 :] for one in of_join)
        needed = dict.fromkeys(
            column for one in (*predicates, *later, *read) for column in one.columns if column in below
        )
        current = {column: renamed.get(column, column_tree(column)) for column in needed}
        node, again = derived.joined(node, map(Expression, current.values()), streams[0].window, alias)
        renamed = {column: again[tree.name] for column, tree in current.items()}
    return node, renamed


def _columns(streams: Iterable[Source]) -> frozenset[str]:
    return frozenset(column_of(s.alias, name) for s in streams if not s.is_hidden for name in s.schema.names)


def _holds_before(predicate: Expression, below: Collection[str], others: Iterable[Source]) -> bool:
    """Whether a condition of WHERE over columns ``below`` holds before joins with others as well."""
    is_own = bool(predicate.columns) and set(predicate.columns) <= set(below)
    return is_own and not any(other.item.join in _KEEPS_RIGHT for other in others)
