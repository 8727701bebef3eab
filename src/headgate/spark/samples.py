"""Predicates: which may be reordered, what each costs, and how often tuples of two windows match.

``a <> 0 AND 1 / a > 2`` works only if it is evaluated in this order, so only predicates that cannot fail,
whatever the tuple, are reordered. Costs are measured on samples of tuples: the processor time of Spark jobs,
as their tasks report it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.model.expression import Expression
from headgate.model.joins import WindowJoin, aliases_of
from headgate.model.operator import Select
from headgate.model.profile import Profile, Profiles
from headgate.spark import sql
from headgate.statistics.store import Link, PairCounts

_PATIENCE_MS = 1000
# enough for a selectivity to some hundredths, and for the cost of what is worth ordering
_TRIAL_ROWS = 2_000
_LEAST_TRIAL_ROWS = 500
# the first round compiles
_TRIAL_ROUNDS = 3
# what is lost in the noise still costs something
_LEAST_SECONDS = 1e-8
# of each side: enough for selectivities down to some 1e-6, and few enough to compare all pairs
_JOIN_ROWS = 1_500
_SEED = 1

# names of Catalyst's classes; any other expression may fail
_HARMLESS = re.compile(
    r"""
      AttributeReference | Literal | GetStructField
    | And | Or | Not | EqualTo | EqualNullSafe | (?: Less | Greater ) Than (?: OrEqual )? | In | InSet
    | IsNull | IsNotNull | IsNaN | Coalesce | If | CaseWhen | Greatest | Least
    | Like | LikeAll | LikeAny | StartsWith | EndsWith | Contains | Length | OctetLength | Lower | Upper
    | Substring | StringTrim (?: Left | Right )? | StringInstr | Concat | Reverse
    | Md5 | Sha1 | Sha2 | Crc32 | XxHash64 | Murmur3Hash | Bitwise (?: And | Or | Xor )
    | ArrayAggregate | ArrayExists | ArrayForAll | ArrayContains | Size | LambdaFunction | NamedLambdaVariable
    | Year | Month | DayOfMonth | Hour | Minute | Second
    """,
    re.VERBOSE,
)

# predicates that call a function with such a name cost more than storing their output
_EXPENSIVE = ("sha", "md5", "regexp", "rlike", "aggregate", "transform", "filter", "from_json", "get_json")
# functions that cost no more than a comparison
_CHEAP = frozenset({"coalesce", "if"})


def is_expensive(select: Select) -> bool:
    """Whether evaluating a selection again costs more than storing its output."""
    return any(
        predicate.pool is not None or any(word in name for name in predicate.functions for word in _EXPENSIVE)
        for predicate in select.predicates
    )


def is_worth_ordering(select: Select) -> bool:
    """Whether reordering can save more than measuring costs: comparisons take a few nanoseconds each."""
    return len(select.predicates) > 1 and any(predicate.functions - _CHEAP for predicate in select.predicates)


def is_harmless(expression: Expression, tuples: DataFrame) -> bool:
    """Whether the expression can be evaluated for any tuple of these columns."""
    frame: Any = tuples.select(F.expr(expression.text).alias("value"))._jdf
    java: Any = tuples.sparkSession.sparkContext._jvm
    casts = java.org.apache.spark.sql.catalyst.expressions.Cast
    return _cannot_fail(frame.queryExecution().analyzed().projectList().apply(0).child(), casts)


def _cannot_fail(expression: Any, casts: Any) -> bool:
    kind = expression.getClass().getSimpleName()
    if kind == "Attempt":
        # whatever fails inside is its value
        return True
    works = _HARMLESS.fullmatch(kind) is not None
    if kind == "Cast":
        given, wanted = expression.child().dataType(), expression.dataType()
        works = wanted.typeName() in ("string", "binary") or casts.canUpCast(given, wanted)
    if not works:
        # constants are evaluated before the first tuple arrives
        return bool(expression.foldable())
    children = expression.children()
    return all(_cannot_fail(children.apply(place), casts) for place in range(children.size()))


class TaskTime:
    """Processor time of tasks, by the tag that their jobs were started under."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        scala_context: Any = spark.sparkContext._jsc.sc()
        self._tracker = scala_context.statusTracker()
        self._store = scala_context.statusStore()
        self._bus = scala_context.listenerBus()

    @contextmanager
    def under(self, tag: str) -> Iterator[None]:
        """Tag the jobs that this thread starts meanwhile."""
        self._context.addJobTag(tag)
        try:
            yield
        finally:
            self._context.removeJobTag(tag)

    def settle(self) -> None:
        """Wait, though not for long, until Spark has recorded what its tasks have reported."""
        with suppress(Py4JJavaError):
            self._bus.waitUntilEmpty(_PATIENCE_MS)

    def seconds(self, tag: str) -> float | None:
        """Processor seconds of all tasks under a tag; None while Spark has not recorded all of them."""
        milliseconds = 0
        for number in self._tracker.getJobIdsForTag(tag):
            job = self._store.job(number)
            if job.status().name() == "RUNNING":
                return None
            stages = job.stageIds()
            for place in range(stages.size()):
                # Spark forgets stages beyond a number, and first those that it skipped, which took no time
                with suppress(Py4JJavaError):
                    milliseconds += self._store.lastStageAttempt(stages.apply(place)).executorRunTime()
        return milliseconds / 1e3


@dataclass(frozen=True)
class Trial:
    """Predicates of an operator, to be evaluated one by one over a sample of the tuples that wait for it."""

    operator: str
    predicates: Sequence[Expression]
    tuples: DataFrame
    rows: float


def run_trials(trials: Sequence[Trial], times: TaskTime, tag: str) -> Mapping[str, Profiles]:
    """Profiles of predicates by operator and text; none where there are too few tuples."""
    large_enough = [trial for trial in trials if trial.rows >= _LEAST_TRIAL_ROWS]
    found = {trial.operator: _profiles(trial, times, f"{tag} {trial.operator}") for trial in large_enough}
    return {operator: profiles for operator, profiles in found.items() if profiles}


def _profiles(trial: Trial, times: TaskTime, tag: str) -> dict[str, Profile]:
    share = min(1.0, _TRIAL_ROWS / trial.rows)
    sample = _own_columns(trial.tuples).sample(share, _SEED).coalesce(1).persist()
    # the time of counting without a condition belongs to no predicate
    conditions = ["true", *(sql.conjunction([predicate]) for predicate in trial.predicates)]
    tags = [
        [f"{tag} {number} {place}" for number in range(_TRIAL_ROUNDS)] for place in range(len(conditions))
    ]
    counts = [0] * len(conditions)
    try:
        for number in range(_TRIAL_ROUNDS):
            for place, condition in enumerate(conditions):
                with times.under(tags[place][number]):
                    [row] = sample.agg(F.expr(f"count_if({condition})")).collect()
                counts[place] = int(row[0])
    finally:
        sample.unpersist()
    rows, *passed = counts
    if rows < _LEAST_TRIAL_ROWS:
        return {}
    times.settle()
    taken = [[seconds for one in rounds if (seconds := times.seconds(one)) is not None] for rounds in tags]
    if not all(taken):
        return {}
    base_s, *least_s = map(min, taken)
    return {
        predicate.text: Profile(max(_LEAST_SECONDS, (seconds - base_s) / rows), passing / rows, samples=rows)
        for predicate, passing, seconds in zip(trial.predicates, passed, least_s, strict=True)
    }


@dataclass(frozen=True)
class WindowContent:
    """The tuples in the window of one side of a join."""

    tuples: DataFrame
    rows: int


@dataclass(frozen=True)
class JoinSample:
    """A frame of one row: how many pairs were compared, and how many match."""

    link: Link
    counted: DataFrame


def join_samples(operator: WindowJoin, contents: Sequence[WindowContent | None]) -> list[JoinSample]:
    """A sample for every two sides that a predicate reads alone: the best order depends on every pair.

    Windows are stored behind all selections, so a sample of them costs a scan of few columns.
    """
    aliases = [side.alias for side in operator.sides]
    used = [aliases_of(predicate, aliases) for predicate in operator.predicates]
    samples = []
    for one, other in combinations(range(len(aliases)), 2):
        places = tuple(i for i, read in enumerate(used) if read == {aliases[one], aliases[other]})
        left, right = contents[one], contents[other]
        if places and left is not None and right is not None:
            condition = sql.conjunction(operator.predicates[place] for place in places)
            pairs = own_sample(left, _JOIN_ROWS).crossJoin(F.broadcast(own_sample(right, _JOIN_ROWS)))
            counted = pairs.agg(
                F.count(F.lit(1)).alias("pairs"), F.expr(f"count_if({condition})").alias("matches")
            )
            samples.append(JoinSample((operator.name, places), counted))
    return samples


def count_matches(samples: Sequence[JoinSample]) -> dict[Link, PairCounts]:
    """Pairs compared and matching of each sample in which there were any, by one job."""
    rows = collect_numbered([sample.counted for sample in samples])
    return {samples[number].link: PairCounts(pairs, matches) for number, pairs, matches in rows if pairs}


def collect_numbered(frames: Sequence[DataFrame]) -> list[Any]:
    """The rows of all frames by one job, each behind the number of its frame."""
    numbered = [frame.select(F.lit(number), "*") for number, frame in enumerate(frames)]
    return reduce(DataFrame.unionAll, numbered).collect() if numbered else []


def own_sample(content: WindowContent, rows: int) -> DataFrame:
    """About so many tuples of a window, without our own columns."""
    share = rows / max(1, content.rows)
    own = _own_columns(content.tuples)
    return own if share >= 1 else own.sample(share, _SEED)


def _own_columns(tuples: DataFrame) -> DataFrame:
    return tuples.select(*(sql.name(column) for column in tuples.columns if not sql.is_system(column)))
