"""The catalogue of functions, by which queries are checked without a JVM, says what Spark says."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tools.spark_functions import KINDS, OPERATORS, Analyser, described

from headgate.planning import functions
from headgate.planning.functions import spark_function, spark_operator
from headgate.spark.application.java_classes import ATTEMPT, LATER

pytestmark = pytest.mark.spark

# of several hundred functions, so many are asked for all over again in a run
SAMPLE = 4
CLOCKS = (
    "CurrentDate",
    "CurrentTimestamp",
    "CurrentTime",
    "LocalTimestamp",
    "Now",
    "CurDateExpressionBuilder",
)


@pytest.fixture(scope="module")
def analyser(spark: SparkSession) -> Analyser:
    return Analyser(spark)


def test_the_catalogue_has_exactly_the_functions_of_spark(analyser: Analyser) -> None:
    # functions of ours are in sessions that have run queries
    assert set(functions.function_names()) == set(analyser.groups()) - {ATTEMPT, LATER}


def test_a_sample_of_the_catalogue_is_what_spark_says(analyser: Analyser, run_seed: int) -> None:
    groups = analyser.groups()
    for name in Random(run_seed).sample(sorted(groups), SAMPLE):
        found = spark_function(name)
        assert found is not None
        assert found.entry == described(analyser, name, groups[name]), name


def test_whatever_depends_on_the_clock_or_on_chance_is_refused(spark: SparkSession) -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction()
    for place in range(names.size()):
        name = str(names.apply(place).funcName())
        found = spark_function(name)
        kind = registry.lookupFunction(names.apply(place)).get().getClassName().rpartition(".")[2]
        if found is not None and (kind in CLOCKS or found.entry.get("random")):
            assert found.objection(0) is not None, name


def test_operators_of_the_catalogue_are_those_of_spark(spark: SparkSession, run_seed: int) -> None:
    """Independent of the way in which the catalogue is made: every probe is a query of its own."""
    columns = {letter: f"c{number}" for number, letter in enumerate(KINDS)}
    schema = ", ".join(f"{columns[letter]} {ddl}" for letter, ddl in KINDS.items())
    empty = spark.createDataFrame([], schema)
    rng = Random(run_seed)
    # of nested types, whether a call is accepted depends on their parts
    scalars = [letter for letter in KINDS if letter not in "apr"]
    for symbol, template in OPERATORS[2].items():
        for first, second in rng.sample(list(product(scalars, repeat=2)), 6):
            found = spark_operator(symbol).outcome([first, second])
            try:
                kind = empty.selectExpr(template.format(columns[first], columns[second])).dtypes[0][1]
            except AnalysisException:
                assert found.refused is not None, (symbol, first, second)
                continue
            assert found.refused is None, (symbol, first, second)
            if found.kind is not None:
                expected = KINDS[found.kind].lower().partition("(")[0]
                assert kind.startswith(expected.partition(" ")[0]), (symbol, first, second)
