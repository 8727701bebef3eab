"""A task of an eddy's job: Arrow in, the whirl, Arrow out, and a report in a row of its own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import StructType

from headgate.errors import UserCodeError
from headgate.runtime.usercode import user_code_error
from headgate.spark.columns import SIDE
from headgate.spark.eddies.assignment import DROPPED, Assignment, Step
from headgate.spark.eddies.whirl import Holds, Whirl
from headgate.spark.worker import end_quietly

NUMBER = "$n"
"""Number of a tuple in the queue of its eddy."""

DONE = "$done"
"""Bitmap of the predicates that a tuple has passed; null before its first job."""

NEXT = "$next"
"""The step that a tuple is on its way to; null: whoever takes it decides."""

TOLD = "$told"
"""A task's report, in a row without anything else."""

Batches = Iterator[pa.RecordBatch]

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# workers are used again and again, and what a function has loaded stays with it
_FUNCTIONS: dict[bytes, Callable[..., Any]] = {}

# in whatever worker this is imported
end_quietly()


class EddyTask:
    """What Spark runs in a Python worker; ``inputs`` are the columns that predicates read."""

    def __init__(self, assignment: Assignment, inputs: StructType, kept: Sequence[str]) -> None:
        self._assignment = assignment
        self._inputs = inputs
        self._kept = tuple(kept)

    def __call__(self, batches: Batches) -> Batches:
        """Settle the tuples of a partition."""
        came = list(batches)
        if not sum(batch.num_rows for batch in came):
            # a partition without tuples has no schema to answer in
            return
        table = pa.Table.from_batches(came)
        done = [bits or 0 for bits in table.column(DONE).to_pylist()]
        names = [field.name for field in self._inputs.fields]
        rows = ArrowTableToRowsConversion.convert(table.select(names), self._inputs)
        holds = [_holds(step, rows) for step in self._assignment.steps]
        sides = table.column(SIDE).to_pylist() if self._assignment.ways.probes else None
        aims = table.column(NEXT).to_pylist()
        told = Whirl(self._assignment, holds, done, table.column(NUMBER).to_pylist(), sides, aims).run()
        left = table.select(self._kept).append_column(DONE, pa.array(done, pa.int64()))
        left = left.append_column(NEXT, pa.array(aims, pa.int32()))
        left = left.filter(pa.array([bits != DROPPED for bits in done]))
        left = left.append_column(TOLD, pa.nulls(left.num_rows, pa.string()))
        yield from left.to_batches()
        nothing = [pa.nulls(1, field.type) for field in left.schema if field.name != TOLD]
        report = pa.array([told.to_text()], pa.string())
        yield pa.RecordBatch.from_arrays([*nothing, report], schema=left.schema)


def _holds(step: Step, rows: Sequence[Sequence[Any]]) -> Holds:
    if step.function not in _FUNCTIONS:
        _FUNCTIONS[step.function] = cloudpickle.loads(step.function)
    function = _FUNCTIONS[step.function]

    what = f"placed function {step.function_name}"

    def value_of(row: int) -> Any:
        values = rows[row]
        try:
            return function(*[values[place] for place in step.arguments])
        except BaseException as error:
            raise user_code_error(what, error) from error

    def by_truth(row: int) -> bool:
        value = value_of(row)
        if not _is_truth(value):
            returned = f"{value!r} ({type(value).__name__})"
            raise UserCodeError(f"{what} returned {returned}, which is neither true nor false")
        place = 2 if value is None else 0 if value else 1
        return bool(rows[row][step.tests[place]])

    def by_comparison(row: int) -> bool:
        value, other = value_of(row), rows[row][step.tests[0]]
        try:
            return value is not None and other is not None and bool(compare(value, other))
        except Exception as error:
            raise UserCodeError(
                f"{what} returned {value!r} ({type(value).__name__}), which cannot be compared with {other!r}"
            ) from error

    if not step.comparison:
        return by_truth
    compare = _COMPARISONS[step.comparison]
    return by_comparison


def _is_truth(value: Any) -> bool:
    # numpy has truth values of its own
    return value is None or isinstance(value, int) or type(value).__name__ in ("bool", "bool_")
