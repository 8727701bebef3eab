"""Probing: how often tuples of two window contents match, told by a sample of each.

A join says how many combinations of all its sides match; which order is best depends on every pair. Window
contents are stored behind all selections, so a sample of them costs a scan of few columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.model.joining import aliases_of
from headgate.model.operator import WindowJoin
from headgate.runtime.matches import Link, Sampled
from headgate.spark import sql
from headgate.spark.columns import is_system

# of each side: enough for selectivities down to some 1e-6, and few enough to compare all pairs
_SAMPLED_ROWS = 1_500
_SEED = 1


@dataclass(frozen=True)
class Content:
    """Window contents of one side, as stored."""

    tuples: DataFrame
    rows: int


@dataclass(frozen=True)
class Probe:
    """One row: how many pairs were compared, and how many match."""

    link: Link
    counted: DataFrame


def probes_of(operator: WindowJoin, contents: Sequence[Content | None]) -> list[Probe]:
    """A probe for every two sides that a predicate looks at, and no others do."""
    aliases = [side.alias for side in operator.sides]
    used = [aliases_of(predicate, aliases) for predicate in operator.predicates]
    probes = []
    for one, other in combinations(range(len(aliases)), 2):
        places = tuple(i for i, seen in enumerate(used) if seen == {aliases[one], aliases[other]})
        left, right = contents[one], contents[other]
        if places and left is not None and right is not None:
            holds = sql.conjunction(operator.predicates[place] for place in places)
            pairs = _sampled(left).crossJoin(F.broadcast(_sampled(right)))
            counted = pairs.agg(
                F.count(F.lit(1)).alias("pairs"), F.expr(f"count_if({holds})").alias("matches")
            )
            probes.append(Probe((operator.name, places), counted))
    return probes


def run(probes: Sequence[Probe]) -> dict[Link, Sampled]:
    """Compare, all in one job."""
    numbered = [probe.counted.withColumn("probe", F.lit(i)) for i, probe in enumerate(probes)]
    rows = reduce(DataFrame.unionAll, numbered).collect() if numbered else []
    return {probes[row["probe"]].link: Sampled(row["pairs"], row["matches"]) for row in rows if row["pairs"]}


def _sampled(content: Content) -> DataFrame:
    own = content.tuples.select(*(sql.name(c) for c in content.tuples.columns if not is_system(c)))
    share = _SAMPLED_ROWS / max(1, content.rows)
    return own if share >= 1 else own.sample(share, _SEED)
