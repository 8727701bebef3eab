"""The first ticks are small, whatever has arrived, and grow until they are as long as they may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate import Session
from headgate.model.event import Event, TickCommitted
from headgate.spark import generated

pytestmark = [pytest.mark.spark, pytest.mark.small_first_ticks]

Eventually = Callable[[Callable[[], bool], float], None]

TIMEOUT_S = 600
HEAVY = "sha2(repeat(CAST({column} AS STRING), 40), 512)"


class Ticks(list[TickCommitted]):
    """An observer that keeps ticks with input."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, TickCommitted) and event.totals.rows_in:
            self.append(event)


def test_a_flood_that_is_shed_is_shed_from_its_first_tick(
    spark: SparkSession, eventually: Eventually
) -> None:
    session = Session(spark)
    session.execute(f"""
      CREATE STREAM r FROM rate OPTIONS (rowsPerSecond 100000);
      CREATE QUERY q WITH (overload = 'shed', latency = '2 s') AS
        SELECT {HEAVY.format(column="value")} AS digest FROM r INTO noop;
    """)
    ticks = Ticks()
    run = session.start(observers=[ticks])
    eventually(lambda: len(ticks) >= 4, TIMEOUT_S)
    run.stop()
    kept = [tick.totals.rows_in - tick.totals.shed for tick in ticks]
    # a hash keeps a little more or less than it should
    assert kept[0] < 1.1 * 6_000 < ticks[0].totals.rows_in
    assert all(later < 1.1 * 8 * max(kept[:place]) for place, later in enumerate(kept) if place)
    # counted exactly, whether rows are dropped before or after they are held
    assert kept == [tick.queries["q"].rows_out for tick in ticks]


def test_a_source_that_can_wait_is_read_in_growing_parts_and_to_its_end(spark: SparkSession) -> None:
    options = {"rate": "40000", "seed": "5", "duration": "4 s", "speed": "max"}
    generated.register(spark, "burst")
    whole = spark.read.format("burst").schema("src STRING, bytes INT").options(**options).load()
    [expected] = whole.agg(F.count("*"), F.sum("bytes")).collect()
    session = Session(spark)
    written = ", ".join(f"{name} '{value}'" for name, value in options.items())
    session.execute(f"""
      CREATE STREAM b (src STRING, bytes INT) FROM burst OPTIONS ({written});
      CREATE QUERY q AS SELECT bytes FROM b;
    """)
    ticks = Ticks()
    run = session.start(until_done=True, observers=[ticks])
    assert run.wait(TIMEOUT_S)
    rows = [tick.totals.rows_in for tick in ticks]
    assert 9_000 < rows[0] <= 10_000
    assert all(later <= 8 * max(rows[:place]) for place, later in enumerate(rows) if place)
    assert ticks[0].waiting == {"b"} and len(rows) <= 15
    [found] = run.results("q").agg(F.count("*"), F.sum("bytes")).collect()
    assert tuple(found) == tuple(expected)
    ticks.clear()
    assert session.start(until_done=True, observers=[ticks], profiles=run.profiles()).wait(TIMEOUT_S)
    # where costs are known, there is no need to be careful
    assert ticks[0].totals.rows_in > 100_000 and len(ticks) <= 3


def test_of_a_folder_with_many_files_a_live_run_takes_one_first_and_soon_many(
    spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    folder, files = tmp_path / "in", 40
    folder.mkdir()
    for number in range(files):
        rows = range(1000 + 50 * number, 1050 + 50 * number)
        (folder / f"{number:02d}.csv").write_text("".join(f"{ts},{ts % 7}\n" for ts in rows))
    session = Session(spark)
    session.execute(f"""
      CREATE STREAM s (ts BIGINT, v INT) FROM csv
        OPTIONS (path '{folder}', timestamp 'ts', idle_after '1 h');
      CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 50 SECONDS SLIDE 50 SECONDS];
    """)
    ticks = Ticks()
    run = session.start(observers=[ticks])
    eventually(lambda: sum(tick.totals.rows_in for tick in ticks) == 50 * files, TIMEOUT_S)
    run.stop()
    assert sum(tick.totals.late for tick in ticks) == 0
    taken = [tick.totals.rows_in // 50 for tick in ticks]
    assert taken[0] == 1 and taken[1] <= 8 and len(taken) <= 12
