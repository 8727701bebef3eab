"""Trials: what predicates of a selection cost and let pass, each asked alone over the same sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.model.expression import Expression
from headgate.model.profile import Profile, Profiles
from headgate.spark import sql
from headgate.spark.columns import is_system
from headgate.spark.tasktime import TaskTime

# enough for a selectivity to some hundredths, and for the cost of what is worth ordering
_SAMPLED_ROWS = 2_000
_LEAST_ROWS = 500
_SEED = 1
# the first time compiles
_ROUNDS = 3
# what drowns in the noise still costs something
_LEAST_SECONDS = 1e-8


@dataclass(frozen=True)
class Trial:
    """Predicates of an operator, and about how many tuples wait for it."""

    operator: str
    predicates: Sequence[Expression]
    tuples: DataFrame
    rows: float


def tried(trials: Sequence[Trial], times: TaskTime, tag: str) -> Mapping[str, Profiles]:
    """Figures of predicates by operator and text; nothing of those with too few tuples to tell."""
    found = {t.operator: _figures(t, times, f"{tag} {t.operator}") for t in trials if t.rows >= _LEAST_ROWS}
    return {operator: figures for operator, figures in found.items() if figures}


def _figures(trial: Trial, times: TaskTime, tag: str) -> dict[str, Profile]:
    share = min(1.0, _SAMPLED_ROWS / trial.rows)
    own = trial.tuples.select(*(sql.name(c) for c in trial.tuples.columns if not is_system(c)))
    sample = own.sample(share, _SEED).coalesce(1).persist()
    # what counting itself takes is nobody's
    conditions: list[tuple[Expression, ...]] = [(), *((predicate,) for predicate in trial.predicates)]
    counts: list[int] = []
    try:
        for number in range(_ROUNDS):
            counts = [
                _count(sample, holds, times, f"{tag} {number} {place}")
                for place, holds in enumerate(conditions)
            ]
    finally:
        sample.unpersist()
    rows, *passed = counts
    if rows < _LEAST_ROWS:
        return {}
    times.settle()
    least = [
        min(times.seconds(f"{tag} {number} {place}") for number in range(_ROUNDS))
        for place in range(len(conditions))
    ]
    return {
        predicate.text: Profile(
            max(_LEAST_SECONDS, (seconds - least[0]) / rows), passing / rows, samples=rows
        )
        for predicate, passing, seconds in zip(trial.predicates, passed, least[1:], strict=True)
    }


def _count(sample: DataFrame, holds: tuple[Expression, ...], times: TaskTime, tag: str) -> int:
    with times.under(tag):
        [row] = sample.agg(F.expr(f"count_if({sql.conjunction(holds)})")).collect()
    return int(row[0])
