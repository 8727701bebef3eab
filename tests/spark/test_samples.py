"""What predicates cost and let pass when each is evaluated alone, and which of them may be."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headgate.model.expression import Expression
from headgate.spark.samples import TaskTime, Trial, is_harmless, run_trials

pytestmark = pytest.mark.spark

DEAR = "aggregate(sequence(1, 200), k, (d, i) -> sha2(d, 256)) > '0'"
CHEAP = "v < 300"


def test_a_trial_tells_what_predicates_cost_and_let_pass(spark: SparkSession) -> None:
    tuples = spark.range(1000).selectExpr("id AS v", "string(id) AS k")
    predicates = tuple(Expression.parse(text) for text in (DEAR, CHEAP))
    trials = [Trial("few", predicates, tuples.limit(10), 10), Trial("q", predicates, tuples, 1000)]
    found = run_trials(trials, TaskTime(spark), "trial")
    assert list(found) == ["q"]
    dear, cheap = found["q"][DEAR], found["q"][CHEAP]
    assert (dear.selectivity, cheap.selectivity) == (1.0, 0.3)
    assert dear.seconds_per_tuple > 5 * cheap.seconds_per_tuple


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("v < 300 AND k LIKE 'a%'", True),
        ("k IN ('a', 'b') OR s.x IS NULL", True),
        (DEAR, True),
        ("i > 3L", True),
        ("string(v) = k", True),
        ("10 / v > 2", False),
        ("k > 3", False),
        ("v + 1 > 3", False),
        ("element_at(split(k, ','), 2) = 'x'", False),
        ("rand() < 0.5", False),
    ],
)
def test_what_could_fail_is_known(spark: SparkSession, text: str, harmless: bool) -> None:
    tuples = spark.createDataFrame([], "v BIGINT, k STRING, i INT, s STRUCT<x: INT>")
    assert is_harmless(Expression.parse(text), tuples) == harmless
