"""The task of a job that calls functions: Arrow in, the eddy worker, Arrow out."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import StructType

from headgate.errors import UserCodeError
from headgate.runtime.usercode import user_code_error
from headgate.spark.application.workers import silence_daemon
from headgate.spark.eddies.function_process import FunctionProcesses
from headgate.spark.eddies.slot_server import SlotClient
from headgate.spark.eddies.worker import DROPPED, Assignment, EddyWorker, Holds, Step
from headgate.spark.sql import SIDE

NUMBER = "$n"
"""Number of a tuple, in the order in which tuples entered the eddy."""

DONE = "$done"
"""History of a tuple: bitmap of visited steps; null before its first job."""

NEXT = "$next"
"""The step that a tuple has been routed to; null if it is still to be routed."""

Batches = Iterator[pa.RecordBatch]

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Python workers are reused, and what a function has loaded stays with it
_FUNCTIONS: dict[bytes, Callable[..., Any]] = {}
# they end with the Python worker
_PROCESSES = FunctionProcesses()

# in every Python worker that imports this module
silence_daemon()


def pickle_by_value(module: ModuleType) -> None:
    """Send what a module defines along with its functions, since tasks cannot import it."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def pickled(function: Callable[..., Any]) -> bytes:
    pickle: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    return pickle


def settle(batches: Batches, assignment: Assignment, inputs: StructType, carried: Sequence[str]) -> Batches:
    """Settle the tuples of a partition; predicates read ``inputs``, ``carried`` are other columns.

    Among these are the columns that functions return, NULL before the call.
    """
    received = list(batches)
    if not sum(batch.num_rows for batch in received):
        return
    table = pa.Table.from_batches(received)
    done = [bits or 0 for bits in table.column(DONE).to_pylist()]
    rows = ArrowTableToRowsConversion.convert(table.select(inputs.names), inputs)
    returned = {s.value: table.column(s.value).to_pylist() for s in assignment.steps if s.value}
    types = {name: table.schema.field(name).type for name in returned}
    holds = [
        _returns(step, rows, returned[step.value], types[step.value]) if step.value else _holds(step, rows)
        for step in assignment.steps
    ]
    sides = table.column(SIDE).to_pylist() if assignment.rules.probes else ()
    targets, numbers = table.column(NEXT).to_pylist(), table.column(NUMBER).to_pylist()
    slots = SlotClient(assignment.access, assignment.statistics, _end_process)
    try:
        EddyWorker(assignment, holds, done, numbers, slots, sides, targets).run()
    finally:
        slots.close()
    left = table.select(list(carried))
    for name, values in returned.items():
        column = pa.array(values, types[name])
        left = left.set_column(left.schema.get_field_index(name), left.schema.field(name), column)
    left = left.append_column(DONE, pa.array(done, pa.int64()))
    left = left.append_column(NEXT, pa.array(targets, pa.int32()))
    left = left.filter(pa.array([bits != DROPPED for bits in done]))
    yield from left.to_batches()


def _end_process() -> None:
    """End all calls: the driver is gone, or takes this worker for gone, and others may have its slots."""
    os._exit(1)


def _call(step: Step, rows: Sequence[Sequence[Any]]) -> Callable[[int], Any]:
    """What the function of a step returns for a row."""
    if step.in_processes:
        return lambda row: _PROCESSES.call(
            step.function_name, step.function, [rows[row][place] for place in step.arguments]
        )
    if step.function not in _FUNCTIONS:
        _FUNCTIONS[step.function] = cloudpickle.loads(step.function)
    function = _FUNCTIONS[step.function]

    def value_of(row: int) -> Any:
        values = rows[row]
        try:
            return function(*[values[place] for place in step.arguments])
        except BaseException as error:
            raise user_code_error(f"placed function {step.function_name}", error) from error

    return value_of


def _wrong(step: Step, value: Any, why: str) -> UserCodeError:
    shown = f"{value!r} ({type(value).__name__})"
    return UserCodeError(f"placed function {step.function_name} returned {shown}, which {why}")


def _returns(step: Step, rows: Sequence[Sequence[Any]], returned: list[Any], kind: pa.DataType) -> Holds:
    """Puts results into a column; all tuples pass."""
    value_of = _call(step, rows)

    def holds(row: int) -> bool:
        value = value_of(row)
        try:
            returned[row] = pa.scalar(value, kind).as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _wrong(step, value, f"is no {kind}") from error
        return True

    return holds


def _holds(step: Step, rows: Sequence[Sequence[Any]]) -> Holds:
    value_of = _call(step, rows)

    def by_truth(row: int) -> bool:
        value = value_of(row)
        # numpy has its own type of truth values
        if not (value is None or isinstance(value, int) or type(value).__name__ in ("bool", "bool_")):
            raise _wrong(step, value, "is neither true nor false")
        place = 2 if value is None else 0 if value else 1
        return bool(rows[row][step.tests[place]])

    def by_comparison(row: int) -> bool:
        value, other = value_of(row), rows[row][step.tests[0]]
        try:
            return value is not None and other is not None and bool(compare(value, other))
        except Exception as error:
            raise _wrong(step, value, f"cannot be compared with {other!r}") from error

    if not step.comparison:
        return by_truth
    compare = _COMPARISONS[step.comparison]
    return by_comparison
