"""Placed probes of window joins: results are those of the brute force, whatever the routing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import Query, Stream, Window, last, now, sliding
from tests.oracle.cuts import RandomCuts
from tests.oracle.random_queries import QueryMaker, World, random_world
from tests.oracle.runs import Course, declarations, difference, found_rows, query_sql
from tests.spark.eddies.test_placed_functions import FUNCTIONS, POOLS, TIMEOUT_S, with_placed

from headgate import Session

pytestmark = pytest.mark.spark


class TimedMaker(QueryMaker):
    """Joins over windows of time alone, which placed probes can look into."""

    def _join_window(self, small: bool) -> Window:
        short = self._rng.randint(1, 4) if small else self._rng.randint(1, 15)
        slide = sliding((short + 2) * self._unit, self._rng.randint(1, 7) * self._unit)
        return self._rng.choices((last(short * self._unit), now(), slide), (5, 1, 3))[0]


def probed_world(seed: int) -> World:
    """A stream joined with itself or beside a relation, and several streams with placed functions."""
    rng = Random(seed)
    world = random_world(rng, 0)
    unit = 1_000_000
    maker = TimedMaker(rng, world.streams, world.relation, unit)
    joined = maker._join(rng.sample(world.streams, min(3, len(world.streams))))
    branches = [rng.choice((maker.self_join, maker.relation_join))(), with_placed(rng, joined)]
    return replace(world, queries=[Query(f"q{i}", [branch]) for i, branch in enumerate(branches)])


def placed(streams: Sequence[Stream]) -> str:
    """All probes on two pools."""
    pools = "CREATE POOL near SLOTS 1; CREATE POOL far SLOTS 2;"
    return pools + " ".join(
        f"PLACE PROBE OF {stream.name} ON {('near', 'far')[place % 2]};"
        for place, stream in enumerate(streams)
    )


@pytest.mark.parametrize(("seed", "routing"), [(13, "wscq"), (46, "optimal")])
def test_random_joins_by_placed_probes_give_what_the_brute_force_gives(
    spark: SparkSession, tmp_path: Path, seed: int, routing: str
) -> None:
    world = probed_world(seed)
    session = Session(spark)
    for name, (function, returns) in FUNCTIONS.items():
        session.function(name, function, returns)
    cuts = [[len(stream.arrivals) // 2] for stream in world.streams]
    session.execute(declarations(tmp_path, world, Course("parquet", cuts, 1, None, "fifo")))
    session.execute(POOLS + placed(world.streams))
    session.execute("\n".join(query_sql(query) for query in world.queries))
    run = session.start(until_done=True, strategy=RandomCuts(seed, wild_ticks=2), routing=routing)
    assert run.wait(TIMEOUT_S)
    assert run.status().backlog_tuples == 0
    wrong = [t for q in world.queries if (t := difference(q, found_rows(run.results(q.name))))]
    assert not wrong, "\n".join(wrong)
    pools = run.pools()
    assert pools["near"].calls > 0
    assert pools["far"].calls > 0
