"""ISTREAM, DSTREAM and RSTREAM: which of them a SELECT can have."""

from __future__ import annotations

from headgate.cql.syntax import Emission, EmissionClause, Select
from headgate.errors import QueryError
from headgate.model.window import HopWindow, TimeWindow, UnboundedWindow, is_emitted_whole
from headgate.planning.from_clause import Scope


def check_emission(select: Select, emission: EmissionClause, scope: Scope) -> None:
    """Reject what has no meaning, or would show the same again and again."""
    problem = {
        Emission.INSERTED: _not_inserted,
        Emission.DELETED: _not_deleted,
        Emission.WHOLE: _not_whole,
    }[emission.kind](select, scope)
    if problem:
        raise QueryError(problem, emission.span)


def _not_inserted(select: Select, scope: Scope) -> str:
    if select.summarizes_windows and is_emitted_whole(scope.streams[0].window):
        return "the window is shown as a whole at each step, not by what comes into it; leave ISTREAM out"
    return ""


def _not_deleted(select: Select, scope: Scope) -> str:
    window, name = scope.streams[0].window, scope.streams[0].item.source.text
    if select.is_aggregate or select.is_distinct:
        return "DSTREAM shows tuples, and groups do not leave a window; select columns"
    if len(scope.streams) > 1:
        return "DSTREAM takes one stream; make the join a stream, CREATE STREAM pairs AS SELECT ..."
    is_tumbling = isinstance(window, HopWindow) and window.is_tumbling
    is_plain = isinstance(window, TimeWindow) and window.slide_us is None and window.range_us > 0
    if not is_tumbling and not is_plain:
        return f"DSTREAM needs a window that tuples leave by time; write {name} [RANGE 10 SECONDS]"
    return ""


def _not_whole(select: Select, scope: Scope) -> str:
    window, name = scope.streams[0].window, scope.streams[0].item.source.text
    if select.is_aggregate or select.is_distinct:
        return ""
    if len(scope.streams) > 1:
        return "RSTREAM takes one stream; make the join a stream, CREATE STREAM pairs AS SELECT ..."
    if isinstance(window, UnboundedWindow):
        return f"RSTREAM would show all tuples again and again; write {name} [RANGE 1 HOUR]"
    if not isinstance(window, TimeWindow):
        return f"RSTREAM needs a window of time; write {name} [RANGE 10 SECONDS] and EVERY 10 SECONDS"
    return ""
