"""The SQL that runs for a query in a steady tick, to be read by people.

Views are named after streams: all blocks of the log that a query reaches. ``:old`` and ``:new`` are an
operator's progress before and after the tick; they are bound as data, not as literals.
"""

from __future__ import annotations

from headgate.model.operator import Eddy, OperatorInput
from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow
from headgate.spark import sql
from headgate.spark.columns import TS, is_system
from headgate.spark.operators import aggregate
from headgate.spark.operators.inputs import log_columns
from headgate.spark.operators.row_window import with_expiry
from headgate.spark.operators.window_join import JoinInput, window_join
from headgate.spark.operators.windowed import (
    AggregateOperator,
    RunningAggregateOperator,
    SlidingAggregateOperator,
    WindowJoinOperator,
    WindowUpdateOperator,
)
from headgate.spark.prepare import Prepared

_OLD, _NEW = ":old", ":new"


def query_texts(prepared: Prepared) -> dict[str, str]:
    """The text of every query, by name."""
    texts = {}
    for query in prepared.network.queries.values():
        parts = []
        for name in query.outputs:
            columns = [c for c in prepared.operators[name].output.names if c != TS]
            parts.append(sql.select(sql.names(columns), _operator_text(prepared, name)))
        texts[query.name] = sql.union(parts) or ""
    return texts


def _operator_text(prepared: Prepared, name: str) -> str:
    operator = prepared.operators[name]
    inputs = [_input_text(prepared, name, number) for number in range(len(operator.settings.inputs))]
    if isinstance(operator.settings, Eddy):
        return sql.name(f"through {name}")
    if isinstance(operator, WindowJoinOperator):
        sides = []
        for text, schema in zip(inputs, operator.inputs, strict=True):
            user = tuple(column for column in schema.names if not is_system(column))
            sides.append(JoinInput(text, user, 0.0, 0.0))
        return window_join(operator.settings, sides, sql.Bound(_OLD), in_one_task=True)
    if isinstance(operator, WindowUpdateOperator):
        return operator.arrivals(inputs) or ""
    if isinstance(operator, RunningAggregateOperator):
        return aggregate.running(operator.settings, inputs[0], sql.name(f"groups of {name}"))
    if isinstance(operator, SlidingAggregateOperator):
        first, last = sql.Bound(":first_boundary"), sql.Bound(":last_boundary")
        return aggregate.sliding(operator.settings, inputs[0], first, last, operator.types)
    if isinstance(operator, AggregateOperator):
        return aggregate.per_tuple(operator.settings, inputs[0], sql.Bound(_OLD))
    return operator.applied(inputs[0])


def _input_text(prepared: Prepared, name: str, number: int) -> str:
    operator = prepared.operators[name]
    selects = prepared.through(name, number)
    if selects is None:
        source = operator.settings.inputs[number]
        if isinstance(source, OperatorInput):
            return _operator_text(prepared, source.operator)
    stream, own = prepared.stream_input(name, number), sql.name(TS)
    window = operator.windows[number]
    where = []
    if isinstance(window, TimeWindow):
        where = [f"{own} >= {_OLD} - {window.reach_us}L", f"{own} < {_NEW}"]
    elif isinstance(window, UnboundedWindow):
        where = [f"{own} >= {_OLD}", f"{own} < {_NEW}"]
    elif isinstance(window, RowWindow):
        where = [f"{own} < {_NEW}"]
    is_numbered = prepared.logs[stream.stream].is_numbered
    view = sql.name(stream.stream)
    text = sql.select(log_columns(stream, prepared.window(name, number), is_numbered), view, where)
    if isinstance(window, RowWindow):
        pushing = log_columns(stream, window, is_numbered)
        text = with_expiry(text, window, sql.select(pushing, view))
    for select in selects or ():
        text = sql.select(["*"], text, [sql.conjunction(prepared.asking.order(select))])
    return text
