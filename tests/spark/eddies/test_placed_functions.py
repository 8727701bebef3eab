"""Placed predicates: results are those of the brute force, whatever the routing and the slots."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import (
    Aggregation,
    Combination,
    DerivedStream,
    Predicate,
    Query,
    Select,
    Stream,
    Value,
)
from tests.oracle.random_queries import World, random_world
from tests.oracle.runs import Course, declarations, difference, found_rows, query_sql

from headgate import Session
from headgate.errors import UserCodeError
from headgate.session.handle import Run

pytestmark = pytest.mark.spark

TIMEOUT_S = 200


def odd(v: int | None) -> bool | None:
    return None if v is None else v % 2 == 1


def graded(k: int | None, v: int | None) -> int:
    return ((k or 0) * 7 + (v or 0)) % 5


def initial(s: str | None) -> str | None:
    return None if s is None else s[:1]


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "odd": (odd, "boolean"),
    "graded": (graded, "int"),
    "initial": (initial, "string"),
}
POOLS = """
CREATE POOL one SLOTS 1; CREATE POOL few SLOTS 3;
PLACE odd ON one; PLACE graded ON few; PLACE initial ON one;
"""


def _value(combination: Combination, alias: str, name: str) -> Any:
    return combination[alias][name]


def _is_odd(alias: str) -> Predicate:
    return Predicate(f"odd({alias}.v)", frozenset({alias}), lambda c: odd(_value(c, alias, "v")))


def _is_even(alias: str) -> Predicate:
    def holds(c: Combination) -> bool | None:
        found = odd(_value(c, alias, "v"))
        return None if found is None else not found

    return Predicate(f"NOT odd({alias}.v)", frozenset({alias}), holds)


def _is_odd_or_known(alias: str) -> Predicate:
    def holds(c: Combination) -> bool | None:
        found = odd(_value(c, alias, "v"))
        return True if _value(c, alias, "s") is not None else found

    return Predicate(f"(odd({alias}.v) OR {alias}.s IS NOT NULL)", frozenset({alias}), holds)


def _has_initial(alias: str) -> Predicate:
    def holds(c: Combination) -> bool | None:
        found = initial(_value(c, alias, "s"))
        return None if found is None else found != "a"

    return Predicate(f"initial({alias}.s) <> 'a'", frozenset({alias}), holds)


def _is_graded(one: str, other: str) -> Predicate:
    def holds(c: Combination) -> bool:
        return graded(_value(c, one, "k"), _value(c, other, "v")) >= 1

    return Predicate(f"1 <= graded({one}.k, {other}.v)", frozenset({one, other}), holds)


def _are_alike(one: str, other: str) -> Predicate:
    """Two calls in one condition."""

    def holds(c: Combination) -> bool | None:
        found = odd(_value(c, one, "v"))
        return None if found is None else found == (_grade(one, other).of(c) > 1)

    sql = f"odd({one}.v) = (graded({one}.k, {other}.v) > 1)"
    return Predicate(sql, frozenset({one, other}), holds)


def _grade(one: str, other: str) -> Value:
    return Value(f"graded({one}.k, {other}.v)", lambda c: graded(_value(c, one, "k"), _value(c, other, "v")))


def with_placed(rng: Random, branch: Select | Aggregation) -> Select | Aggregation:
    """The branch with some more conditions, and a column, on pools."""
    sides = branch.sides if isinstance(branch, Select) else [branch.side]
    aliases = [side.alias for side in sides if isinstance(side.source, Stream)]
    placed = [rng.choice((_is_odd, _is_even, _is_odd_or_known, _has_initial))(rng.choice(aliases))]
    placed += [_is_graded(rng.choice(aliases), rng.choice(aliases))] * (rng.random() < 0.7)
    one, other = rng.choice(aliases), rng.choice(aliases)
    placed += [_are_alike(one, other)] * (rng.random() < 0.3)
    branch = replace(branch, where=[*branch.where, *placed])
    if isinstance(branch, Select):
        return replace(branch, values=[*branch.values, _grade(one, other)])
    return replace(branch, keys=[*branch.keys, _grade(one, other)])


def _counts_derived(branch: Select | Aggregation) -> bool:
    """Whether it is refused: windows by rows of a derived stream do not wait for pools."""
    if not isinstance(branch, Aggregation) or not isinstance(branch.side.source, DerivedStream):
        return False
    return branch.side.window is not None and "ROWS" in branch.side.window.sql


def placed_world(seed: int, queries: int) -> World:
    rng = Random(seed)
    world = random_world(rng, queries)
    placed = [
        Query(
            q.name, [branch if _counts_derived(branch) else with_placed(rng, branch) for branch in q.branches]
        )
        for q in world.queries
    ]
    return replace(world, queries=placed)


def session_of(spark: SparkSession, folder: Path, world: World, files_a_tick: int | None) -> Session:
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(spark)
    for name, (function, returns) in FUNCTIONS.items():
        session.function(name, function, returns)
    cuts = [[len(stream.arrivals) // 2] for stream in world.streams]
    session.execute(POOLS + declarations(folder, world, Course("parquet", cuts, files_a_tick, None, "fifo")))
    session.execute("\n".join(query_sql(query) for query in world.queries))
    return session


def check(world: World, run: Run) -> None:
    wrong = [t for q in world.queries if (t := difference(q, found_rows(run.results(q.name))))]
    assert not wrong, "\n".join(wrong)


ROUTER = """
class Last:
    def prepare(self, network):
        self.operators = list(network.operators)

    def route(self, done, eligible, view):
        assert set(eligible) <= set(self.operators) & set(view.statistics)
        return {eligible[-1]: 1.0}

    def learn(self, outcome):
        assert outcome.operator in self.operators
"""


def test_random_placed_predicates_give_what_the_brute_force_gives_under_a_router_of_the_users(
    spark: SparkSession, tmp_path: Path
) -> None:
    # other policies, and functions beside placed probes: test_probes.py
    world = placed_world(3, 6)
    (tmp_path / "router.py").write_text(ROUTER)
    session = session_of(spark, tmp_path / "in", world, None)
    run = session.start(until_done=True, routing=f"{tmp_path}/router.py:Last")
    assert run.wait(TIMEOUT_S)
    assert run.status().backlog_tuples == 0
    check(world, run)
    assert run.pools()["one"].calls > 0
    assert run.pools()["few"].calls > 0


def slowly(v: int | None) -> bool:
    time.sleep(0.004)
    return v is not None


def test_a_restart_goes_on_with_what_was_inside(
    spark: SparkSession, tmp_path: Path, eventually: Callable[[Callable[[], bool], float], None]
) -> None:
    """Stopped while jobs are under way, with an aggregate behind the eddy; slots change on the way."""
    rows, folder = 600, tmp_path / "in"
    folder.mkdir()
    table = pa.table({"ts": range(1000, 1000 + rows), "v": [i % 10 for i in range(rows)]})
    pq.write_table(table, folder / "0.parquet")

    def session() -> Session:
        made = Session(spark)
        made.function("slowly", slowly, "boolean").function("odd", odd, "boolean")
        return made.execute(f"""
            CREATE POOL one SLOTS 1; CREATE POOL few SLOTS 3; PLACE slowly ON one; PLACE odd ON few;
            CREATE STREAM s (ts BIGINT, v BIGINT)
              FROM parquet OPTIONS (path '{folder}', timestamp 'ts', idle_after '1 h');
            CREATE QUERY passed AS SELECT v FROM s WHERE slowly(v) AND odd(v);
            CREATE QUERY counted AS
              SELECT COUNT(*) AS n FROM s [RANGE 99 SECONDS SLIDE 100 SECONDS] WHERE odd(v) AND slowly(v);""")

    first = session().start(checkpoint=tmp_path / "checkpoint")
    eventually(lambda: first.pools()["one"].calls > 0, TIMEOUT_S)
    first.stop()
    assert first.status().backlog_tuples > 0
    again = session().start(until_done=True, checkpoint=tmp_path / "checkpoint", routing="scq")
    again.alter_pool("one", 4)
    assert again.wait(TIMEOUT_S)
    assert again.status().backlog_tuples == 0
    passed = Counter(row.v for row in again.results("passed").collect())
    assert passed == {v: rows // 10 for v in (1, 3, 5, 7, 9)}
    counted = {(row.ts, row.n) for row in again.results("counted").collect()}
    assert counted == {(1100 + 100 * i, 50) for i in range(6)}


def test_what_placed_functions_return_can_be_selected_grouped_by_and_nested(
    spark: SparkSession, tmp_path: Path
) -> None:
    def halved(v: int | None) -> float | None:
        return None if v is None else v / 2

    def named(v: float | None) -> list[str]:
        return [] if v is None else [f"n{v:g}"]

    table = pa.table({"ts": range(8), "v": [0, 1, 2, None, 4, 5, 6, 2]})
    pq.write_table(table, tmp_path / "0.parquet")
    session = Session(spark).function("halved", halved, "double").function("named", named, "array<string>")
    session.execute(f"""
        CREATE POOL one SLOTS 1; CREATE POOL few SLOTS 3; PLACE halved ON one; PLACE named ON few;
        CREATE STREAM s (ts BIGINT, v BIGINT) FROM parquet OPTIONS (path '{tmp_path}', timestamp 'ts');
        CREATE QUERY nested AS SELECT v, named(halved(v))[0] AS n FROM s WHERE halved(v) BETWEEN 1 AND 2;
        CREATE QUERY grouped AS
          SELECT halved(v) AS h, COUNT(*) AS n FROM s [TUMBLE 100 SECONDS] GROUP BY halved(v)
          HAVING COUNT(*) > 1;
        CREATE QUERY summed AS SELECT SUM(halved(v) + 1) AS t FROM s [TUMBLE 100 SECONDS];""")
    run = session.start(until_done=True)
    assert run.wait(TIMEOUT_S)
    nested = Counter((row.v, row.n) for row in run.results("nested").collect())
    assert nested == {(2, "n1"): 2, (4, "n2"): 1}
    assert [(row.h, row.n) for row in run.results("grouped").collect()] == [(1.0, 2)]
    assert [row.t for row in run.results("summed").collect()] == [17.0]


@pytest.mark.parametrize("in_processes", [False, True])
def test_a_placed_function_that_returns_another_type_ends_the_run(
    spark: SparkSession, tmp_path: Path, in_processes: bool
) -> None:
    pq.write_table(pa.table({"ts": [1], "v": [7]}), tmp_path / "0.parquet")
    session = Session(spark).function("wrong", lambda v: "seven", "bigint", in_processes)
    session.execute(f"""
        CREATE POOL one SLOTS 1; PLACE wrong ON one;
        CREATE STREAM s (ts BIGINT, v BIGINT) FROM parquet OPTIONS (path '{tmp_path}', timestamp 'ts');
        CREATE QUERY q AS SELECT wrong(v) AS w FROM s;""")
    with pytest.raises(
        UserCodeError, match=r"^placed function wrong returned 'seven' \(str\), which is no int64"
    ):
        session.start(until_done=True).wait(TIMEOUT_S)


@pytest.mark.parametrize("in_processes", [False, True])
def test_a_function_that_raises_ends_the_run_in_one_line(
    spark: SparkSession, tmp_path: Path, in_processes: bool
) -> None:
    def fails(v: int) -> bool:
        raise ValueError(f"no {v}")

    pq.write_table(pa.table({"ts": [1], "v": [7]}), tmp_path / "0.parquet")
    session = Session(spark).function("fails", fails, "boolean", in_processes)
    session.execute(f"""
        CREATE POOL one SLOTS 1; PLACE fails ON one;
        CREATE STREAM s (ts BIGINT, v BIGINT) FROM parquet OPTIONS (path '{tmp_path}', timestamp 'ts');
        CREATE QUERY q AS SELECT v FROM s WHERE fails(v);""")
    with pytest.raises(
        UserCodeError, match=rf"^placed function fails raised ValueError: no 7 \({__file__}:\d+\)$"
    ):
        session.start(until_done=True).wait(TIMEOUT_S)
