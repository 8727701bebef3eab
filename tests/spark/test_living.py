"""Queries that come and go while others run find what they would over streams that begin at their start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cli.support import invoke
from tests.lengths import short_or_long
from tests.oracle.living import random_sequence

from headgate import HeadgateError, QueryError, Session
from headgate.model.event import (
    Event,
    QueryAdded,
    QueryAltered,
    QueryDropped,
    QueryPaused,
    QueryResumed,
)
from headgate.spark.file_system import Files
from headgate.spark.history import History

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("number", range(short_or_long(1, 10)))
def test_queries_that_come_and_go_agree_with_the_oracle_from_their_starts_on(
    spark: SparkSession, tmp_path: Path, run_seed: int, number: int
) -> None:
    assert random_sequence(spark, tmp_path, run_seed + number, steps=5) == []


def test_rows_that_slide_are_counted_from_the_start_of_a_query(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def arrive(name: str, *values: int) -> None:
        lines = [json.dumps({"ts": value, "v": value}) for value in values]
        (source / f"{name}.part").write_text("\n".join(lines))
        (source / f"{name}.part").rename(source / f"{name}.json")

    with Session(spark) as session:
        session.execute(f"""
          CREATE STREAM s (ts BIGINT, v INT) FROM json OPTIONS (path '{source}', timestamp 'ts',
            watermark '2 s', pathGlobFilter '*.json');
          CREATE STREAM d AS SELECT v FROM s WHERE v > 0;
          CREATE QUERY first AS SELECT SUM(v) AS v FROM s [ROWS 2 SLIDE 3];
          CREATE QUERY all_of_d AS SELECT SUM(v) AS v FROM d [ROWS 2 SLIDE 3];
        """)
        arrive("1", 1, 2, 3, 4, 6)
        run = session.start(checkpoint=tmp_path / "state")
        while not run.status().queries["first"].rows_out:
            assert not run.wait(0.05)
        session.execute("""
          CREATE QUERY later AS SELECT SUM(v) AS v FROM s [ROWS 2 SLIDE 3];
          CREATE QUERY later_of_d AS SELECT SUM(v) AS v FROM d [ROWS 2 SLIDE 3];
        """)
        run.stop()
        # 5 is on time, and before the start of the new queries
        for name, values in (("2", (5, 7, 8, 9)), ("3", (10, 11, 12, 13))):
            arrive(name, *values)
            run = session.start(checkpoint=tmp_path / "state", until_done=True)
            assert run.wait(120)
        for old, later in (("first", "later"), ("all_of_d", "later_of_d")):
            assert rows_of(run, old) == [2 + 3, 5 + 6, 8 + 9, 11 + 12]
            assert rows_of(run, later) == [8 + 9, 11 + 12]


def rows_of(run: Any, query: str) -> list[int]:
    return sorted(run.arrow(query)["v"].to_pylist())


def test_a_run_takes_statements_tells_of_them_and_a_restart_knows_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, state, script = tmp_path / "in", tmp_path / "state", tmp_path / "script.sql"
    source.mkdir()
    (source / "1.json").write_text('{"ts": 1, "v": 1}\n{"ts": 2, "v": 2}\n')
    stream = f"CREATE STREAM s (ts BIGINT, v INT) FROM json OPTIONS (path '{source}', timestamp 'ts');\n"
    kept = "CREATE QUERY kept AS SELECT v FROM s;\n"
    script.write_text(f"{stream}{kept}CREATE QUERY other AS SELECT v AS w FROM s;\n")
    seen: list[Event] = []

    def wait_for(run: Any, query: str, rows: int) -> None:
        while run.status().queries[query].rows_out < rows:
            assert not run.wait(0.05)

    with Session(spark) as session:
        session.execute(f"{stream}{kept}CREATE QUERY gone AS SELECT v FROM s WHERE v > 0;")
        run = session.start(checkpoint=state, observers=[seen.append])
        wait_for(run, "kept", 2)
        # wrong in the text, and wrong for Spark alone: everything stays as it was
        for wrong in ("SELECT nothing FROM s", "SELECT from_json(v, 'x') AS v FROM s"):
            with pytest.raises(HeadgateError):
                session.execute(f"CREATE QUERY wrong AS {wrong}")
        assert set(session.catalog.queries) == set(run.status().queries) == {"kept", "gone"}
        assert run.is_running
        session.execute(
            """CREATE QUERY added AS SELECT v FROM s; DROP QUERY gone;
               ALTER QUERY kept SET (latency = '3 s'); PAUSE QUERY kept;"""
        )
        assert run.status().queries["added"].start_us == 2_000_001
        assert run.status().queries["kept"].is_paused
        [listing] = session.execute("SHOW QUERIES").answers
        assert [(row["query"], row["state"]) for row in listing.to_json()["rows"]] == [
            ("kept", "paused"),
            ("added", "running"),
        ]
        (source / "2.json").write_text('{"ts": 3, "v": 3}\n{"ts": 4, "v": 4}\n')
        wait_for(run, "added", 2)
        assert (rows_of(run, "added"), rows_of(run, "kept")) == ([3, 4], [1, 2])
        run.resume("kept")
        wait_for(run, "kept", 4)
        with pytest.raises(QueryError, match="unknown query nobody"):
            session.execute("PAUSE QUERY nobody")
    kinds = [type(event) for event in seen]
    for kind in (QueryAdded, QueryDropped, QueryAltered, QueryPaused, QueryResumed):
        assert kinds.count(kind) == 1

    with Session(spark) as session:
        assert set(session.restore(state).catalog.queries) == {"kept", "added"}
        assert session.network().queries["kept"].latency_s == 3
        run = session.start(checkpoint=state, until_done=True)
        assert run.status().queries["added"].start_us == 2_000_001
        assert run.wait(120)
        assert (rows_of(run, "added"), rows_of(run, "kept")) == ([3, 4], [1, 2, 3, 4])

    # the script that it is started with says what runs
    said = invoke("run", script, "--checkpoint", state, "--dry-run").stdout.splitlines()
    assert said == [
        "query kept goes on",
        "query other starts at 1970-01-01T00:00:04.000001Z",
        "query added ends; its results stay",
    ]


def test_queries_of_a_run_that_ends_before_its_first_tick_are_restored(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, state = tmp_path / "s", tmp_path / "state"
    source.mkdir()
    text = f"CREATE STREAM s (ts BIGINT, v INT) FROM json OPTIONS (path '{source}', timestamp 'ts');"
    with Session(spark) as session:
        assert not session.is_written(state)
        session.execute(f"{text} CREATE QUERY q AS SELECT v FROM s")
        run = session.start(checkpoint=state)
        # -1 is before the first tick, which an empty folder may have or not
        assert "CREATE QUERY q" in History(Files(), str(state)).read(-1).script
        session.execute("CREATE QUERY later AS SELECT v FROM s WHERE v > 1")
        run.stop()
    (source / "1.json").write_text('{"ts": 1, "v": 1}\n{"ts": 2, "v": 2}\n')
    with Session(spark) as session:
        assert session.is_written(state)
        assert set(session.restore(state).catalog.queries) == {"q", "later"}
        run = session.start(checkpoint=state, until_done=True)
        assert run.wait(120)
        assert (rows_of(run, "q"), rows_of(run, "later")) == ([1, 2], [2])
