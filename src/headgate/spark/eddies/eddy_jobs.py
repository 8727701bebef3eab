"""Eddies prepared for Spark, and their jobs: calls of placed functions on some tuples, and probes of windows.

The last tuple of a combination finds all others: a probe returns the tuples of a window that arrived before
the probing tuple and are inside the window when it arrives. So the part of a window in a result depends on no
other window, and probes commute.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, NumericType, StructField, StructType

from headgate.errors import QueryError
from headgate.model.expression import Expression
from headgate.model.joins import aliases_of
from headgate.model.network import FunctionDefinition
from headgate.model.operator import ByTruth, ByValue, Eddy, JoinEddy
from headgate.routing.policies import choice_bounds
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.eddies.queue import JobInput
from headgate.spark.eddies.task import DONE, NEXT, NUMBER, pickled, settle
from headgate.spark.eddies.visit_rules import VisitRules, probe_parents, visit_rules
from headgate.spark.eddies.worker import Assignment, Step
from headgate.spark.manifest import BlockRef
from headgate.spark.operators.check import checked, expression
from headgate.spark.operators.window_join import BROADCAST_ROWS
from headgate.spark.sql import SIDE, TS

Weights = Mapping[tuple[int, int], Mapping[str, float]]
"""Weights of the eligible steps, by side and history."""

_FINISHED = "finished"
_BOUNDS = "$bounds"
_CHANCE = "$chance"
_PARTNER_TS = "$partner_ts"


@dataclass(frozen=True)
class EddyLayout:
    """An eddy prepared for jobs."""

    eddy: Eddy
    schema: StructType
    """Schema of the output: that of the input, and what functions return by value."""
    columns: tuple[Column, ...]
    """The columns that predicates read."""
    inputs: StructType
    steps: tuple[Step, ...]
    rules: VisitRules
    windows: tuple[StructType, ...]
    """For a join, the schema of every window."""

    @property
    def stored(self) -> StructType:
        """Schema of a tuple in a block of the eddy."""
        columns = StructType(list(self.schema.fields))
        return columns.add(NUMBER, LongType()).add(DONE, LongType()).add(NEXT, IntegerType())


def lay_out(
    eddy: Eddy,
    declared: Mapping[str, FunctionDefinition],
    tuples: DataFrame,
    functions: Mapping[str, Callable[..., Any]],
    windows: tuple[StructType, ...] = (),
) -> EddyLayout:
    """Check and number what the predicates read; ``tuples`` is any DataFrame with the eddy's input schema."""
    columns: list[Column] = []
    steps = []

    def read(bound: Expression) -> int:
        column = expression(bound).alias(f"$in{len(columns)}")
        checked(lambda: tuples.select(column), bound)
        columns.append(column)
        return len(columns) - 1

    for predicate in eddy.predicates:
        arguments = tuple(read(argument) for argument in predicate.arguments)
        verdict, value = predicate.verdict, ""
        tests: tuple[int, ...] = ()
        if isinstance(verdict, ByValue):
            comparison, value = "", verdict.column
        elif isinstance(verdict, ByTruth):
            comparison = ""
            tests = tuple(read(truth) for truth in (verdict.if_true, verdict.if_false, verdict.if_null))
        else:
            comparison, tests = verdict.comparison, (read(verdict.other),)
            returned = F.lit(None).cast(declared[predicate.function].returns)
            _check_comparison(predicate.function, returned, verdict.other, tuples)
        function = pickled(functions[predicate.function.lower()])
        in_processes = declared[predicate.function].in_processes
        steps.append(Step(predicate.function, function, arguments, comparison, tests, value, in_processes))
    inputs, output = tuples.select(*columns).schema, with_returned(eddy, declared, tuples).schema
    return EddyLayout(eddy, output, tuple(columns), inputs, tuple(steps), visit_rules(eddy), windows)


def with_returned(eddy: Eddy, declared: Mapping[str, FunctionDefinition], tuples: DataFrame) -> DataFrame:
    """The tuples with columns for what functions return by value, not known yet."""
    for predicate in eddy.predicates:
        if isinstance(predicate.verdict, ByValue):
            returns = declared[predicate.function].returns
            tuples = tuples.withColumn(predicate.verdict.column, F.lit(None).cast(returns))
    return tuples


def _check_comparison(function: str, returned: Column, other: Expression, tuples: DataFrame) -> None:
    """Reject a comparison on which Python and Spark disagree."""
    left, right = (field.dataType for field in tuples.select(returned, expression(other)).schema.fields)
    if left != right and not (isinstance(left, NumericType) and isinstance(right, NumericType)):
        raise QueryError(
            f"{function} returns {left.simpleString()} and is compared with "
            f"{right.simpleString()}; write CAST(... AS {left.simpleString()})",
            other.span,
        )


def tick_constant(value: int) -> Column:
    """A number that differs from tick to tick without causing Spark to compile the plan again."""
    return F.expr(sql.Bound(value).at(sql.name(TS)))


@dataclass(frozen=True)
class JobOutput:
    """The blocks of finished tuples, tuples for functions and tuples for probes, all in one path."""

    finished: BlockRef | None
    unfinished: tuple[BlockRef, ...]

    @property
    def rows(self) -> int:
        return sum(block.rows for block in (*self.unfinished, self.finished) if block is not None)


def _is_in_lane(rules: VisitRules, step: int | None) -> Column:
    """Whether a tuple goes to a probe next; if ``step`` is None, to functions."""
    if step is not None:
        return F.col(NEXT) == step
    return (F.col(DONE) != rules.full) & (F.coalesce(F.col(NEXT), F.lit(rules.probes)) >= rules.probes)


def _parts(rules: VisitRules) -> list[tuple[str, int | None]]:
    return [(_FINISHED, None), ("called", None), *((f"probe{step}", step) for step in range(rules.probes))]


def output_measures(rules: VisitRules) -> list[Column]:
    """Counts and timestamps of all parts of a job's output."""
    measures = []
    for part, step in _parts(rules):
        condition = F.col(DONE) == rules.full if part == _FINISHED else _is_in_lane(rules, step)
        measures += [
            F.count_if(condition).alias(f"{part}_rows"),
            F.min(F.when(condition, F.col(TS))).alias(f"{part}_min"),
            F.max(F.when(condition, F.col(TS))).alias(f"{part}_max"),
        ]
    return measures


def job_output(rules: VisitRules, measured: Mapping[str, Any], path: str, taken: JobInput) -> JobOutput:
    """The blocks that a job has written, from the values of ``output_measures``."""
    blocks = {}
    for part, step in _parts(rules):
        if rows := measured[f"{part}_rows"]:
            ends = measured[f"{part}_min"], measured[f"{part}_max"]
            size = round(rows * taken.bytes_per_tuple)
            blocks[part] = BlockRef(path, rows, size, *ends, taken.arrived_us, step=step)
    return JobOutput(blocks.pop(_FINISHED, None), tuple(blocks.values()))


def call_functions(
    store: BlockStore, layout: EddyLayout, assignment: Assignment, taken: JobInput, path: str, tasks: int
) -> JobOutput:
    """Call functions on tuples, in tasks among which they are divided by their numbers."""
    # files may contain tuples of other jobs, and finished ones
    first, end = map(tick_constant, taken.numbers)
    own = F.col(DONE).isNull() & (F.col(NUMBER) >= first) & (F.col(NUMBER) < end)
    tuples = store.read(taken.files, layout.stored).where(own | _is_in_lane(layout.rules, None))
    if layout.rules.probes:
        tuples = tuples.withColumn(DONE, F.coalesce(F.col(DONE), first_history()))
    inputs = layout.inputs
    carried = [name for name in layout.stored.names if name not in (DONE, NEXT)]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return settle(batches, assignment, inputs, carried)

    divided = tuples.coalesce(1) if tasks == 1 else tuples.repartition(tasks, NUMBER)
    nullable = StructType([StructField(f.name, f.dataType, True) for f in layout.stored.fields])
    settled = divided.select("*", *layout.columns).mapInArrow(run, nullable)
    observation = Observation(f"job of {layout.eddy.name}")
    observed = settled.observe(observation, *output_measures(layout.rules))
    store.write_known(observed, path, inf)
    return job_output(layout.rules, observation.get, path, taken)


def finished_tuples(store: BlockStore, layout: EddyLayout, blocks: tuple[BlockRef, ...]) -> DataFrame:
    """The finished tuples of some blocks, with the schema of the eddy's output."""
    finished = store.read(blocks, layout.stored).where(F.col(DONE) == layout.rules.full)
    return finished.drop(DONE, NUMBER, NEXT, SIDE)


def first_history() -> Column:
    """The history of a new tuple of a join: it counts as having visited the window of its own side."""
    return F.expr(f"shiftleft(1L, `{SIDE}`)")


def with_next_operator(tuples: DataFrame, rules: VisitRules, weights: Weights) -> DataFrame:
    """The tuples of a join with the step that each visits next; null if it is finished.

    The bounds of all choices are one array, which Spark passes to its generated code by reference: other
    weights do not cause the plan to be compiled again.
    """
    steps = len(rules.names)
    chance = F.expr(f"pmod(xxhash64(`{NUMBER}`, `{DONE}`), 4294967296L) / 4294967296D")
    row = f"((`{SIDE}` * {1 << steps} + `{DONE}`) * {steps})"
    passed = " + ".join(
        f"IF(`{_BOUNDS}`[CAST({row} + {step} AS INT)] <= `{_CHANCE}`, 1, 0)" for step in range(steps)
    )
    bounds = F.expr(f"from_json('{_bounds(rules, weights)}', 'array<double>')")
    routed = (
        tuples.withColumn(_BOUNDS, bounds)
        .withColumn(_CHANCE, chance)
        .withColumn(NEXT, F.expr(f"IF(`{DONE}` = {rules.full}L, NULL, {passed})").cast("int"))
    )
    return routed.drop(_BOUNDS, _CHANCE)


def _bounds(rules: VisitRules, weights: Weights) -> str:
    bounds = [1.0] * (len(rules.plans) * len(rules.names) << len(rules.names))
    for (side, done), chosen in weights.items():
        ends = choice_bounds({name: chosen[name] for name in rules.names if name in chosen})
        end, first = 0.0, ((side << len(rules.names)) + done) * len(rules.names)
        for step, name in enumerate(rules.names):
            # the part of a step that cannot be next is empty
            end = ends[name][1] if chosen.get(name) else end
            bounds[first + step] = round(end, 6)
    return json.dumps(bounds)


def run_probe(
    store: BlockStore,
    layout: EddyLayout,
    step: int,
    taken: JobInput,
    window: Sequence[BlockRef],
    weights: Weights,
    path: str,
) -> JobOutput:
    """Run the probe of a step; ``window`` are the blocks with possible partners."""
    rules = layout.rules
    observation = Observation(f"probe of {layout.eddy.name}")
    tuples = store.read(taken.files, layout.stored).where(_is_in_lane(rules, step))
    partners = store.read(window, layout.windows[step])
    found = with_next_operator(_joined(layout, step, taken, tuples, partners), rules, weights)
    observed = found.select(*layout.stored.names).observe(observation, *output_measures(rules))
    store.write_known(observed.coalesce(store.parallelism), path, inf)
    return job_output(rules, observation.get, path, taken)


def _joined(
    layout: EddyLayout, step: int, taken: JobInput, tuples: DataFrame, window: DataFrame
) -> DataFrame:
    """The tuples with their partners in the window, not yet routed."""
    eddy = layout.eddy
    assert isinstance(eddy, JoinEddy)
    names = [name for name in window.columns if not sql.is_system(name)]
    partners = window.select(F.col(TS).alias(_PARTNER_TS), *(F.col(f"`{name}`") for name in names))
    probing = tuples.drop(NEXT, *names)
    hint = "broadcast" if taken.rows <= BROADCAST_ROWS else "shuffle_hash"
    # sides by the columns that they probe with, so that Spark can join by equal keys
    by_parent: dict[int | None, list[int]] = {}
    for side in range(len(eddy.probes)):
        if side != step:
            by_parent.setdefault(probe_parents(eddy, side)[step], []).append(side)
    joined = [
        partners.join(probing.where(F.col(SIDE).isin(sides)).hint(hint), _matches(eddy, step, parent))
        for parent, sides in by_parent.items()
    ]
    done = F.col(DONE).bitwiseOR(F.lit(1 << step))
    return reduce(DataFrame.unionByName, joined).withColumn(DONE, done).drop(_PARTNER_TS)


def _matches(eddy: JoinEddy, step: int, parent: int | None) -> Column:
    """Whether a tuple of the window arrived before the probing one, is still inside, and matches it."""
    probe, ts, partner_ts = eddy.probes[step], F.col(TS), F.col(_PARTNER_TS)
    # tuples with equal timestamps arrive in the order of their streams
    later = [side for side, other in enumerate(eddy.probes) if other.order > probe.order]
    conditions = [(partner_ts < ts) | ((partner_ts == ts) & F.col(SIDE).isin(later))]
    end = ts
    if probe.window.slide_us is not None:
        end = ts - F.pmod(ts, F.lit(probe.window.slide_us))
        conditions.append(partner_ts <= end)
    conditions.append(end - partner_ts <= F.lit(probe.window.range_us))
    aliases = [probe.alias for probe in eddy.probes]
    for predicate in eddy.matches:
        read = {aliases.index(alias) for alias in aliases_of(predicate, aliases)}
        if step not in read:
            continue
        holds, others = expression(predicate), read - {step}
        if others != {parent}:
            # it also reads other windows; unless they are visited, their probes evaluate it later
            bits = sum(1 << other for other in others)
            holds = (F.col(DONE).bitwiseAND(F.lit(bits)) != bits) | holds
        conditions.append(holds)
    return reduce(operator.and_, conditions)
