"""Placed predicates: results are those of the brute force, whatever the routing and the slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import Aggregation, Combination, Predicate, Query, Select, Stream
from tests.oracle.random_queries import World, random_world
from tests.oracle.runs import Course, declarations, difference, found_rows, query_sql

from headgate import Session
from headgate.session import Run

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


def with_placed(rng: Random, branch: Select | Aggregation) -> Select | Aggregation:
    """The branch with some more conditions, on pools."""
    sides = branch.sides if isinstance(branch, Select) else [branch.side]
    aliases = [side.alias for side in sides if isinstance(side.source, Stream)]
    placed = [rng.choice((_is_odd, _is_even, _is_odd_or_known, _has_initial))(rng.choice(aliases))]
    placed += [_is_graded(rng.choice(aliases), rng.choice(aliases))] * (rng.random() < 0.7)
    return replace(branch, where=[*branch.where, *placed])


def placed_world(seed: int, queries: int) -> World:
    rng = Random(seed)
    world = random_world(rng, queries)
    placed = [Query(q.name, [with_placed(rng, branch) for branch in q.branches]) for q in world.queries]
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


@pytest.mark.parametrize(("seed", "routing"), [(3, "wscq"), (8, "optimal")])
def test_random_placed_predicates_give_what_the_brute_force_gives(
    spark: SparkSession, tmp_path: Path, seed: int, routing: str
) -> None:
    world = placed_world(seed, 6)
    run = session_of(spark, tmp_path, world, None).start(until_done=True, routing=routing)
    assert run.wait(TIMEOUT_S)
    assert run.status().backlog_tuples == 0
    check(world, run)
    assert run.pools()["one"].calls > 0
    assert run.pools()["few"].calls > 0
