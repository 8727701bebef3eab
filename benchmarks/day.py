"""State over a day of event time: an interval join, sessions and top-k hold what their texts bound.

    python benchmarks/day.py [--rate 2] [--files 96] [--markdown] [--json FILE]

NEXMark events of 24 hours at RATE per second, a file, and so a tick, for every quarter of an hour. Each query
runs alone. State is what the manifest of a tick keeps: blocks of logs and queues, partial aggregates, and the
rows of tables. It is compared between the second hour, when windows of ten minutes are full, and the last.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from common import Tick, TickLog, markdown, spark_session, verdict
from headgate import Session
from headgate.workload.nexmark import DEFAULT_START_US, EventSequence, parse_rate
from headgate.workload.nexmark_files import DataSet

DAY_S = 86_400
MOST_GROWTH = 1.25
STREAMS = """
CREATE STREAM auction (id BIGINT, dateTime TIMESTAMP, seller BIGINT, category BIGINT)
  FROM parquet OPTIONS (path '{data}/auction', timestamp 'dateTime', maxFilesPerTrigger '1');
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP)
  FROM parquet OPTIONS (path '{data}/bid', timestamp 'dateTime', maxFilesPerTrigger '1');
"""
QUERIES = {
    "interval join": """
      SELECT a.id, b.price FROM auction AS a JOIN bid AS b
        ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.dateTime + INTERVAL 10 MINUTES
      INTO noop""",
    "outer interval join": """
      SELECT a.id, b.price FROM auction AS a LEFT JOIN bid AS b
        ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.dateTime + INTERVAL 10 MINUTES
      INTO noop""",
    "sessions": """
      SELECT bidder, COUNT(*) AS bids, MAX(price) AS highest FROM bid [SESSION 10 MINUTES] GROUP BY bidder
      INTO noop""",
    "top-k of windows": """
      SELECT auction, COUNT(*) AS bids FROM bid [TUMBLE 10 MINUTES] GROUP BY auction
      ORDER BY bids DESC LIMIT 10 INTO noop""",
    "top-k of all so far": """
      SELECT auction, price, place FROM (
        SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction % 10 ORDER BY price DESC) AS place
        FROM bid
      ) AS ranked WHERE place <= 10 INTO memory OPTIONS (mode 'latest')""",
}


def ticks_of(spark: SparkSession, data: Path, query: str) -> list[Tick]:
    """All ticks of a run over the day but the last, which ends all windows."""
    log = TickLog()
    session = Session(spark).execute(f"{STREAMS.format(data=data)}CREATE QUERY q AS {query};")
    run = session.start(until_done=True, observers=[log])
    run.wait()
    run.discard()
    return [tick for tick in log.ticks if tick.rows_in][:-1]


def state_bytes(ticks: list[Tick], from_hour: float, to_hour: float, files: int) -> int:
    """The most state after a tick of some hours."""
    chosen = ticks[round(from_hour * files / 24) : round(to_hour * files / 24)]
    return max(tick.window_bytes for tick in chosen)


def main() -> None:
    """Print state and its growth for each query; exit with 1 if one grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=parse_rate, default="2", help="events per second of event time")
    parser.add_argument("--files", type=int, default=96, help="files, and ticks, of the day")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    events, spark = round(DAY_S * given.rate), spark_session()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="headgate-day-") as folder:
        data = Path(folder) / "nexmark"
        DataSet(data, EventSequence(1, given.rate, DEFAULT_START_US), events, given.files).write()
        for name, query in QUERIES.items():
            ticks = ticks_of(spark, data, query)
            early = state_bytes(ticks, 1, 2, given.files)
            late = state_bytes(ticks, 22, 24, given.files)
            found[name] = {
                "ticks": len(ticks),
                "second_hour_kB": early / 1e3,
                "last_hours_kB": late / 1e3,
                "growth": late / max(early, 1),
            }
            if not given.markdown:
                print(f"{name}: {verdict(found[name]['growth'], MOST_GROWTH)}", flush=True)
    spark.stop()
    header = ("query", "ticks", "state in the second hour, kB", "state in the last hours, kB", "ratio")
    rows = []
    for name, one in found.items():
        states = (f"{one['second_hour_kB']:.1f}", f"{one['last_hours_kB']:.1f}")
        rows.append((name, int(one["ticks"]), *states, verdict(one["growth"], MOST_GROWTH)))
    print(markdown(header, rows))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2))
    if any(one["growth"] > MOST_GROWTH for one in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
