"""Results on Spark are those of the brute force, whatever the files, ticks, cuts and strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.lengths import short_or_long
from tests.oracle.brute_force import Query, Results, Select, Side
from tests.oracle.random_queries import World, column, random_world
from tests.oracle.runs import Course, difference, found_rows, random_course, start

from headgate.session.handle import Run
from headgate.spark import blocks, stream_log
from headgate.spark.operators import panes, window_tuples, windowed
from headgate.spark.physical_plans import LightPlan, PhysicalPlans
from headgate.statistics.operators import OperatorEstimates

pytestmark = pytest.mark.spark

PAIRS = short_or_long(2, 5)
QUERIES_A_RUN, TICKS = 50, short_or_long(5, 10)
TIMEOUT_S = 600


@pytest.fixture(autouse=True)
def _tiny_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only large ticks and long runs do, these few tuples do too."""
    monkeypatch.setattr(windowed, "LEAST_ROWS_PER_SLICE", 8)
    monkeypatch.setattr(windowed, "MOST_ROWS_PER_SLICE", 20)
    monkeypatch.setattr(windowed, "SLICE_PER_OVERLAP", 0.05)
    monkeypatch.setattr(window_tuples, "_LEAST_TO_COPY", 10)
    monkeypatch.setattr(panes, "LEAST_READ_AGAIN", 12)
    monkeypatch.setattr(panes, "_MOST_OPEN", 2)
    monkeypatch.setattr(blocks, "FEWEST_MERGED", 2)
    monkeypatch.setattr(stream_log, "MOST_SCANS", 2)


def started(spark: SparkSession, parent: Path, world: World, course: Course) -> Run:
    # hypothesis may draw a seed twice
    return start(spark, Path(mkdtemp(dir=parent)), world, course)


def results(run: Run, world: World, course: Course) -> dict[str, Results]:
    if not run.wait(TIMEOUT_S):
        run.stop()
        pytest.fail(f"not done within {TIMEOUT_S} s: {course}")
    assert run.status().backlog_tuples == 0
    for stream in world.streams:
        if counts := run.status().streams.get(stream.name):
            assert counts.late == len(stream.late())
    return {query.name: found_rows(run.results(query.name)) for query in world.queries}


def check(world: World, found: dict[str, Results]) -> None:
    wrong = [text for query in world.queries if (text := difference(query, found[query.name]))]
    assert not wrong, "\n".join(wrong)


def random_case(seed: int) -> tuple[World, Course]:
    rng = Random(seed)
    # streams of few timestamps meet themselves at one instant
    world = random_world(rng, QUERIES_A_RUN, ties=rng.random() < 0.3, has_tables=True)
    return world, random_course(rng, world)


@pytest.mark.takes_minutes
@settings(
    max_examples=PAIRS,
    deadline=None,
    database=None,
    # a smaller seed is no simpler world
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(seeds=st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=2, unique=True))
def test_random_queries_give_what_the_brute_force_gives(
    spark: SparkSession, tmp_path: Path, seeds: list[int]
) -> None:
    # two runs at a time: planning is the work of one processor
    running = []
    for seed in seeds:
        world, course = random_case(seed)
        note(f"{seed}: {course}")
        running.append((started(spark, tmp_path, world, course), world, course))
    for run, world, course in running:
        check(world, results(run, world, course))


def test_results_do_not_depend_on_where_ticks_begin(
    spark: SparkSession, tmp_path: Path, run_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(run_seed)
    # plans of what flows out of a derived stream are made anew in every tick
    world = with_selection(random_world(rng, short_or_long(8, 12), has_derived=False))
    cuts = [
        sorted(rng.sample(range(1, len(s.arrivals)), min(TICKS, len(s.arrivals)) - 1)) for s in world.streams
    ]
    at_once = Course("csv", cuts, files_a_tick=None, cut_seed=None, strategy="fifo")
    piecemeal = replace(at_once, files_a_tick=1)
    one = results(started(spark, tmp_path, world, at_once), world, at_once)
    shared = count_of_queries_that_share_jobs(monkeypatch)
    many = results(started(spark, tmp_path, world, piecemeal), world, piecemeal)
    assert one == many
    check(world, one)
    assert shared, "no query was executed by the plan of an earlier tick"


def with_selection(world: World) -> World:
    """With a query that certainly has the same plan in every tick, which random ones need not have."""
    side = Side(world.streams[0], "a")
    selection = Query("selection", [Select([side], [column("a", "k"), column("a", "v")])])
    return replace(world, queries=[*world.queries, selection])


def count_of_queries_that_share_jobs(monkeypatch: pytest.MonkeyPatch) -> list[LightPlan]:
    """Ticks that count what operators pass on have other plans: here, none does."""
    monkeypatch.setattr(OperatorEstimates, "wants_counts", lambda *_: False)
    executed: list[LightPlan] = []
    run = PhysicalPlans.run_in_one_job

    def noting(plans: PhysicalPlans, light: Sequence[LightPlan]) -> list[float] | None:
        executed.extend(light)
        return run(plans, light)

    monkeypatch.setattr(PhysicalPlans, "run_in_one_job", noting)
    return executed
