"""Selections, projections and joins with stored relations, against DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType
from tests.oracle.brute_force import Tuple
from tests.spark.operators.alone import at_least, random_tuples, side_struct, stream_input, values
from tests.spark.operators.budget import few

from headgate.model.expression import Expression, NamedExpression, time_text
from headgate.model.joins import RelationJoin
from headgate.model.operator import Project, Select
from headgate.model.profile import Profile
from headgate.spark import sql
from headgate.spark.operators.stateless import ProjectOperator, RelationJoinOperator, SelectOperator
from headgate.spark.relations import StoredRelation
from headgate.spark.sql import TS
from headgate.statistics.store import PredicateEstimates, PredicateOrder

pytestmark = pytest.mark.spark

STRUCT = side_struct("a", None)
ONE_TIME = StructType([StructField(TS, LongType())])
RELATION = StructType([StructField("id", IntegerType()), StructField("label", IntegerType())])


def listed(rows: Sequence[Tuple]) -> list[tuple[Any, ...]]:
    return [(t.ts, t.row["k"], t.row["v"]) for t in rows]


def in_duckdb(query: str, **tables: tuple[StructType, Sequence[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as database:
        for name, (struct, rows) in tables.items():
            columns = ", ".join(f'"{f.name}" {f.dataType.simpleString()}' for f in struct.fields)
            database.execute(f"CREATE TABLE {name} ({columns})")
            if rows:
                marks = ", ".join("?" * len(struct.fields))
                database.executemany(f"INSERT INTO {name} VALUES ({marks})", list(rows))
        return Counter(database.execute(query).fetchall())


def on_spark(spark: SparkSession, query: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in spark.sql(query).collect())


def expressions(*texts: str) -> tuple[Expression, ...]:
    return tuple(Expression.parse(text) for text in texts)


PREDICATES = ("a__v > 0", "a__k = 1 OR a__v IS NULL", "a__k <> a__v", "NOT (a__v < 2)")


@few(4)
def test_a_selection_passes_tuples_for_which_every_predicate_is_true(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    rows, chosen = random_tuples(rng), rng.sample(PREDICATES, rng.randint(1, 3))
    operator = SelectOperator(Select("select", stream_input("a"), expressions(*chosen)))
    found = on_spark(tiny, operator.applied(values(STRUCT, listed(rows))))
    where = " AND ".join(f"({text})" for text in chosen)
    assert found == in_duckdb(f"SELECT * FROM t WHERE {where}", t=(STRUCT, listed(rows)))


def test_predicates_guard_those_behind_them_and_change_places_when_told(tiny: SparkSession) -> None:
    guarded = expressions("a__k <> 0", "10 div a__k > 2")
    settings = Select("select", stream_input("a"), guarded)
    operator = SelectOperator(settings)
    rows = [(0, 0, 1), (1, 3, 1), (2, 7, 1)]
    assert on_spark(tiny, operator.applied(values(STRUCT, rows))) == {(1, 3, 1): 1}
    costs = {guarded[0].text: Profile(1e-3, 0.9, 8), guarded[1].text: Profile(1e-6, 0.1, 8)}
    texts = frozenset(predicate.text for predicate in guarded)
    operator.predicate_order = PredicateOrder(
        {"select": settings}, {"select": texts}, PredicateEstimates({"select": costs})
    )
    assert operator.predicate_order.order(settings) == guarded[::-1]
    # now the division comes first, and fails on zero
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        on_spark(tiny, operator.applied(values(STRUCT, rows)))
    assert on_spark(tiny, operator.applied(values(STRUCT, rows[1:]))) == {(1, 3, 1): 1}


def test_operators_can_be_put_on_top_of_each_other(tiny: SparkSession) -> None:
    rows = [(0, 1, 1), (1, 1, 5), (2, 2, 9)]
    below = SelectOperator(at_least("a", 3)).applied(values(STRUCT, rows))
    above = SelectOperator(Select("upper", stream_input("a"), expressions("a__k = 2"))).applied(below)
    assert on_spark(tiny, above) == {(2, 2, 9): 1}


@few(2)
def test_a_projection_computes_its_items_between_two_timestamps(tiny: SparkSession, seed: int) -> None:
    rows = random_tuples(Random(seed))
    double, other = expressions("a__v * 2", "coalesce(a__k, -1)")
    items = (NamedExpression("double v", double), NamedExpression("k", other))
    project = Project("project", stream_input("a"), items)
    operator = ProjectOperator(project, time_text(sql.name(TS), "bigint"))
    frame = tiny.sql(operator.applied(values(STRUCT, listed(rows))))
    assert frame.columns == ["ts", "double v", "k", TS]
    query = f'SELECT "{TS}" // 1000000, a__v * 2, coalesce(a__k, -1), "{TS}" FROM t'
    assert Counter(map(tuple, frame.collect())) == in_duckdb(query, t=(STRUCT, listed(rows)))


@pytest.mark.parametrize("kind", ["tinyint", "int", "bigint", "float", "double", "decimal(20,6)"])
def test_numbers_stamp_results_in_seconds_of_their_own_type(tiny: SparkSession, kind: str) -> None:
    frame = tiny.sql(sql.select([f"{time_text(sql.name(TS), kind)} AS ts"], values(ONE_TIME, [(2_500_000,)])))
    assert frame.dtypes == [("ts", kind)]
    assert float(frame.collect()[0].ts) == (2 if kind.endswith("int") else 2.5)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_times_stamp_results_to_the_microsecond(tiny: SparkSession, kind: str) -> None:
    text = time_text(sql.name(TS), kind)
    items = [f"{text} AS ts", f"unix_micros(CAST({text} AS TIMESTAMP)) AS us"]
    frame = tiny.sql(sql.select(items, values(ONE_TIME, [(2_500_001,)])))
    # midnight of a day is no longer one when results are stamped with an instant
    assert frame.dtypes[0] == ("ts", "timestamp" if kind == "date" else kind)
    assert frame.collect()[0].us == 2_500_001


@few(6)
def test_every_tuple_meets_all_matches_of_a_stored_relation(tiny: SparkSession, seed: int) -> None:
    rng = Random(seed)
    rows, hint = random_tuples(rng), rng.choice(("BROADCAST", "SHUFFLE_HASH"))
    columns: tuple[str, ...] = rng.choice(((), ("label",), ("label", "id"), ("label", "id")))
    stored = [(rng.choice((None, 0, 1, 1)), rng.randint(0, 3)) for _ in range(rng.randint(0, 5))]
    tiny.sql(values(RELATION, stored)).createOrReplaceTempView("`relation r`")
    # a relation of which no column is read is a cross product
    match = (Expression.parse("a__k = r__id"),) if "id" in columns else ()
    settings = RelationJoin("join", stream_input("a"), "r", "r", columns, match)
    found = on_spark(
        tiny,
        RelationJoinOperator(settings, StoredRelation("`relation r`", hint)).applied(
            values(STRUCT, listed(rows))
        ),
    )
    items = ", ".join(["t.*", *(f"r.{column}" for column in columns)])
    query = f"SELECT {items} FROM t JOIN r ON {'t.a__k = r.id' if match else 'TRUE'}"
    assert found == in_duckdb(query, t=(STRUCT, listed(rows)), r=(RELATION, stored))
