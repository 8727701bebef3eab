"""Columns of results that tell their timestamp, but for a constant time, such as ``window_end``.

Conditions between them bound a join of results as those between timestamps do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headgate.cql.syntax import Emission, Select
from headgate.model.expression import Expression
from headgate.model.sql_tree import column_tree
from headgate.model.window import HopWindow, SessionWindow, TimeWindow
from headgate.planning.from_clause import Scope
from headgate.planning.from_items import END, START, BoundColumn, WindowBound
from headgate.planning.logical import Aggregate, Project, Top, nodes

_NOW = TimeWindow(0)


def instants_of(project: Project, select: Select, scope: Scope) -> dict[str, int]:
    """How much later than the timestamp of its result a column is, for all columns of which that is known."""
    if len(scope.streams) > 1:
        return {}
    known = dict(_known(project, select, scope))
    return {item.name: known[item.expression] for item in project.items if item.expression in known}


def _known(project: Project, select: Select, scope: Scope) -> Iterator[tuple[Expression, int]]:
    [stream] = scope.streams
    window = stream.window
    if isinstance(window, (HopWindow, SessionWindow)) and select.summarizes_windows:
        bounds = {END: 0, START: -window.range_us} if isinstance(window, HopWindow) else {END: 0}
        for name, after_us in bounds.items():
            yield Expression(WindowBound(name, window, stream.timestamp_type, False).tree), after_us
    of_tuples = {
        Expression(BoundColumn(stream, column).tree): later_us
        for column in stream.schema.columns
        if (later_us := scope.later_us(stream, column)) is not None
    }
    if select.is_aggregate and window == _NOW:
        keys = (key for node in nodes(project) if isinstance(node, Aggregate) for key in node.keys)
        yield from (
            (Expression(column_tree(key.name)), of_tuples[key.expression])
            for key in keys
            if key.expression in of_tuples
        )
    is_deleted = select.emission is not None and select.emission.kind is Emission.DELETED
    is_of_instants = isinstance(project.input, Top) and not any(
        isinstance(node, Aggregate) for node in nodes(project)
    )
    if is_of_instants or not (select.summarizes_windows or is_deleted):
        yield from of_tuples.items()


def in_common(found: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What all branches of a UNION ALL have in common."""
    first, *others = found
    return {name: us for name, us in first.items() if all(one.get(name) == us for one in others)}
