"""The NEXMark queries of the examples, against DuckDB over the same files."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate import Session
from headgate.workload.nexmark import DEFAULT_START_US, EventSequence
from headgate.workload.nexmark_files import DataSet

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "nexmark"
BUCKET = "time_bucket(INTERVAL 10 SECONDS, {})"
EXPECTED = {
    0: "SELECT auction, bidder, price, dateTime, extra FROM bid",
    1: "SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid",
    2: "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    3: """
      SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
      WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    5: """
      WITH ends AS (
        SELECT unnest(generate_series(time_bucket(INTERVAL 2 SECONDS, min(dateTime)),
                                      max(dateTime) + INTERVAL 10 SECONDS, INTERVAL 2 SECONDS)) AS e FROM bid
      ), counts AS (
        SELECT auction, COUNT(*) AS num, e FROM bid, ends
        WHERE dateTime >= e - INTERVAL 10 SECONDS AND dateTime < e GROUP BY ALL
      ) SELECT auction, num, e FROM counts QUALIFY rank() OVER (PARTITION BY e ORDER BY num DESC) = 1
    """,
    7: f"""
      SELECT auction, price, bidder, dateTime, extra FROM bid
      QUALIFY price = max(price) OVER (PARTITION BY {BUCKET.format("dateTime")})
    """,
    8: f"""
      SELECT DISTINCT p.id, p.name, {BUCKET.format("p.dateTime")}
      FROM person p JOIN auction a ON p.id = a.seller
      WHERE {BUCKET.format("p.dateTime")} = {BUCKET.format("a.dateTime")}
    """,
    10: """
      SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d'),
        strftime(dateTime, '%H:%M') FROM bid
    """,
    11: """
      WITH marked AS (
        SELECT *, CASE WHEN dateTime - lag(dateTime) OVER w < INTERVAL 10 SECONDS THEN 0 ELSE 1 END AS starts
        FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY dateTime)
      ), numbered AS (SELECT *, SUM(starts) OVER (PARTITION BY bidder ORDER BY dateTime) AS g FROM marked)
      SELECT bidder, COUNT(*), MIN(dateTime), MAX(dateTime) + INTERVAL 10 SECONDS
      FROM numbered GROUP BY bidder, g
    """,
    12: f"""
      SELECT bidder, COUNT(*), {BUCKET.format("dateTime")} AS b, b + INTERVAL 10 SECONDS FROM bid GROUP BY ALL
    """,
    13: """
      SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % 10000 = key
    """,
    14: """
      SELECT auction, bidder, 0.908 * price,
        CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
             WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
        dateTime, extra, length(extra) - length(replace(extra, 'c', ''))
      FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    20: """
      SELECT auction, bidder, price, channel, url, bid.dateTime, itemName, seller, category
      FROM bid JOIN auction ON auction = id WHERE category = 10
    """,
    21: """
      WITH numbered AS (
        SELECT *, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
          WHEN 'baidu' THEN '3' ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS id FROM bid
      ) SELECT auction, bidder, price, channel, id FROM numbered WHERE id <> ''
    """,
    22: """
      SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5),
        split_part(url, '/', 6) FROM bid
    """,
    23: """
      SELECT bidder, price, channel, name, city, state, itemName, initialBid, category
      FROM bid JOIN person ON bidder = person.id JOIN auction ON seller = person.id
    """,
}


def test_queries_give_what_duckdb_gives(spark: SparkSession, tmp_path: Path, run_seed: int) -> None:
    rng = Random(run_seed)
    data = tmp_path / "nexmark"
    # slow enough for several windows, and for the hours of a day
    sequence = EventSequence(rng.randrange(1000), rng.choice((Fraction(20), Fraction(100))), DEFAULT_START_US)
    DataSet(data, sequence, events=2_000, files=3).write()
    session = Session(spark)
    for number in EXPECTED:
        path = EXAMPLES / f"q{number}.sql"
        text = path.read_text().replace("'nexmark/", f"'{data}/").replace("'out/", f"'{tmp_path}/out/")
        # several ticks, and each stream once
        text = text.replace("timestamp 'dateTime'", "timestamp 'dateTime', maxFilesPerTrigger '1'")
        text = text.replace("CREATE STREAM", "CREATE STREAM IF NOT EXISTS")
        session.execute(text.replace("CREATE RELATION", "CREATE RELATION IF NOT EXISTS"), origin=str(path))
    run = session.start(until_done=True, strategy=rng.choice(("fifo", "chain", "path-capacity")))
    assert run.wait(400)
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for name in ("person", "auction", "bid", "side_input"):
        duck.execute(f"CREATE VIEW {name} AS FROM '{data}/{name}/*.parquet'")
    for number, query in EXPECTED.items():
        found = spark.read.parquet(f"{tmp_path}/out/q{number}").toArrow()
        wanted = duck.sql(query).to_arrow_table()
        if number == 10:
            # the column of folders comes last, and as a date
            found = found.select([*found.column_names[:5], "day", "minute"])
        assert sorted_rows(found) == sorted_rows(wanted), f"q{number}"


def sorted_rows(table: pa.Table) -> list[tuple[str, ...]]:
    columns = (column.to_pylist() for column in table.columns)
    return sorted(zip(*([str(one) for one in column] for column in columns), strict=True))
