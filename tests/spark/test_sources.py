"""Sources: a stream over one file, and the time zone of timestamps that name none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate import Session
from headgate.spark.application.cluster import private_session

pytestmark = pytest.mark.spark

TIMEOUT_S = 180


def test_a_stream_may_be_a_single_file(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "my data (1)"
    folder.mkdir()
    for name, first in (("here", 0), ("there", 100)):
        rows = range(first, first + 3)
        (folder / f"{name}.csv").write_text("".join(f"{n},{n}\n" for n in rows))
        (folder / f"{name}.json").write_text("".join(json.dumps({"ts": n, "n": n}) + "\n" for n in rows))
        pq.write_table(pa.table({"ts": list(rows), "n": list(rows)}), folder / f"{name}.parquet")
    session = Session(spark).execute(
        f"CREATE STREAM a (ts BIGINT, n INT) FROM csv '{folder}/here.csv' OPTIONS (timestamp 'ts');"
        f"CREATE STREAM b (ts BIGINT, n INT) FROM json OPTIONS (path '{folder}/here.json', timestamp 'ts');"
        f"CREATE STREAM c FROM parquet '{folder}/here.parquet' OPTIONS (timestamp 'ts');"
        f"CREATE STREAM d FROM parquet 'file:{folder}/there.parquet';"
        + "".join(f"CREATE QUERY of_{name} AS SELECT n FROM {name};" for name in "abcd")
    )
    run = session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert run.wait(TIMEOUT_S)
    found = {name: sorted(n for (n,) in run.results(f"of_{name}").select("n").collect()) for name in "abcd"}
    assert found == {"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 2], "d": [100, 101, 102]}
    # the file is not read again when the run goes on
    again = session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert again.wait(TIMEOUT_S)
    assert {name: counts.rows_in for name, counts in again.status().streams.items()} == dict.fromkeys(
        "abcd", 0
    )


NAMES = ("a#1", "a#2", "b?", "c%20d", "c d", "e[1]", "f{x}", "g*", "h+i")


def test_file_names_are_names_whatever_letters_they_have(spark: SparkSession, tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        (tmp_path / kind).mkdir()
    for n, name in enumerate(NAMES):
        (tmp_path / f"csv/{name}.csv").write_text(f"{n},{n}\n")
        pq.write_table(pa.table({"ts": [n], "n": [n]}), tmp_path / f"parquet/{name}.parquet")
    # one that cannot be read makes the others be read on their own
    (tmp_path / "parquet/z#z.parquet").write_text("not Parquet")
    session = Session(spark).execute(
        "".join(
            f"CREATE STREAM {kind}s (ts BIGINT, n BIGINT) FROM {kind} '{tmp_path}/{kind}' "
            f"OPTIONS (timestamp 'ts', watermark '1 h'); CREATE QUERY of_{kind} AS SELECT n FROM {kind}s;"
            for kind in ("csv", "parquet")
        )
    )
    run = session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert run.wait(TIMEOUT_S)
    for kind in ("csv", "parquet"):
        found = sorted(n for (n,) in run.results(f"of_{kind}").select("n").collect())
        assert found == list(range(len(NAMES)))
    [letter] = run.dead_letters().collect()
    assert json.loads(letter.row)["file"].endswith("/z#z.parquet")


# in New York, 2:30 on that day is no time at all
MOMENT, MOMENT_S = "2026-03-08 02:30:00", 1_772_937_000
SCRIPT = """
CREATE STREAM texts (ts TIMESTAMP, day DATE) FROM csv 'in/t.csv' OPTIONS (timestamp 'ts');
CREATE STREAM objects (ts TIMESTAMP, day DATE) FROM json 'in/t.json' OPTIONS (timestamp 'ts');
CREATE STREAM days (ts TIMESTAMP, day DATE) FROM csv 'in/t.csv' OPTIONS (timestamp 'day');
CREATE STREAM zoned (ts TIMESTAMP, day DATE) FROM csv 'in/t.csv'
  OPTIONS (timestamp 'ts', timeZone 'Asia/Tokyo');
CREATE STREAM plain (ts TIMESTAMP_NTZ) FROM parquet 'in/t.parquet' OPTIONS (timestamp 'ts');
"""
QUERY = (
    "CREATE QUERY of_{0} AS SELECT unix_seconds(CAST(ts AS TIMESTAMP)) AS s, hour(ts) AS h FROM {0} "
    "INTO json 'out/{0}';\n"
)


def test_timestamps_without_a_zone_are_utc_wherever_the_machine_is(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/t.csv").write_text(f"{MOMENT},2026-03-08\n")
    (tmp_path / "in/t.json").write_text(json.dumps({"ts": MOMENT, "day": "2026-03-08"}) + "\n")
    naive = pa.array([MOMENT_S * 10**6], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": naive}), tmp_path / "in/t.parquet")
    names = ("texts", "objects", "days", "zoned", "plain")
    (tmp_path / "q.sql").write_text(SCRIPT + "".join(map(QUERY.format, names)))
    command = [sys.executable, "-m", "headgate", "run", "q.sql", "--until-done"]
    environment = {**os.environ, "TZ": "America/New_York"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for name in names:
        [line] = [
            row for path in (tmp_path / "out" / name).glob("*.json") for row in path.read_text().splitlines()
        ]
        found[name] = json.loads(line)
    utc = {"s": MOMENT_S, "h": 2}
    assert {name: {key: row[key] for key in utc} for name, row in found.items()} == {
        **dict.fromkeys(("texts", "objects", "days", "plain"), utc),
        "zoned": {"s": MOMENT_S - 9 * 3600, "h": 17},
    }
    assert found["texts"]["ts"].startswith("2026-03-08T02:30:00.000Z")
    assert found["days"]["ts"].startswith("2026-03-08T00:00:00.000Z")


def test_a_session_with_a_time_zone_of_its_own_keeps_it(spark: SparkSession) -> None:
    key = "spark.sql.session.timeZone"
    assert private_session(spark).conf.get(key) == "UTC"
    given = spark.newSession()
    given.conf.set(key, "Asia/Tokyo")
    assert private_session(given).conf.get(key) == "Asia/Tokyo"
